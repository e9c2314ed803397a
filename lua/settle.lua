-- settle: ends or extends the leases of many jobs, each by its own action; each item has its own reply.
-- MOVE:
--   active -> none (complete), scheduled | dead (retry), dead (fail), pending | scheduled (release), active (extend)
--   pending | scheduled | dead -> none (complete) for the last holder after a lapse
-- KEYS:
--   active     emq:{q}:active
--   pending    emq:{q}:pending
--   schedule   emq:{q}:schedule
--   dead       emq:{q}:dead
--   completed  emq:{q}:metrics:completed
--   failed     emq:{q}:metrics:failed
--   ghosts     emq:{q}:metrics:ghosts
--   meta       emq:{q}:meta
--   startBy    emq:{q}:start-by
-- KEYS EACH:
--   row        emq:{q}:job:<id>
-- ARGV EACH:
--   action       complete | retry | fail | release | extend
--   id
--   token
--   ms           retry: delay, empty = the queue's backoff; release: delay; extend: lease
--   maxAttempts  retry: 0 = no limit; empty = the job's, else the queue's
--   error        retry and fail: text
--   jitter       retry: 0 <= jitter < 1
-- REPLIES:
--   for each item a pair {completed | scheduled | dead | pending | extended, delay or lease in ms}, {gone, 0} or
--     {stale, superseded | released | lapsed}
--   ERR settle has no such action, before anything is changed
-- REPEATABLE: yes: complete returns gone, extend extends again from now, the others are rejected as released
-- COST:
--   2 commands an item (HMGET, HEXISTS) and 3 for a batch of completes (ZREM, DEL, HINCRBY)
--   3 more for each other action (ZADD, ZREM, HSET); TIME and the queue's policy once
--   1 for a job that is gone, 3 if it was to be completed
-- prologue
local keys = {
  active = KEYS[1], pending = KEYS[2], schedule = KEYS[3], dead = KEYS[4], completed = KEYS[5], failed = KEYS[6],
  ghosts = KEYS[7], meta = KEYS[8], startBy = KEYS[9],
}
local items = {}
for nth = 1, #ARGV / 7 do
  local at = (nth - 1) * 7
  items[nth] = {
    row = KEYS[9 + nth], action = ARGV[at + 1], id = ARGV[at + 2], token = ARGV[at + 3], ms = ARGV[at + 4],
    maxAttempts = ARGV[at + 5], error = ARGV[at + 6], jitter = ARGV[at + 7],
  }
