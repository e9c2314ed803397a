-- Writes to a sorted set (ZADD) or a row (HSET), also when Redis is out of memory: jobs must still get out of a full
-- Redis. It rejects a write that takes memory, unless the script has already made a write that takes none.
local function write(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'OOM', 1, true) then redis.call(command == 'ZADD' and 'ZREM' or 'HDEL', key, '') end
  return redis.call(command, key, ...)
end
