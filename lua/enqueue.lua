-- enqueue: puts a new job into pending.
-- MOVE: none -> pending
-- KEYS: emq:{q}:job:<id> emq:{q}:pending
-- ARGV: id, payload (bytes, stored as they are)
-- REPLIES: 1 = enqueued; 0 = duplicate, nothing changed; EMQKIND job id must be JOB-namespaced
-- REPEATABLE: yes, a repeat answers 0 while the job lives
-- COST: 3 commands (HKEYS, HSET, ZADD); 1 for a duplicate
if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
local fields = redis.call('HKEYS', KEYS[1])
for _, field in ipairs(fields) do
  if field == 'payload' then return 0 end
end
-- A row without a payload is what is left of a ghost: it must not lend its counter to the new job.
if #fields > 0 then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'state', 'pending', 'attempts', '0', 'payload', ARGV[2])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1
