-- postpone: plans the next visits to queues in the registry, unless a caller has enqueued since the registry was read.
-- MOVE: none
-- KEYS:
--   queues  {emq}:queues
-- ARGV EACH:
--   queue
--   seenScore    as it was read
--   nextVisitAt  epoch ms
-- REPLIES:
--   number of queues whose visit was planned
-- REPEATABLE: yes, a score that has changed since is kept
-- COST: 2 commands a queue (ZSCORE, ZADD)
-- prologue
local keys = {queues = KEYS[1]}
local items = {}
for nth = 1, #ARGV / 3 do
  local at = (nth - 1) * 3
  items[nth] = {queue = ARGV[at + 1], seenScore = ARGV[at + 2], nextVisitAt = ARGV[at + 3]}
end
-- end: prologue

local planned = 0
for _, item in ipairs(items) do
  if redis.call('ZSCORE', keys.queues, item.queue) == item.seenScore then
    redis.call('ZADD', keys.queues, item.nextVisitAt, item.queue)
    planned = planned + 1
  end
end
return planned
