-- Moves due ids from schedule to pending. Returns the number of moved jobs and of ghosts.
local function promote(ids, keys, jobPrefix, now)
  local moved, dropped = {}, 0
  for _, id in ipairs(ids) do
    local row = jobPrefix .. id
    if isJob(row) then
      local state = redis.call('HGET', row, 'state')
      local stays = state == 'active' or state == 'dead'
      -- If the caller passed no key of that set, the row alone decides.
      local home = stays and setOf(state, keys)
      if home then stays = livesElsewhere(id, keys.schedule, home) end
      if not stays then
        if state ~= 'pending' then write('HSET', row, 'state', 'pending', 'since', ms(now)) end
        append(moved, 0, id)
      end
    else
      removeGhost(row)
      dropped = dropped + 1
    end
  end
  chunked('ZADD', keys.pending, moved)
  chunked('ZREM', keys.schedule, ids)
  count(keys.ghosts, dropped)
  return #moved / 2, dropped
end
