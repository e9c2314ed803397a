-- promote: moves due jobs from schedule to pending.
-- MOVE: scheduled -> pending
-- KEYS:
--   schedule  emq:{q}:schedule
--   pending   emq:{q}:pending
-- OPTIONAL KEYS:
--   ghosts    emq:{q}:metrics:ghosts
--   active    emq:{q}:active
--   dead      emq:{q}:dead
-- ARGV:
--   jobPrefix
--   limit      jobs
--   report?    any text asks for the extended form
-- REPLIES:
--   number moved
--   extended {moved, ghosts dropped, 1 if more are due}
-- REPEATABLE: yes, it moves what is due by the server's clock
-- COST:
--   2 commands (TIME, ZRANGE) if nothing is due
--   then 3 a job (HEXISTS, HGET, HSET) and 2 a thousand jobs (ZREM, ZADD)
-- prologue
local keys = {schedule = KEYS[1], pending = KEYS[2], ghosts = KEYS[3], active = KEYS[4], dead = KEYS[5]}
local args = {jobPrefix = ARGV[1], limit = ARGV[2], report = ARGV[3]}
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

local limit = math.max(0, math.floor(tonumber(args.limit)))
local ids, more = due(keys.schedule, clock(), limit)
local moved, dropped = promote(ids, keys, args.jobPrefix, clock())
return args.report and {moved, dropped, more} or moved
