-- promote: moves jobs that are due from the schedule to pending.
-- MOVE: scheduled -> pending
-- KEYS: emq:{q}:schedule emq:{q}:pending
-- OPTIONAL KEYS: emq:{q}:metrics:ghosts
-- ARGV: jobPrefix, limit (jobs), report? (any text asks for the extended form)
-- REPLIES: number moved; extended {moved, ghosts dropped, 1 when more are due}
-- REPEATABLE: yes, it moves what is due by the server's clock
-- COST: 2 commands (TIME, ZRANGE) when nothing is due; then 2 a job (HEXISTS, HSET) and 2 a thousand jobs (ZREM, ZADD)
local schedule, pending, ghosts = KEYS[1], KEYS[2], KEYS[3]
local prefix, limit = ARGV[1], math.max(0, math.floor(tonumber(ARGV[2])))
-- block: chunked
-- Lua hands a call a few thousand values at the most.
local function chunked(command, key, values)
  for first = 1, #values, 1000 do
    redis.call(command, key, unpack(values, first, math.min(first + 999, #values)))
  end
end
-- end: chunked
-- block: promote
-- Moves the due ids to pending; answers how many, and how many were ghosts.
local function promote(due)
  local moved = {}
  for _, id in ipairs(due) do
    if redis.call('HEXISTS', prefix .. id, 'payload') == 1 then
      redis.call('HSET', prefix .. id, 'state', 'pending')
      moved[#moved + 1] = 0
      moved[#moved + 1] = id
    else
      redis.call('DEL', prefix .. id)
    end
  end
  chunked('ZREM', schedule, due)
  chunked('ZADD', pending, moved)
  local dropped = #due - #moved / 2
  if dropped > 0 and ghosts then redis.call('HINCRBY', ghosts, 'count', dropped) end
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
