-- postpone: plans the next visits to queues in the registry, unless somebody has enqueued since the plan was read.
-- MOVE: none
-- KEYS: {emq}:queues
-- ARGV EACH: queue, seenScore (as it was read), nextVisitAt (ms)
-- REPLIES: number of queues whose visit was planned
-- REPEATABLE: yes, a score that has changed since is left alone
-- COST: 2 commands a queue (ZSCORE, ZADD)
local planned = 0
for i = 1, #ARGV, 3 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    redis.call('ZADD', KEYS[1], ARGV[i + 2], ARGV[i])
    planned = planned + 1
  end
end
return planned
