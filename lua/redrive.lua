-- redrive: brings a dead job back to pending with a fresh retry budget; its token goes on rising.
-- MOVE: dead -> pending
-- KEYS: emq:{q}:dead emq:{q}:pending emq:{q}:job:<id> emq:{q}:start-by
-- ARGV: id
-- REPLIES: 1 = redriven; 0 = gone; EMQSTATE job is <state>
-- REPEATABLE: yes, a repeat is refused as EMQSTATE job is pending
-- COST: 6 commands (HEXISTS, HMGET, ZADD, ZREM, HSET, HDEL)
-- block: read
-- Reads a row. A key of another type than a hash is no row: nil. Any other error is one.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
if read('HEXISTS', KEYS[3], 'payload') ~= 1 then return 0 end
-- block: redrive
local function redrive(dead, pending, start_by, key, id)
  local row = redis.call('HMGET', key, 'state', 'attempts', 'start_by')
  if row[1] ~= 'dead' then return row[1] or 'unknown' end
  redis.call('ZADD', pending, 0, id)
  redis.call('ZREM', dead, id)
  redis.call('HSET', key, 'state', 'pending', 'base', row[2] or '0')
  redis.call('HDEL', key, 'lapsed', 'lapses', 'start_by')
  if row[3] then redis.call('ZREM', start_by, id) end
end
-- end: redrive
local state = redrive(KEYS[1], KEYS[2], KEYS[4], KEYS[3], ARGV[1])
if state then return redis.error_reply('EMQSTATE job is ' .. state) end
return 1
