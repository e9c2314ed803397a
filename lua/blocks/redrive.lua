-- Moves a dead job to pending with a fresh budget. Returns its state if it is not dead.
local function redrive(id, row, keys)
  local state, attempts, startBy = unpack(redis.call('HMGET', row, 'state', 'attempts', 'start_by'))
  if state ~= 'dead' then return state or 'unknown' end
  redis.call('ZADD', keys.pending, 0, id)
  redis.call('ZREM', keys.dead, id)
  redis.call('HSET', row, 'state', 'pending', 'base', attempts or '0', 'since', ms(clock()))
  redis.call('HDEL', row, 'lapsed', 'lapses', 'start_by', 'died_at')
  if startBy then redis.call('ZREM', keys.startBy, id) end
end
