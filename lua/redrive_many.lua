-- redrive_many: moves dead jobs back to pending, by mint time and error text; reads a bounded number of jobs.
-- MOVE: dead -> pending
-- KEYS:
--   dead     emq:{q}:dead
--   pending  emq:{q}:pending
--   startBy  emq:{q}:start-by
-- ARGV:
--   jobPrefix
--   limit          jobs to redrive
--   from           lex bound: -, [id or (id
--   to             lex bound: +, [id or (id
--   scan           jobs to read
--   errorContains  bytes; empty = any
--   dryRun         1 = change nothing
-- REPLIES:
--   {redriven, last id read or empty, 1 if there are more to read}
-- REPEATABLE: yes, a redriven job is no longer dead
-- COST:
--   1 command (ZRANGE)
--   then 1 for each job read (HMGET), 6 a redriven job (HEXISTS, HMGET, ZADD, ZREM, HSET, HDEL) and 1 a run (TIME)
-- prologue
local keys = {dead = KEYS[1], pending = KEYS[2], startBy = KEYS[3]}
local args = {
  jobPrefix = ARGV[1], limit = ARGV[2], from = ARGV[3], to = ARGV[4], scan = ARGV[5], errorContains = ARGV[6],
  dryRun = ARGV[7],
}
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

local limit, scan = tonumber(args.limit), tonumber(args.scan)
local ids = redis.call('ZRANGE', keys.dead, args.from, args.to, 'BYLEX', 'LIMIT', 0, scan + 1)
local redriven, last, looked = 0, '', 0
for _, id in ipairs(ids) do
  if looked == scan or redriven == limit then break end
  looked = looked + 1
  last = id
  local row = args.jobPrefix .. id
  local state, lastError = unpack(read('HMGET', row, 'state', 'last_error') or {})
  local matches = args.errorContains == '' or string.find(lastError or '', args.errorContains, 1, true)
  if state == 'dead' and matches and isJob(row) then
    redriven = redriven + 1
    if args.dryRun ~= '1' then redrive(id, row, keys) end
  end
end
return {redriven, last, #ids > looked and 1 or 0}
