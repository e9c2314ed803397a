-- Moves jobs that nobody will claim to dead. The caller removes their ids from the set they were in and from start-by.
local function bury(ids, reason, keys, jobPrefix, now)
  local entries = {}
  for _, id in ipairs(ids) do
    write('HSET', jobPrefix .. id, 'state', 'dead', 'died_at', ms(now), 'last_error', reason)
    append(entries, 0, id)
  end
  chunked('ZADD', keys.dead, entries)
  count(keys.failed, #ids)
end
