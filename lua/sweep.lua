-- sweep: promotes due jobs, reaps lapsed ones and moves jobs past their startBy to dead, a bounded number of each.
-- MOVE:
--   scheduled -> pending; active -> pending | scheduled | dead
--   pending | scheduled -> dead for a job past its startBy
-- KEYS:
--   active    emq:{q}:active
--   pending   emq:{q}:pending
--   schedule  emq:{q}:schedule
--   dead      emq:{q}:dead
--   failed    emq:{q}:metrics:failed
--   ghosts    emq:{q}:metrics:ghosts
--   meta      emq:{q}:meta
--   startBy   emq:{q}:start-by
-- ARGV:
--   jobPrefix
--   limit      jobs of each kind
--   jitter     0 <= jitter < 1
-- REPLIES:
--   {now in ms, promoted, reaped, dead, ghosts, 1 if more is left, next useful visit in ms or -1 if there is none, pending}
-- REPEATABLE: yes, it moves what is due by the server's clock
-- COST: 6 commands at rest (TIME, ZRANGE, ZRANGE, ZRANGE, ZCARD, ZCARD); more for what it moves
-- prologue
local keys = {
  active = KEYS[1], pending = KEYS[2], schedule = KEYS[3], dead = KEYS[4], failed = KEYS[5], ghosts = KEYS[6],
  meta = KEYS[7], startBy = KEYS[8],
}
local args = {jobPrefix = ARGV[1], limit = ARGV[2], jitter = ARGV[3]}
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
-- block: unmintable
-- Why the next claim cannot mint a token: attempts that another client wrote may be no number, or too large; nil if it can.
local function unmintable(attempts)
  local number = whole(attempts or '0')
  if not number or number >= 2 ^ 53 - 1 then return 'attempts is not a number that can be counted up' end
end
-- end: unmintable
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
-- block: livesElsewhere
-- Whether an id in `set` is a duplicate entry of a job that is in `home`, the set that its row names. The id of a ghost
-- may have been enqueued again: the job stays where its row says.
local function livesElsewhere(id, set, home)
  return home and home ~= set and redis.call('ZSCORE', home, id)
end
-- end: livesElsewhere
-- block: removeGhost
-- Deletes the half row of a ghost, and its id from a set. Returns whether there was a half row.
local function removeGhost(row, id, set)
  local existed = redis.call('DEL', row) == 1
  if existed and set then redis.call('ZREM', set, id) end
  return existed
end
-- end: removeGhost
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
-- block: isExpired
-- Whether a job should have started by now. A job that was claimed once has started, whatever became of the attempt.
local function isExpired(attempts, startBy, now)
  return attempts == '0' and (tonumber(startBy) or math.huge) <= now
end
-- end: isExpired
-- block: bury
-- Moves jobs that nobody will claim to dead. The caller removes their ids from the set they were in and from start-by.
local function bury(ids, reason, keys, jobPrefix, now)
  local entries = {}
  for _, id in ipairs(ids) do
    write('HSET', jobPrefix .. id, 'state', 'dead', 'died_at', ms(now), 'last_error', reason)
    append(entries, 0, id)
  end
  chunked('ZADD', keys.dead, entries)
  count(keys.failed, #ids)
end
-- end: bury
-- block: firstScore
-- The lowest score of a set; nil if the set is empty.
local function firstScore(set)
  return tonumber(redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2])
