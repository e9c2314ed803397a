-- complete: deletes a job that its holder has finished.
-- MOVE: active -> none; pending | scheduled | dead -> none for the last holder after a lapse
-- KEYS:
--   active     emq:{q}:active
--   row        emq:{q}:job:<id>
--   pending    emq:{q}:pending
--   schedule   emq:{q}:schedule
--   dead       emq:{q}:dead
--   completed  emq:{q}:metrics:completed
--   ghosts     emq:{q}:metrics:ghosts
--   startBy    emq:{q}:start-by
-- ARGV:
--   id
--   token
-- REPLIES:
--   1 = completed
--   0 = gone, there is no such job
--   EMQSTALE complete token mismatch, followed by (released) if the holder gave the job back
-- REPEATABLE: yes, a repeat returns 0
-- COST: 4 commands (HMGET, ZREM, DEL, HINCRBY), 1 more for a job with a startBy; 2 if gone (HMGET, DEL); 1 if rejected
-- prologue
local keys = {
  active = KEYS[1], row = KEYS[2], pending = KEYS[3], schedule = KEYS[4], dead = KEYS[5], completed = KEYS[6],
  ghosts = KEYS[7], startBy = KEYS[8],
}
local args = {id = ARGV[1], token = ARGV[2]}
-- end: prologue
-- block: read
-- Reads a row. A key of another type is not a row: nil. Any other error is raised.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
-- block: count
-- Adds to a counter. No move depends on a counter: one that cannot be written is skipped.
local function count(counter, number)
  if counter and number > 0 then redis.pcall('HINCRBY', counter, 'count', number) end
end
-- end: count
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
-- block: stale
-- The error reply to a stale token.
local function stale(move, reason)
  local suffix = reason == 'superseded' and '' or ' (' .. reason .. ')'
  return redis.error_reply('EMQSTALE ' .. move .. ' token mismatch' .. suffix)
end
-- end: stale

local payload, attempts, state, lapsed, startBy = unpack(
  read('HMGET', keys.row, 'payload', 'attempts', 'state', 'lapsed', 'start_by') or {})
local set = setOf(state, keys)
if not payload then
  if removeGhost(keys.row, args.id, set) then count(keys.ghosts, 1) end
  return 0
end
local reason = staleness(args.token, attempts, state, lapsed)
-- After a lapse the last holder may still complete the job: the work is done, and no other consumer has the job.
if reason and reason ~= 'lapsed' then return stale('complete', reason) end

if set then redis.call('ZREM', set, args.id) end
redis.call('DEL', keys.row)
if startBy then redis.call('ZREM', keys.startBy, args.id) end
count(keys.completed, 1)
return 1
