-- drain: deletes jobs of one state, oldest first, a bounded number.
-- MOVE: pending | scheduled | dead -> none
-- KEYS: emq:{q}:<set> emq:{q}:start-by emq:{q}:pending emq:{q}:active emq:{q}:schedule emq:{q}:dead
-- ARGV: jobPrefix, limit (jobs)
-- REPLIES: {removed, 1 when there is more}
-- REPEATABLE: yes, it deletes what is there
-- COST: 2 commands (ZRANGE, ZCARD), then 1 a job (HGET) and 3 for each thousand jobs (DEL, ZREM, ZREM)
local set, start_by, pending, active, schedule, dead = unpack(KEYS)
local prefix, limit = ARGV[1], math.max(0, math.floor(tonumber(ARGV[2])))
local homes = {pending = pending, active = active, scheduled = schedule, dead = dead}
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
local ids = redis.call('ZRANGE', set, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, limit)
local drained, rows = {}, {}
for _, id in ipairs(ids) do
  -- An id that stood here as a ghost may have become a job elsewhere since: where its row says, it stays.
  local home = homes[read('HGET', prefix .. id, 'state') or '']
  if not home or home == set or not redis.call('ZSCORE', home, id) then
    drained[#drained + 1] = id
    rows[#rows + 1] = prefix .. id
  end
end
for first = 1, #rows, 1000 do redis.call('DEL', unpack(rows, first, math.min(first + 999, #rows))) end
chunked('ZREM', set, ids)
chunked('ZREM', start_by, drained)
return {#drained, redis.call('ZCARD', set) > 0 and 1 or 0}
