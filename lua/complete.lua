-- complete: retires a job that its holder has finished; nothing of it remains.
-- MOVE: active -> none; pending, scheduled or dead -> none for the last holder of a lease that lapsed
-- KEYS: emq:{q}:active emq:{q}:job:<id> emq:{q}:pending emq:{q}:schedule emq:{q}:dead emq:{q}:metrics:completed emq:{q}:metrics:ghosts emq:{q}:start-by
-- ARGV: id, token
-- REPLIES: 1 = retired; 0 = gone, there is no such job; EMQSTALE complete token mismatch, followed by (released) when the holder gave the job back
-- REPEATABLE: yes, a repeat answers 0
-- COST: 4 commands (HMGET, ZREM, DEL, HINCRBY), one more for a job with a startBy; 2 when gone (HMGET, DEL); 1 when refused
-- block: read
-- Reads a row. A key of another type than a hash is no row: nil. Any other error is one.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
local row = read('HMGET', KEYS[2], 'payload', 'attempts', 'state', 'lapsed', 'start_by') or {}
local set = ({active = KEYS[1], pending = KEYS[3], scheduled = KEYS[4], dead = KEYS[5]})[row[3]]
if not row[1] then
  -- What is left of a ghost is taken away, and the id with it.
  if redis.call('DEL', KEYS[2]) == 1 then
    if set then redis.call('ZREM', set, ARGV[1]) end
    redis.pcall('HINCRBY', KEYS[7], 'count', 1)
  end
  return 0
end
if ARGV[2] ~= row[2] or ARGV[2] == '0' then
  return redis.error_reply('EMQSTALE complete token mismatch')
end
-- With the mark, the reaper took the lease away and nobody has claimed since: the work is done, and nobody else has it.
if row[3] ~= 'active' and row[4] ~= ARGV[2] then
  return redis.error_reply('EMQSTALE complete token mismatch (released)')
end
if set then redis.call('ZREM', set, ARGV[1]) end
redis.call('DEL', KEYS[2])
if row[5] then redis.call('ZREM', KEYS[8], ARGV[1]) end
redis.pcall('HINCRBY', KEYS[6], 'count', 1)
return 1
