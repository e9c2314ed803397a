-- remove: deletes a job from any state, unless a live lease holds it.
-- MOVE: pending | scheduled | dead -> none; active -> none after its lease has lapsed
-- KEYS:
--   active    emq:{q}:active
--   pending   emq:{q}:pending
--   schedule  emq:{q}:schedule
--   dead      emq:{q}:dead
--   row       emq:{q}:job:<id>
--   startBy   emq:{q}:start-by
-- ARGV:
--   id
-- REPLIES:
--   1 = removed
--   0 = gone
--   EMQLOCK job is held by a live lease
-- REPEATABLE: yes, a repeat returns 0
-- COST: 10 commands (HEXISTS, ZSCORE, HGET, TIME, ZREM five times, DEL) for a lapsed one, 8 for any other
-- prologue
local keys = {
  active = KEYS[1], pending = KEYS[2], schedule = KEYS[3], dead = KEYS[4], row = KEYS[5], startBy = KEYS[6],
}
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
-- block: isJob
-- A job exists if it has a row with a payload.
local function isJob(row)
  return read('HEXISTS', row, 'payload') == 1
end
-- end: isJob

local existed = isJob(keys.row)
local deadline = tonumber(redis.call('ZSCORE', keys.active, args.id))
-- A duplicate entry in active is not a lease.
if existed and deadline and redis.call('HGET', keys.row, 'state') == 'active' and deadline > clock() then
  return redis.error_reply('EMQLOCK job is held by a live lease')
end
for _, set in ipairs({keys.active, keys.pending, keys.schedule, keys.dead, keys.startBy}) do
  redis.call('ZREM', set, args.id)
end
redis.call('DEL', keys.row)
return existed and 1 or 0
