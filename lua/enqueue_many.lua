-- enqueue_many: adds new jobs to pending or, with a time of their own, to schedule; each job has its own reply.
-- MOVE: none -> pending | scheduled
-- KEYS:
--   pending   emq:{q}:pending
--   schedule  emq:{q}:schedule
--   active    emq:{q}:active
--   dead      emq:{q}:dead
--   meta      emq:{q}:meta
--   startBy   emq:{q}:start-by
--   batch     emq:{q}:de:<batchKey>
-- KEYS EACH:
--   row       emq:{q}:job:<id>
-- KEYS EACH WITH idempotencyTtlMs:
--   firstId   emq:{q}:de:<key>
-- ARGV:
--   batchTtlMs        ms; empty = no idempotency key for the whole batch
-- ARGV EACH:
--   id
--   payload           bytes
--   delayMs           ms; empty = now
--   runAt             epoch ms; empty = now
--   startBy           epoch ms; empty = none
--   maxAttempts       empty = the queue's
--   idempotencyTtlMs  ms; empty = no idempotency key
--   explicit          1 = the caller chose the id
-- REPLIES:
--   for each job a pair {enqueued | scheduled | duplicate, id} or {EMQKIND | EMQFULL, id}
--   {taken, id} for a job whose minted id is another job's; then nothing is stored: mint other ids and repeat
--   EMQKEY if the key of the batch belongs to a batch of another size
-- REPEATABLE: yes, a repeat returns duplicate while the job exists, or while an idempotency key is remembered
-- COST:
--   3 commands for one plain job (EXISTS, ZADD, HSET), 1 more for each further job (HSET)
--   2 more for the key of the batch (GET, SET)
--   more for an existing row, settings, an idempotency key, a time of its own or an id that the caller chose
-- prologue
local keys = {
  pending = KEYS[1], schedule = KEYS[2], active = KEYS[3], dead = KEYS[4], meta = KEYS[5], startBy = KEYS[6],
  batch = KEYS[7],
}
local args = {batchTtlMs = ARGV[1]}
local items = {}
local further = 7 + (#ARGV - 1) / 8
for nth = 1, (#ARGV - 1) / 8 do
  local at = 1 + (nth - 1) * 8
  items[nth] = {
    row = KEYS[7 + nth], id = ARGV[at + 1], payload = ARGV[at + 2], delayMs = ARGV[at + 3], runAt = ARGV[at + 4],
    startBy = ARGV[at + 5], maxAttempts = ARGV[at + 6], idempotencyTtlMs = ARGV[at + 7], explicit = ARGV[at + 8],
  }
  if items[nth].idempotencyTtlMs ~= '' then
    further = further + 1
    items[nth].firstId = KEYS[further]
  end
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
-- block: occupant
-- What is stored at a row: 'job', 'rest' (the half row of a ghost, or a key of another type), or nil.
local function occupant(row)
  local fields = read('HKEYS', row)
  if not fields then return 'rest' end
  for _, field in ipairs(fields) do
    if field == 'payload' then return 'job' end
  end
  if #fields > 0 then return 'rest' end
end
-- end: occupant

-- A repeat of a batch under its key gets the ids of the first request. `-` stands for a job that was not stored.
if args.batchTtlMs ~= '' then
  local first = read('GET', keys.batch)
  if first then
    local replies = {}
    for id in string.gmatch(first, '%S+') do
      local nth = #replies / 2 + 1
      if id == '-' and items[nth] then
        append(replies, 'EMQFULL', items[nth].id)
      else
        append(replies, 'duplicate', id)
      end
    end
    if #replies ~= #items * 2 then return redis.error_reply('EMQKEY the key belongs to another batch') end
    return replies
  end
end

-- One EXISTS finds the plain case: none of the rows exists, no settings, and no set that may contain a chosen id.
local looked, isChosen, isTimed = {keys.meta}, false, false
for _, item in ipairs(items) do
  append(looked, item.row)
  if item.explicit == '1' then
    isChosen = true
    isTimed = isTimed or item.delayMs ~= '' or item.runAt ~= ''
  end
end
if isChosen then append(looked, keys.active, keys.schedule, keys.dead) end
if isTimed then append(looked, keys.pending) end
local isPlain = redis.call('EXISTS', unpack(looked)) == 0
local room = math.huge
if not isPlain then
  local cap = whole(redis.call('HGET', keys.meta, 'maxPending')) or 0
  if cap > 0 then room = cap - redis.call('ZCARD', keys.pending) end
end

-- All reads first, then all writes.
local rows, named, seen, firstIds = {}, {}, {}, {}
local toPending, toSchedule, toStartBy = {}, {}, {}
local duplicatesOfPending, duplicatesOfSchedule = {}, {}

local function enqueue(item)
  local id, isExplicit = item.id, item.explicit == '1'
  if string.sub(id, 1, 3) ~= 'JOB' then return 'EMQKIND' end
  local first = item.firstId and (firstIds[item.firstId] or read('GET', item.firstId))
  if first then return 'duplicate', first end
  local found = seen[id] or not isPlain and occupant(item.row)
  local isDuplicate = found == 'job'
  if isDuplicate and not isExplicit then return 'taken' end
  if not isDuplicate and room <= 0 then return 'EMQFULL' end
  if item.firstId then
    firstIds[item.firstId] = id
    append(named, item)
  end
  if isDuplicate then return 'duplicate' end

  seen[id] = 'job'
  local runAt
  local delay, wanted = tonumber(item.delayMs), tonumber(item.runAt)
  if delay and delay > 0 then runAt = clock() + delay end
  if wanted and wanted > clock() then runAt = wanted end
  local fields = {'state', runAt and 'scheduled' or 'pending', 'attempts', '0', 'payload', item.payload}
  if item.startBy ~= '' then
    append(fields, 'start_by', item.startBy)
    append(toStartBy, item.startBy, id)
  end
  if item.maxAttempts ~= '' then append(fields, 'max_attempts', item.maxAttempts) end
  append(rows, {row = item.row, fields = fields, isGhost = found == 'rest'})
  -- A chosen id may be a ghost in a set: it must not be in two sets.
  if not isPlain and isExplicit then append(runAt and duplicatesOfSchedule or duplicatesOfPending, id) end
  if runAt then
    append(toSchedule, runAt, id)
    return 'scheduled'
  end
  room = room - 1
  append(toPending, 0, id)
  return 'enqueued'
end

local replies, batch, isTaken = {}, {}, false
for _, item in ipairs(items) do
  local status, id = enqueue(item)
  append(replies, status, id or item.id)
  append(batch, (status == 'EMQFULL' or status == 'EMQKIND') and '-' or id or item.id)
  isTaken = isTaken or status == 'taken'
end
if isTaken then return replies end
-- The sets first: a run that fails in between leaves ghosts, which any claim drops, and not rows that block their ids.
chunked('ZADD', keys.pending, toPending)
chunked('ZADD', keys.schedule, toSchedule)
for _, set in ipairs({keys.active, keys.schedule, keys.dead}) do chunked('ZREM', set, duplicatesOfPending) end
for _, set in ipairs({keys.active, keys.pending, keys.dead}) do chunked('ZREM', set, duplicatesOfSchedule) end
chunked('ZADD', keys.startBy, toStartBy)
for _, job in ipairs(rows) do
  -- The new job must not inherit the attempts of a ghost.
  if job.isGhost then redis.call('DEL', job.row) end
  redis.call('HSET', job.row, unpack(job.fields))
end
for _, item in ipairs(named) do redis.call('SET', item.firstId, item.id, 'PX', item.idempotencyTtlMs) end
if args.batchTtlMs ~= '' then redis.call('SET', keys.batch, table.concat(batch, ' '), 'PX', args.batchTtlMs) end
return replies
