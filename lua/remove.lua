-- remove: deletes a job from any state, unless a live lease holds it.
-- MOVE: pending | scheduled | dead -> none; active -> none once the lease has lapsed
-- KEYS: emq:{q}:active emq:{q}:pending emq:{q}:schedule emq:{q}:dead emq:{q}:job:<id> emq:{q}:start-by
-- ARGV: id
-- REPLIES: 1 = removed; 0 = gone; EMQLOCK job is held by a live lease
-- REPEATABLE: yes, a repeat answers 0
-- COST: 10 commands (HEXISTS, ZSCORE, HGET, TIME, ZREM five times, DEL) for a lapsed one, 8 for any other
-- block: read
-- Reads a row. A key of another type than a hash is no row: nil. Any other error is one.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
local existed = read('HEXISTS', KEYS[5], 'payload') or 0
local deadline = redis.call('ZSCORE', KEYS[1], ARGV[1])
-- An id that stands in active although its job lives elsewhere is held by nobody.
if existed == 1 and deadline and redis.call('HGET', KEYS[5], 'state') == 'active' then
  local t = redis.call('TIME')
  if tonumber(deadline) > t[1] * 1000 + math.floor(t[2] / 1000) then
    return redis.error_reply('EMQLOCK job is held by a live lease')
  end
end
for _, set in ipairs({KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[6]}) do redis.call('ZREM', set, ARGV[1]) end
redis.call('DEL', KEYS[5])
return existed
