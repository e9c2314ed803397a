-- retry: gives a failed job back, to run again later, or to be dead if its budget is used up.
-- MOVE: active -> scheduled | dead
-- KEYS:
--   active    emq:{q}:active
--   schedule  emq:{q}:schedule
--   dead      emq:{q}:dead
--   row       emq:{q}:job:<id>
--   failed    emq:{q}:metrics:failed
--   meta      emq:{q}:meta
-- ARGV:
--   id
--   token
--   delayMs      ms; empty = the queue's backoff
--   maxAttempts  0 = no limit; empty = the job's, else the queue's
--   error        text
--   jitter?      0 <= jitter < 1; asks for the extended form
-- REPLIES:
--   scheduled | dead
--   extended {scheduled, delay in ms} | {dead, 0}
--   EMQSTALE retry token mismatch, followed by (lapsed) or (released) where that is the reason
--   EMQSTALE job gone
-- REPEATABLE: yes, a repeat is rejected as (released)
-- COST:
--   5 commands (HMGET, TIME, ZADD, ZREM, HSET); 1 if rejected
--   1 more to read the queue's policy (HMGET), 1 more to count a dead job (HINCRBY)
-- prologue
local keys = {active = KEYS[1], schedule = KEYS[2], dead = KEYS[3], row = KEYS[4], failed = KEYS[5], meta = KEYS[6]}
local args = {
  id = ARGV[1], token = ARGV[2], delayMs = ARGV[3], maxAttempts = ARGV[4], error = ARGV[5], jitter = ARGV[6],
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
-- block: write
-- Writes to a sorted set (ZADD) or a row (HSET), also when Redis is out of memory: jobs must still get out of a full
-- Redis. It rejects a write that takes memory, unless the script has already made a write that takes none.
local function write(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'OOM', 1, true) then redis.call(command == 'ZADD' and 'ZREM' or 'HDEL', key, '') end
  return redis.call(command, key, ...)
end
-- end: write
-- block: append
-- Appends values to a list, for example a score and an id, as ZADD takes them.
local function append(list, ...)
  for _, value in ipairs({...}) do list[#list + 1] = value end
end
-- end: append
-- block: count
-- Adds to a counter. No move depends on a counter: one that cannot be written is skipped.
local function count(counter, number)
  if counter and number > 0 then redis.pcall('HINCRBY', counter, 'count', number) end
end
-- end: count
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
-- block: whole
-- The number in a setting or a row: whole and not negative; nil for anything else.
local function whole(text)
  local number = tonumber(text)
  if number and number >= 0 and number < 2 ^ 53 and number == math.floor(number) then return number end
end
-- end: whole
-- block: ms
-- An instant in ms as text: Lua itself writes large numbers with an exponent.
local function ms(instant)
  return string.format('%.0f', instant)
end
-- end: ms
-- block: staleness
-- Why a token is stale: superseded, released or lapsed; nil for the token of the current lease.
local function staleness(token, attempts, state, lapsed)
  if token ~= attempts or token == '0' then return 'superseded' end
  if state == 'active' then return nil end
  return lapsed == token and 'lapsed' or 'released'
end
-- end: staleness
-- block: stale
-- The error reply to a stale token.
local function stale(move, reason)
  local suffix = reason == 'superseded' and '' or ' (' .. reason .. ')'
  return redis.error_reply('EMQSTALE ' .. move .. ' token mismatch' .. suffix)
end
-- end: stale
-- block: policyOf
-- The retry policy of a queue from its settings, with the defaults of those that are absent or malformed.
local function policyOf(maxAttempts, backoffBaseMs, backoffMaxMs)
  return {
    maxAttempts = whole(maxAttempts) or 5,
    backoffBaseMs = whole(backoffBaseMs) or 1000,
    backoffMaxMs = whole(backoffMaxMs) or 600000,
  }
end
-- end: policyOf
-- block: budget
-- The budget of a job: attempts used, how many it may use (0 = no limit), and whether all of them are used. The limit
-- is the value of the call, else the job's, else the queue's.
local function budget(attempts, base, ofCall, ofJob, policy)
  local used = (whole(attempts) or 0) - (whole(base) or 0)
  local limit = tonumber(ofCall) or whole(ofJob) or policy.maxAttempts
  return used, limit, limit > 0 and used >= limit
end
-- end: budget
-- block: backoff
-- The longest delay in ms before the next attempt: it doubles with each attempt, up to a maximum.
local function backoff(used, policy)
  return math.min(policy.backoffMaxMs, policy.backoffBaseMs * 2 ^ math.max(0, math.min(used - 1, 40)))
end
-- end: backoff
-- block: failure
-- The fields that record a failure: the last error, and a ring of the last five with attempt, instant and error.
local function failure(attempt, now, error, failures)
  local nth = (whole(failures) or 0) + 1
  local entry = attempt .. ' ' .. ms(now) .. ' ' .. error
  return 'last_error', error, 'failures', nth, 'error:' .. nth % 5, entry
end
-- end: failure

local payload, attempts, state, lapsed, base, maxAttempts, failures, lastError = unpack(read('HMGET', keys.row,
  'payload', 'attempts', 'state', 'lapsed', 'base', 'max_attempts', 'failures', 'last_error') or {})
if not payload then return redis.error_reply('EMQSTALE job gone') end
local reason = staleness(args.token, attempts, state, lapsed)
if reason then return stale('retry', reason) end

local settings = {}
if args.delayMs == '' or args.maxAttempts == '' then
  settings = redis.call('HMGET', keys.meta, 'maxAttempts', 'backoffBaseMs', 'backoffMaxMs')
end
local policy = policyOf(unpack(settings))
local used, _, isSpent = budget(attempts, base, args.maxAttempts, maxAttempts, policy)
local delay = tonumber(args.delayMs) or math.floor(backoff(used, policy) * (tonumber(args.jitter) or 1))
local now, newState = clock(), 'scheduled'

if isSpent then
  newState, delay = 'dead', 0
  write('ZADD', keys.dead, 0, args.id)
  count(keys.failed, 1)
else
  write('ZADD', keys.schedule, now + delay, args.id)
end
redis.call('ZREM', keys.active, args.id)
if args.jitter or lastError then
  local fields = {'state', newState, failure(attempts, now, args.error, failures)}
  if isSpent then append(fields, 'died_at', ms(now)) end
  redis.call('HSET', keys.row, unpack(fields))
else
  -- In the short form a first failure adds no other field: other clients compare the whole row.
  redis.call('HSET', keys.row, 'state', newState, 'last_error', args.error)
end
return args.jitter and {newState, delay} or newState