end
-- end: firstScore
-- block: due
-- The ids of a set whose score is not later than now, at most `limit` of them; and 1 if there are more, else 0.
local function due(set, now, limit)
  local ids = redis.call('ZRANGE', set, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit + 1)
  if #ids <= limit then return ids, 0 end
  ids[#ids] = nil
  return ids, 1
end
-- end: due
-- block: promote
-- Moves due ids from schedule to pending. Returns the number of moved jobs and of ghosts.
local function promote(ids, keys, jobPrefix, now)
  local moved, dropped = {}, 0
  for _, id in ipairs(ids) do
    local row = jobPrefix .. id
    if isJob(row) then
      local state = redis.call('HGET', row, 'state')
      local stays = state == 'active' or state == 'dead'
      -- If the caller passed no key of that set, the row alone decides.
      local home = stays and setOf(state, keys)
      if home then stays = livesElsewhere(id, keys.schedule, home) end
      if not stays then
        if state ~= 'pending' then write('HSET', row, 'state', 'pending', 'since', ms(now)) end
        append(moved, 0, id)
      end
    else
      removeGhost(row)
      dropped = dropped + 1
    end
  end
  chunked('ZADD', keys.pending, moved)
  chunked('ZREM', keys.schedule, ids)
  count(keys.ghosts, dropped)
  return #moved / 2, dropped
end
-- end: promote
-- block: reap
-- Ends lapsed leases: the first lapse returns a job to pending, later ones delay it by the backoff, and a job without
-- budget moves to dead. Returns the number of dead jobs and of ghosts.
local function reap(ids, keys, jobPrefix, policy, now, jitter)
  local back, later, died, dropped = {}, {}, {}, 0
  for i, id in ipairs(ids) do
    local row = jobPrefix .. id
    if isJob(row) then
      local token, base, maxAttempts, lapses, failures, state = unpack(redis.call('HMGET', row,
        'attempts', 'base', 'max_attempts', 'lapses', 'failures', 'state'))
      if not livesElsewhere(id, keys.active, setOf(state, keys)) then
        token, lapses = token or '0', (whole(lapses) or 0) + 1
        local used, limit, isSpent = budget(token, base, nil, maxAttempts, policy)
        local function mark(newState, ...)
          write('HSET', row, 'state', newState, 'lapsed', token, 'lapses', lapses, ...)
        end
        if isSpent or unmintable(token) then
          local reason = isSpent and 'lease expired on attempt ' .. used .. ' of ' .. limit or unmintable(token)
          mark('dead', 'died_at', ms(now), failure(token, now, reason, failures))
          append(died, 0, id)
        elseif lapses == 1 then
          mark('pending', 'since', ms(now))
          append(back, 0, id)
        else
          -- A poison job must not starve the healthy jobs behind it.
          local spread = (jitter + i * 0.618034) % 1
          mark('scheduled')
          append(later, now + math.ceil(backoff(used, policy) * (1 + spread) / 2), id)
        end
      end
    else
      removeGhost(row)
      dropped = dropped + 1
    end
  end
  chunked('ZADD', keys.pending, back)
  chunked('ZADD', keys.schedule, later)
  chunked('ZADD', keys.dead, died)
  chunked('ZREM', keys.active, ids)
  count(keys.failed, #died / 2)
  count(keys.ghosts, dropped)
  return #died / 2, dropped
end
-- end: reap
-- block: sweep
-- Promotes due jobs and reaps lapsed ones, at most `limit` of each. Returns the counts, and when the next job is due
-- and the next lease lapses, which the caller passes as they were before.
local function sweep(keys, jobPrefix, policy, now, jitter, limit, nextDue, nextLapse)
  local swept = {promoted = 0, reaped = 0, died = 0, dropped = 0}
  if nextDue and nextDue <= now then
    local ids = due(keys.schedule, now, limit)
    swept.promoted, swept.dropped = promote(ids, keys, jobPrefix, now)
    nextDue = firstScore(keys.schedule)
  end
  if nextLapse and nextLapse <= now then
    local ids = due(keys.active, now, limit)
    local died, dropped = reap(ids, keys, jobPrefix, policy, now, jitter)
    swept.reaped, swept.died, swept.dropped = #ids, died, swept.dropped + dropped
    nextLapse = firstScore(keys.active)
    -- A job that lapsed again is in schedule now.
    nextDue = firstScore(keys.schedule)
  end
  return swept, nextDue, nextLapse
end
-- end: sweep

local limit, now = math.max(0, math.floor(tonumber(args.limit))), clock()
local nextDue, nextLapse = firstScore(keys.schedule), firstScore(keys.active)
local settings = {}
if nextLapse and nextLapse <= now then
  settings = redis.call('HMGET', keys.meta, 'maxAttempts', 'backoffBaseMs', 'backoffMaxMs')
end
local policy, jitter = policyOf(unpack(settings)), tonumber(args.jitter) or 0.5
local swept
swept, nextDue, nextLapse = sweep(keys, args.jobPrefix, policy, now, jitter, limit, nextDue, nextLapse)

local nextExpiry = firstScore(keys.startBy)
if nextExpiry and nextExpiry <= now then
  local ids = due(keys.startBy, now, limit)
  local expired, ofPending, ofSchedule = {}, {}, {}
  for _, id in ipairs(ids) do
    local row = args.jobPrefix .. id
    local attempts, state, startBy = unpack(read('HMGET', row, 'attempts', 'state', 'start_by') or {})
    local left = ({pending = ofPending, scheduled = ofSchedule})[state or '']
    -- The row decides: an id in start-by can be of a job that is gone, and be in use again.
    if left and isExpired(attempts, startBy, now) and isJob(row) then
      append(left, id)
      append(expired, id)
    end
  end
  bury(expired, 'expired', keys, args.jobPrefix, now)
  chunked('ZREM', keys.pending, ofPending)
  chunked('ZREM', keys.schedule, ofSchedule)
  chunked('ZREM', keys.startBy, ids)
  swept.died = swept.died + #expired
  nextDue, nextExpiry = firstScore(keys.schedule), firstScore(keys.startBy)
end

local isMore = math.min(nextDue or math.huge, nextLapse or math.huge, nextExpiry or math.huge) <= now
-- The jobs of a queue with pending or active ones can lapse at any time: it is visited each minute. A queue with
-- scheduled jobs only is visited when the first of them is due.
local visitAt = -1
local pending = redis.call('ZCARD', keys.pending)
if pending > 0 or redis.call('ZCARD', keys.active) > 0 then
  visitAt = now
elseif nextDue then
  visitAt = math.min(nextDue, nextExpiry or math.huge)
end
return {now, swept.promoted, swept.reaped, swept.died, swept.dropped, isMore and 1 or 0, visitAt, pending}
