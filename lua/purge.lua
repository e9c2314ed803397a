-- purge: deletes jobs of one state, the oldest first, a bounded number.
-- MOVE: pending | scheduled | dead -> none
-- KEYS:
--   set       emq:{q}:<set>
--   startBy   emq:{q}:start-by
--   pending   emq:{q}:pending
--   active    emq:{q}:active
--   schedule  emq:{q}:schedule
--   dead      emq:{q}:dead
-- ARGV:
--   jobPrefix
--   limit      jobs
-- REPLIES:
--   {removed, 1 if there are more}
-- REPEATABLE: yes, it deletes what is there
-- COST: 2 commands (ZRANGE, ZCARD), then 1 a job (HGET) and 3 for each thousand jobs (DEL, ZREM, ZREM)
-- prologue
local keys = {
  set = KEYS[1], startBy = KEYS[2], pending = KEYS[3], active = KEYS[4], schedule = KEYS[5], dead = KEYS[6],
}
local args = {jobPrefix = ARGV[1], limit = ARGV[2]}
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

local limit = math.max(0, math.floor(tonumber(args.limit)))
local ids = redis.call('ZRANGE', keys.set, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, limit)
local purged, rows = {}, {}
for _, id in ipairs(ids) do
  local row = args.jobPrefix .. id
  if not livesElsewhere(id, keys.set, setOf(read('HGET', row, 'state'), keys)) then
    append(purged, id)
    append(rows, row)
  end
end
chunked('DEL', nil, rows)
chunked('ZREM', keys.set, ids)
chunked('ZREM', keys.startBy, purged)
return {#purged, redis.call('ZCARD', keys.set) > 0 and 1 or 0}
