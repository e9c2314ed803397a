-- settle: ends or extends the leases of many jobs, each by an action of its own; each item answers for itself.
-- MOVE: active -> none (complete) | scheduled or dead (retry) | dead (fail) | pending or scheduled (release) | active (extend)
-- KEYS: emq:{q}:active emq:{q}:pending emq:{q}:schedule emq:{q}:dead emq:{q}:metrics:completed emq:{q}:metrics:failed emq:{q}:metrics:ghosts emq:{q}:meta emq:{q}:start-by
-- KEYS EACH: emq:{q}:job:<id>
-- ARGV EACH: action (complete | retry | fail | release | extend), id, token, ms (retry: delayMs, empty = the queue's backoff; release: delayMs; extend: leaseMs), maxAttempts (retry; 0 = no limit; empty = the job's, else the queue's), error (text), jitter (0 <= jitter < 1)
-- REPLIES: for each item a pair {completed | scheduled | dead | pending | extended, delay or lease in ms}, {gone, 0} or {stale, superseded | released | lapsed}
-- REPEATABLE: yes: a repeated complete answers gone, a repeated extend extends again from now, the others are refused as released
-- COST: 2 commands an item (HMGET, HEXISTS) and for a batch of completes 3 (ZREM, DEL, HINCRBY); 3 more for each other action (ZADD, ZREM, HSET), TIME and the queue's policy once; 1 for a job that is gone, 3 when it was to be completed
local active, pending, schedule, dead, completed, failed, ghosts, meta, start_by = unpack(KEYS, 1, 9)
local FIXED, FIELDS = 9, 7
-- block: chunked
-- Lua hands a call a few thousand values at the most.
local function chunked(command, key, values)
  for first = 1, #values, 1000 do
    redis.call(command, key, unpack(values, first, math.min(first + 999, #values)))
  end
end
-- end: chunked

local now
local function clock()
  if not now then
    local t = redis.call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return now
end

-- block: whole
-- A number of a setting or a row: whole and not negative, or nothing.
local function whole(text)
  local number = tonumber(text)
  if number and number >= 0 and number < 2 ^ 53 and number == math.floor(number) then return number end
end
-- end: whole

local policy
-- block: backoff
local function ceiling(attempt)
  local base, most = whole(policy[2]) or 1000, whole(policy[3]) or 600000
  return math.min(most, base * 2 ^ math.max(0, math.min(attempt - 1, 40)))
end
-- end: backoff
local function read_policy()
  if not policy then policy = redis.call('HMGET', meta, 'maxAttempts', 'backoffBaseMs', 'backoffMaxMs') end
end

local retired, retired_ids, unindexed, died, dropped = {}, {}, {}, 0, 0
local gone = {}
local set_of = {active = active, pending = pending, scheduled = schedule, dead = dead}

-- block: read
-- Reads a row. A key of another type than a hash is no row: nil. Any other error is one.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
-- block: write
-- A Redis that is full refuses what takes memory, but not behind a write that takes none: jobs must still come out of it.
local function write(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if string.find(reply.err, 'OOM', 1, true) then redis.call('ZREM', KEYS[1], '') end
  return redis.call(command, ...)
end
-- end: write

local function failure(key, token, state, nth, text)
  redis.call('HSET', key, 'state', state, 'last_error', text,
    'failures', nth, 'error:' .. nth % 5, token .. ' ' .. string.format('%.0f', clock()) .. ' ' .. text)
end

local function settle(i)
  local at = (i - 1) * FIELDS
  local action, id, token, ms, max, text, jitter = unpack(ARGV, at + 1, at + FIELDS)
  local key = KEYS[FIXED + i]
  if gone[id] then return 'gone', 0 end
  if read('HEXISTS', key, 'payload') ~= 1 then
    if action ~= 'complete' then return 'gone', 0 end
    -- What is left of a ghost is taken away, and the id with it.
    local set = set_of[read('HGET', key, 'state') or '']
    if redis.call('DEL', key) == 1 then
      if set then redis.call('ZREM', set, id) end
      dropped = dropped + 1
    end
    return 'gone', 0
  end
  local row = redis.call('HMGET', key, 'attempts', 'state', 'lapsed', 'base', 'max_attempts', 'failures', 'start_by')
  if token ~= row[1] or token == '0' then return 'stale', 'superseded' end
  if row[2] ~= 'active' then
    if row[3] ~= token then return 'stale', 'released' end
    if action ~= 'complete' then return 'stale', 'lapsed' end
    -- The reaper took the lease away and nobody has claimed since: the work is done, and nobody else has it.
    if set_of[row[2]] then redis.call('ZREM', set_of[row[2]], id) end
  end

  if action == 'complete' then
    gone[id] = true
    retired[#retired + 1] = key
    retired_ids[#retired_ids + 1] = id
    if row[7] then unindexed[#unindexed + 1] = id end
    return 'completed', 0
  end
  if action == 'extend' then
    local moved = write('ZADD', active, 'XX', 'CH', clock() + tonumber(ms), id)
    -- A lease that stands nowhere cannot be extended: its job would never lapse.
    if moved == 0 and not redis.call('ZSCORE', active, id) then return 'stale', 'lapsed' end
    return 'extended', tonumber(ms)
  end
  if action == 'release' then
    local delay = tonumber(ms) or 0
    local state = delay > 0 and 'scheduled' or 'pending'
    write('ZADD', delay > 0 and schedule or pending, delay > 0 and clock() + delay or 0, id)
    redis.call('ZREM', active, id)
    redis.call('HSET', key, 'state', state, 'base', string.format('%.0f', (tonumber(row[4]) or 0) + 1))
    return state, delay
  end

  local nth = (tonumber(row[6]) or 0) + 1
  local used = (tonumber(token) or 0) - (tonumber(row[4]) or 0)
  local delay, limit = tonumber(ms), tonumber(max)
  if action == 'retry' and not (delay and limit) then
    read_policy()
    limit = limit or whole(row[5]) or whole(policy[1]) or 5
    delay = delay or math.floor(ceiling(used) * (tonumber(jitter) or 1))
  end
  local dies = action == 'fail' or (limit > 0 and used >= limit)
  if dies then
    write('ZADD', dead, 0, id)
    redis.call('ZREM', active, id)
    failure(key, token, 'dead', nth, text)
    died = died + 1
    return 'dead', 0
  end
  write('ZADD', schedule, clock() + delay, id)
  redis.call('ZREM', active, id)
  failure(key, token, 'scheduled', nth, text)
  return 'scheduled', delay
end

local replies = {}
for i = 1, #ARGV / FIELDS do
  replies[i * 2 - 1], replies[i * 2] = settle(i)
end
chunked('ZREM', active, retired_ids)
chunked('ZREM', start_by, unindexed)
if #retired > 0 then
  redis.call('DEL', unpack(retired))
  redis.pcall('HINCRBY', completed, 'count', #retired)
end
if died > 0 then redis.pcall('HINCRBY', failed, 'count', died) end
if dropped > 0 then redis.pcall('HINCRBY', ghosts, 'count', dropped) end
return replies
