-- promote: moves jobs that are due from the schedule to pending.
-- MOVE: scheduled -> pending
-- KEYS: emq:{q}:schedule emq:{q}:pending
-- OPTIONAL KEYS: emq:{q}:metrics:ghosts emq:{q}:active emq:{q}:dead
-- ARGV: jobPrefix, limit (jobs), report? (any text asks for the extended form)
-- REPLIES: number moved; extended {moved, ghosts dropped, 1 when more are due}
-- REPEATABLE: yes, it moves what is due by the server's clock
-- COST: 2 commands (TIME, ZRANGE) when nothing is due; then 3 a job (HEXISTS, HGET, HSET) and 2 a thousand jobs (ZREM, ZADD)
local schedule, pending, ghosts, active, dead = unpack(KEYS)
local prefix, limit = ARGV[1], math.max(0, math.floor(tonumber(ARGV[2])))
-- block: chunked
-- Lua hands a call a few thousand values at the most.
local function chunked(command, key, values)
  for first = 1, #values, 1000 do
    redis.call(command, key, unpack(values, first, math.min(first + 999, #values)))
  end
end
-- end: chunked
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
-- block: promote
-- Moves the due ids to pending; answers how many, and how many were ghosts.
local function promote(due)
  local moved, dropped = {}, 0
  for _, id in ipairs(due) do
    local key = prefix .. id
    if read('HEXISTS', key, 'payload') ~= 1 then
      redis.call('DEL', key)
      dropped = dropped + 1
    else
      -- An id that stood here as a ghost may have become a job elsewhere since: where its row says, it stays.
      -- Who passes no key of that set has the word of the row alone.
      local state = redis.call('HGET', key, 'state')
      local lives = state == 'active' or state == 'dead'
      local home = ({active = active, dead = dead})[state]
      if not (lives and (not home or redis.call('ZSCORE', home, id))) then
        write('HSET', key, 'state', 'pending')
        moved[#moved + 1] = 0
        moved[#moved + 1] = id
      end
    end
  end
  chunked('ZADD', pending, moved)
  chunked('ZREM', schedule, due)
  if dropped > 0 and ghosts then redis.pcall('HINCRBY', ghosts, 'count', dropped) end
  return #moved / 2, dropped
end
-- end: promote
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local due = redis.call('ZRANGE', schedule, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit + 1)
local more = 0
if #due > limit then
  more = 1
  due[#due] = nil
end
local moved, dropped = promote(due)
if ARGV[3] then return {moved, dropped, more} end
return moved
