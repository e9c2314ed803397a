-- enqueue: puts a new job into pending.
-- MOVE: none -> pending
-- KEYS: emq:{q}:job:<id> emq:{q}:pending
-- ARGV: id, payload (bytes, stored as they are)
-- REPLIES: 1 = enqueued; 0 = duplicate, nothing changed; EMQKIND job id must be JOB-namespaced
-- REPEATABLE: yes, a repeat answers 0 while the job lives
-- COST: 3 commands (HKEYS, ZADD, HSET); 1 for a duplicate
if string.sub(ARGV[1], 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
-- block: read
-- Reads a row. A key of another type than a hash is no row: nil. Any other error is one.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
local fields = read('HKEYS', KEYS[1])
for _, field in ipairs(fields or {}) do
  if field == 'payload' then return 0 end
end
-- The set first: what breaks off in between leaves an id that any claim drops, and not a row that blocks its id.
redis.call('ZADD', KEYS[2], 0, ARGV[1])
-- What is left of a ghost, a row without a payload, must not lend its counter to the new job.
if not fields or #fields > 0 then redis.call('DEL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'state', 'pending', 'attempts', '0', 'payload', ARGV[2])
return 1
