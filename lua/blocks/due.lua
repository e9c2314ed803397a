-- The ids of a set whose score is not later than now, at most `limit` of them; and 1 if there are more, else 0.
local function due(set, now, limit)
  local ids = redis.call('ZRANGE', set, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit + 1)
  if #ids <= limit then return ids, 0 end
  ids[#ids] = nil
  return ids, 1
end
