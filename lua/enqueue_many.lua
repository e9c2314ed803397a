-- enqueue_many: puts new jobs into pending or, with a time of their own, into the schedule; each job answers for itself.
-- MOVE: none -> pending | scheduled
-- KEYS: emq:{q}:pending emq:{q}:schedule emq:{q}:active emq:{q}:dead emq:{q}:meta emq:{q}:start-by
-- KEYS EACH: emq:{q}:job:<id>
-- KEYS EACH WITH AN IDEMPOTENCY KEY: emq:{q}:de:<key>
-- ARGV EACH: id, payload (bytes), delayMs (empty = now), runAt (ms, empty = now), startBy (ms, empty = none), maxAttempts (empty = the queue's), idempotencyTtlMs (empty = no key), explicit (1 = the caller chose the id)
-- REPLIES: for each job a pair {enqueued | scheduled | duplicate, id} or {EMQKIND | EMQFULL, id}
-- REPEATABLE: yes, a repeat answers duplicate while the job lives, or while its idempotency key is remembered
-- COST: 3 commands for one plain job (EXISTS, ZADD, HSET), one more for each further job (HSET); more where a row, settings, an idempotency key, a time of its own or an id of the caller's make it look closer
local pending, schedule, active, dead, meta, start_by = unpack(KEYS, 1, 6)
local FIELDS = 8
local count = #ARGV / FIELDS
-- block: chunked
-- Lua hands a call a few thousand values at the most.
local function chunked(command, key, values)
  for first = 1, #values, 1000 do
    redis.call(command, key, unpack(values, first, math.min(first + 999, #values)))
  end
end
-- end: chunked

-- block: whole
-- A number of a setting or a row: whole and not negative, or nothing.
local function whole(text)
  local number = tonumber(text)
  if number and number >= 0 and number < 2 ^ 53 and number == math.floor(number) then return number end
end
-- end: whole

local now
local function clock()
  if not now then
    local t = redis.call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return now
end

-- One look tells the plain case: no such row, no settings, and nowhere that an id could stand without its row.
local looked, chosen, timed = {meta}, false, false
for i = 1, count do
  looked[i + 1] = KEYS[6 + i]
  if ARGV[i * FIELDS] == '1' then
    chosen = true
    timed = timed or ARGV[(i - 1) * FIELDS + 3] ~= '' or ARGV[(i - 1) * FIELDS + 4] ~= ''
  end
end
if chosen then
  for _, set in ipairs({active, schedule, dead}) do looked[#looked + 1] = set end
  if timed then looked[#looked + 1] = pending end
end
local plain = redis.call('EXISTS', unpack(looked)) == 0
local room = math.huge
if not plain then
  local cap = whole(redis.call('HGET', meta, 'maxPending')) or 0
  if cap > 0 then room = cap - redis.call('ZCARD', pending) end
end

-- block: read
-- Reads a row. A key of another type than a hash is no row: nil. Any other error is one.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read

-- What is to be written is known in whole before anything is.
local replies, rows, named, keyed = {}, {}, {}, {}
local seen, now_pending, now_scheduled, expiring = {}, {}, {}, {}
local strays_of_pending, strays_of_schedule = {}, {}
local next_key = 6 + count

local function enqueue(i)
  local at = (i - 1) * FIELDS
  local id, payload, ttl = ARGV[at + 1], ARGV[at + 2], ARGV[at + 7]
  local row, key = KEYS[6 + i], nil
  if ttl ~= '' then
    next_key = next_key + 1
    key = KEYS[next_key]
  end
  if string.sub(id, 1, 3) ~= 'JOB' then return 'EMQKIND', id end
  local first = key and (keyed[key] or read('GET', key))
  if first then return 'duplicate', first end
  local known, leftover = seen[id], false
  if not plain and not known then
    local fields = read('HKEYS', row)
    for _, field in ipairs(fields or {}) do
      if field == 'payload' then known = true end
    end
    leftover = not fields or #fields > 0
  end
  -- An id that was minted here and is taken is a collision: the key must not name somebody else's job.
  local names = key and (not known or ARGV[at + 8] == '1')
  if not known and room <= 0 then return 'EMQFULL', id end
  if names then
    keyed[key] = id
    named[#named + 1] = {key, id, ttl}
  end
  if known then return 'duplicate', id end

  seen[id] = true
  local due
  local delay = tonumber(ARGV[at + 3])
  local run_at = tonumber(ARGV[at + 4])
  if delay and delay > 0 then due = clock() + delay end
  if run_at and run_at > clock() then due = run_at end
  local fields = {'state', due and 'scheduled' or 'pending', 'attempts', '0', 'payload', payload}
  if ARGV[at + 5] ~= '' then
    fields[#fields + 1] = 'start_by'
    fields[#fields + 1] = ARGV[at + 5]
    expiring[#expiring + 1] = ARGV[at + 5]
    expiring[#expiring + 1] = id
  end
  if ARGV[at + 6] ~= '' then
    fields[#fields + 1] = 'max_attempts'
    fields[#fields + 1] = ARGV[at + 6]
  end
  rows[#rows + 1] = {row, fields, leftover}
  -- An id that the caller chose may stand in a set without its row: it must not stand in two.
  if not plain and ARGV[at + 8] == '1' then
    local strays = due and strays_of_schedule or strays_of_pending
    strays[#strays + 1] = id
  end
  if due then
    now_scheduled[#now_scheduled + 1] = due
    now_scheduled[#now_scheduled + 1] = id
    return 'scheduled', id
  end
  room = room - 1
  now_pending[#now_pending + 1] = 0
  now_pending[#now_pending + 1] = id
  return 'enqueued', id
end

for i = 1, count do
  replies[i * 2 - 1], replies[i * 2] = enqueue(i)
end
-- The sets first: what breaks off in between leaves ids that any claim drops, and not rows that block their ids.
chunked('ZADD', pending, now_pending)
chunked('ZADD', schedule, now_scheduled)
for _, set in ipairs({active, schedule, dead}) do chunked('ZREM', set, strays_of_pending) end
for _, set in ipairs({active, pending, dead}) do chunked('ZREM', set, strays_of_schedule) end
chunked('ZADD', start_by, expiring)
for _, job in ipairs(rows) do
  local row, fields, leftover = unpack(job)
  -- What is left of a ghost must not lend its counter to the new job.
  if leftover then redis.call('DEL', row) end
  redis.call('HSET', row, unpack(fields))
end
for _, name in ipairs(named) do redis.call('SET', name[1], name[2], 'PX', name[3]) end
return replies
