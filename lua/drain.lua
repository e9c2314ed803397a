-- drain: deletes jobs of one set, oldest first, a bounded number.
-- MOVE: pending | scheduled | dead -> none
-- KEYS: emq:{q}:<set> emq:{q}:start-by
-- ARGV: jobPrefix, limit (jobs)
-- REPLIES: {removed, 1 when there is more}
-- REPEATABLE: yes, it deletes what is there
-- COST: 2 commands (ZRANGE, ZCARD) and 3 for each thousand jobs (DEL, ZREM, ZREM)
local prefix, limit = ARGV[1], math.max(0, math.floor(tonumber(ARGV[2])))
-- block: chunked
-- Lua hands a call a few thousand values at the most.
local function chunked(command, key, values)
  for first = 1, #values, 1000 do
    redis.call(command, key, unpack(values, first, math.min(first + 999, #values)))
  end
end
-- end: chunked
local ids = redis.call('ZRANGE', KEYS[1], '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, limit)
for first = 1, #ids, 1000 do
  local rows = {}
  for i = first, math.min(first + 999, #ids) do rows[#rows + 1] = prefix .. ids[i] end
  redis.call('DEL', unpack(rows))
end
chunked('ZREM', KEYS[1], ids)
chunked('ZREM', KEYS[2], ids)
return {#ids, redis.call('ZCARD', KEYS[1]) > 0 and 1 or 0}
