-- The lowest score of a set; nil if the set is empty.
local function firstScore(set)
  return tonumber(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2])
end
