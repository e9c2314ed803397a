-- redrive: moves a dead job back to pending with a fresh budget; its token continues to rise.
-- MOVE: dead -> pending
-- KEYS:
--   dead     emq:{q}:dead
--   pending  emq:{q}:pending
--   row      emq:{q}:job:<id>
--   startBy  emq:{q}:start-by
-- ARGV:
--   id
-- REPLIES:
--   1 = redriven
--   0 = gone
--   EMQSTATE job is <state>
-- REPEATABLE: yes, a repeat is rejected as EMQSTATE job is pending
-- COST: 7 commands (HEXISTS, HMGET, ZADD, ZREM, TIME, HSET, HDEL)
-- prologue
local keys = {dead = KEYS[1], pending = KEYS[2], row = KEYS[3], startBy = KEYS[4]}
local args = {id = ARGV[1]}
-- end: prologue
-- block: read
-- Reads a row. A key of another type is not a row: nil. Any other error is raised.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
-- block: isJob
-- A job exists if it has a row with a payload.
local function isJob(row)
  return read('HEXISTS', row, 'payload') == 1
end
-- end: isJob
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
-- block: redrive
-- Moves a dead job to pending with a fresh budget. Returns its state if it is not dead.
local function redrive(id, row, keys)
  local state, attempts, startBy = unpack(redis.call('HMGET', row, 'state', 'attempts', 'start_by'))
  if state ~= 'dead' then return state or 'unknown' end
  redis.call('ZADD', keys.pending, 0, id)
  redis.call('ZREM', keys.dead, id)
  redis.call('HSET', row, 'state', 'pending', 'base', attempts or '0', 'since', ms(clock()))
  redis.call('HDEL', row, 'lapsed', 'lapses', 'start_by', 'died_at')
  if startBy then redis.call('ZREM', keys.startBy, id) end
end
-- end: redrive

if not isJob(keys.row) then return 0 end
local state = redrive(args.id, keys.row, keys)
if state then return redis.error_reply('EMQSTATE job is ' .. state) end
return 1
