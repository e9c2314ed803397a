-- complete: retires a job that its holder has finished; nothing of it remains.
-- MOVE: active -> none; pending, scheduled or dead -> none for the last holder of a lease that lapsed
-- KEYS: emq:{q}:active emq:{q}:job:<id> emq:{q}:pending emq:{q}:schedule emq:{q}:dead emq:{q}:metrics:completed emq:{q}:metrics:ghosts emq:{q}:start-by
-- ARGV: id, token
-- REPLIES: 1 = retired; 0 = gone, there is no such job; EMQSTALE complete token mismatch, followed by (released) when the holder gave the job back
-- REPEATABLE: yes, a repeat answers 0
-- COST: 4 commands (HMGET, ZREM, DEL, HINCRBY); 6 after a lapse; 1 when refused
local row = redis.call('HMGET', KEYS[2], 'payload', 'attempts', 'state', 'lapsed', 'start_by')
if not row[1] then
  -- A claim that met a ghost left a counter behind: take it away, and the id with it.
  if row[2] or row[3] then
    redis.call('DEL', KEYS[2])
    redis.call('ZREM', KEYS[1], ARGV[1])
    redis.call('HINCRBY', KEYS[7], 'count', 1)
  end
  return 0
end
if ARGV[2] ~= row[2] or ARGV[2] == '0' then
  return redis.error_reply('EMQSTALE complete token mismatch')
end
if row[3] == 'active' then
  redis.call('ZREM', KEYS[1], ARGV[1])
elseif row[4] == ARGV[2] then
  -- The reaper took the lease away and nobody has claimed since: the work is done, and nobody else has it.
  redis.call('ZREM', KEYS[3], ARGV[1])
  redis.call('ZREM', KEYS[4], ARGV[1])
  redis.call('ZREM', KEYS[5], ARGV[1])
else
  return redis.error_reply('EMQSTALE complete token mismatch (released)')
end
redis.call('DEL', KEYS[2])
if row[5] then redis.call('ZREM', KEYS[8], ARGV[1]) end
redis.call('HINCRBY', KEYS[6], 'count', 1)
return 1
