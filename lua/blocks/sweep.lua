-- Promotes due jobs and reaps lapsed ones, at most `limit` of each. Returns the counts, and when the next job is due
-- and the next lease lapses, which the caller passes as they were before.
local function sweep(keys, jobPrefix, policy, now, jitter, limit, nextDue, nextLapse)
  local swept = {promoted = 0, reaped = 0, died = 0, dropped = 0}
  if nextDue and nextDue <= now then
    local ids = due(keys.schedule, now, limit)
    swept.promoted, swept.dropped = promote(ids, keys, jobPrefix, now)
    nextDue = firstScore(keys.schedule)
  end
  if nextLapse and nextLapse <= now then
    local ids = due(keys.active, now, limit)
    local died, dropped = reap(ids, keys, jobPrefix, policy, now, jitter)
    swept.reaped, swept.died, swept.dropped = #ids, died, swept.dropped + dropped
    nextLapse = firstScore(keys.active)
    -- A job that lapsed again is in schedule now.
    nextDue = firstScore(keys.schedule)
  end
  return swept, nextDue, nextLapse
end
