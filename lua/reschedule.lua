-- reschedule: moves a scheduled job to another time; a time that has come puts it into pending.
-- MOVE: scheduled -> scheduled | pending
-- KEYS: emq:{q}:schedule emq:{q}:pending emq:{q}:job:<id>
-- ARGV: id, delayMs (empty with a runAt), runAt (ms, empty with a delayMs)
-- REPLIES: {pending, 0} | {scheduled, run-at in ms}; {gone, 0}; EMQSTATE job is <state>
-- REPEATABLE: yes; by delayMs the time is counted anew
-- COST: 4 commands (HEXISTS, HGET, TIME, ZADD); 6 for a time that has come (ZREM and HSET as well); 2 when refused
-- block: read
-- Reads a row. A key of another type than a hash is no row: nil. Any other error is one.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
if read('HEXISTS', KEYS[3], 'payload') ~= 1 then return {'gone', 0} end
local state = redis.call('HGET', KEYS[3], 'state')
if state ~= 'scheduled' then return redis.error_reply('EMQSTATE job is ' .. (state or 'unknown')) end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local run_at = tonumber(ARGV[3]) or now + tonumber(ARGV[2])
if run_at > now then
  redis.call('ZADD', KEYS[1], run_at, ARGV[1])
  return {'scheduled', run_at}
end
redis.call('ZADD', KEYS[2], 0, ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[3], 'state', 'pending')
return {'pending', 0}