end
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
-- block: chunked
-- Runs a command with many values, a thousand at a time, because Lua passes only a few thousand values to one call.
-- Without a key, the values are the keys.
local function chunked(command, key, values)
  for first = 1, #values, 1000 do
    local last = math.min(first + 999, #values)
    if key then redis.call(command, key, unpack(values, first, last))
    else redis.call(command, unpack(values, first, last)) end
  end
end
-- end: chunked
-- block: append
-- Appends values to a list, for example a score and an id, as ZADD takes them.
local function append(list, ...)
  for _, value in ipairs({...}) do list[#list + 1] = value end
end
-- end: append
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
-- block: count
-- Adds to a counter. No move depends on a counter: one that cannot be written is skipped.
local function count(counter, number)
  if counter and number > 0 then redis.pcall('HINCRBY', counter, 'count', number) end
end
-- end: count
-- block: isJob
-- A job exists if it has a row with a payload.
local function isJob(row)
  return read('HEXISTS', row, 'payload') == 1
end
-- end: isJob
-- block: setOf
-- The set that the state of a row names. The set is `schedule`, the state is `scheduled`.
local function setOf(state, keys)
  return ({pending = keys.pending, active = keys.active, scheduled = keys.schedule, dead = keys.dead})[state or '']
end
-- end: setOf
-- block: removeGhost
-- Deletes the half row of a ghost, and its id from a set. Returns whether there was a half row.
local function removeGhost(row, id, set)
  local existed = redis.call('DEL', row) == 1
  if existed and set then redis.call('ZREM', set, id) end
  return existed
end
-- end: removeGhost
-- block: staleness
-- Why a token is stale: superseded, released or lapsed; nil for the token of the current lease.
local function staleness(token, attempts, state, lapsed)
  if token ~= attempts or token == '0' then return 'superseded' end
  if state == 'active' then return nil end
  return lapsed == token and 'lapsed' or 'released'
end
-- end: staleness
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

local ACTIONS = {complete = true, retry = true, fail = true, release = true, extend = true}
for _, item in ipairs(items) do
  if not ACTIONS[item.action] then return redis.error_reply('ERR settle has no such action') end
end

local completedIds, completedRows, isCompleted, unindexed, died, dropped = {}, {}, {}, {}, 0, 0
local queuePolicy

local function settle(item)
  local action, id, token, row = item.action, item.id, item.token, item.row
  if isCompleted[id] then return 'gone', 0 end
  if not isJob(row) then
    if action == 'complete' and removeGhost(row, id, setOf(read('HGET', row, 'state'), keys)) then
      dropped = dropped + 1
    end
    return 'gone', 0
  end
  local attempts, state, lapsed, base, maxAttempts, failures, startBy = unpack(redis.call('HMGET', row,
    'attempts', 'state', 'lapsed', 'base', 'max_attempts', 'failures', 'start_by'))
  local reason = staleness(token, attempts, state, lapsed)
  -- After a lapse the last holder may still complete the job: the work is done, and no other consumer has the job.
  if reason and not (reason == 'lapsed' and action == 'complete') then return 'stale', reason end

  if action == 'complete' then
    local set = setOf(state, keys)
    if set and set ~= keys.active then redis.call('ZREM', set, id) end
    isCompleted[id] = true
    append(completedIds, id)
    append(completedRows, row)
    if startBy then append(unindexed, id) end
    return 'completed', 0
  end
  if action == 'extend' then
    local lease = tonumber(item.ms)
    local changed = write('ZADD', keys.active, 'XX', 'CH', clock() + lease, id)
    -- A job that is not in active has no lease to extend: it would never lapse.
    if changed == 0 and not redis.call('ZSCORE', keys.active, id) then return 'stale', 'lapsed' end
    return 'extended', lease
  end
  if action == 'release' then
    local delay = tonumber(item.ms) or 0
    local newState = delay > 0 and 'scheduled' or 'pending'
    write('ZADD', setOf(newState, keys), delay > 0 and clock() + delay or 0, id)
    redis.call('ZREM', keys.active, id)
    redis.call('HSET', row, 'state', newState, 'base', ms((whole(base) or 0) + 1), 'since', ms(clock()))
    return newState, delay
  end

  local delay, dies = tonumber(item.ms), action == 'fail'
  if not dies then
    if not queuePolicy and not (delay and tonumber(item.maxAttempts)) then
      queuePolicy = policyOf(unpack(redis.call('HMGET', keys.meta, 'maxAttempts', 'backoffBaseMs', 'backoffMaxMs')))
    end
    local policy = queuePolicy or policyOf()
    local used, _, isSpent = budget(token, base, item.maxAttempts, maxAttempts, policy)
    delay = delay or math.floor(backoff(used, policy) * (tonumber(item.jitter) or 1))
    dies = isSpent
  end
  local newState = dies and 'dead' or 'scheduled'
  write('ZADD', setOf(newState, keys), dies and 0 or clock() + delay, id)
  redis.call('ZREM', keys.active, id)
  local fields = {'state', newState, failure(token, clock(), item.error, failures)}
  if dies then append(fields, 'died_at', ms(clock())) end
  redis.call('HSET', row, unpack(fields))
  if not dies then return newState, delay end
  died = died + 1
  return newState, 0
end

local replies = {}
for _, item in ipairs(items) do append(replies, settle(item)) end
chunked('ZREM', keys.active, completedIds)
chunked('ZREM', keys.startBy, unindexed)
chunked('DEL', nil, completedRows)
count(keys.completed, #completedIds)
count(keys.failed, died)
count(keys.ghosts, dropped)
return replies
