-- reschedule: moves a scheduled job to another time; if that time has come, to pending.
-- MOVE: scheduled -> scheduled | pending
-- KEYS:
--   schedule  emq:{q}:schedule
--   pending   emq:{q}:pending
--   row       emq:{q}:job:<id>
-- ARGV:
--   id
--   delayMs  ms from now; empty with a runAt
--   runAt    epoch ms; empty with a delayMs
-- REPLIES:
--   {pending, 0} | {scheduled, run-at in ms}
--   {gone, 0}
--   EMQSTATE job is <state>
-- REPEATABLE: yes; a delayMs counts from the repeat
-- COST: 4 commands (HEXISTS, HGET, TIME, ZADD); 6 if the time has come (ZREM and HSET as well); 2 if rejected
-- prologue
local keys = {schedule = KEYS[1], pending = KEYS[2], row = KEYS[3]}
local args = {id = ARGV[1], delayMs = ARGV[2], runAt = ARGV[3]}
-- end: prologue
-- block: read
-- Reads a row. A key of another type is not a row: nil. Any other error is raised.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
-- block: clock
-- The clock of the server in ms. It is read once: one run of a script has one instant.
local instant
local function clock()
  if not instant then
    local t = redis.call('TIME')
    instant = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return instant
end
-- end: clock
-- block: ms
-- An instant in ms as text: Lua itself writes large numbers with an exponent.
local function ms(instant)
  return string.format('%.0f', instant)
end
-- end: ms
-- block: isJob
-- A job exists if it has a row with a payload.
local function isJob(row)
  return read('HEXISTS', row, 'payload') == 1
end
-- end: isJob

if not isJob(keys.row) then return {'gone', 0} end
local state = redis.call('HGET', keys.row, 'state')
if state ~= 'scheduled' then return redis.error_reply('EMQSTATE job is ' .. (state or 'unknown')) end

local runAt = tonumber(args.runAt) or clock() + tonumber(args.delayMs)
if runAt > clock() then
  redis.call('ZADD', keys.schedule, runAt, args.id)
  return {'scheduled', runAt}
end
redis.call('ZADD', keys.pending, 0, args.id)
redis.call('ZREM', keys.schedule, args.id)
redis.call('HSET', keys.row, 'state', 'pending', 'since', ms(clock()))
return {'pending', 0}
