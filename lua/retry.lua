-- retry: gives a failed job back, to run again later or to be dead when its budget is spent.
-- MOVE: active -> scheduled | dead
-- KEYS: emq:{q}:active emq:{q}:schedule emq:{q}:dead emq:{q}:job:<id> emq:{q}:metrics:failed emq:{q}:meta
-- ARGV: id, token, delayMs (empty = the queue's backoff), maxAttempts (0 = no limit; empty = the job's, else the queue's), error (text), jitter? (0 <= jitter < 1, asks for the extended form)
-- REPLIES: scheduled | dead; extended {scheduled, delay in ms} | {dead, 0}; EMQSTALE retry token mismatch, followed by (lapsed) or (released) where that is the reason; EMQSTALE job gone
-- REPEATABLE: yes, a repeat is refused as (released)
-- COST: 5 commands (HMGET, TIME, ZADD, ZREM, HSET); one more to read the queue's policy, one more to count a death; 1 when refused
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
-- block: whole
-- A number of a setting or a row: whole and not negative, or nothing.
local function whole(text)
  local number = tonumber(text)
  if number and number >= 0 and number < 2 ^ 53 and number == math.floor(number) then return number end
end
-- end: whole
local row = read('HMGET', KEYS[4], 'payload', 'attempts', 'state', 'lapsed', 'base', 'max_attempts', 'failures', 'last_error')
if not row or not row[1] then return redis.error_reply('EMQSTALE job gone') end
if ARGV[2] ~= row[2] or ARGV[2] == '0' then
  return redis.error_reply('EMQSTALE retry token mismatch')
end
if row[3] ~= 'active' then
  local reason = row[4] == ARGV[2] and 'lapsed' or 'released'
  return redis.error_reply('EMQSTALE retry token mismatch (' .. reason .. ')')
end

local policy = {}
if ARGV[3] == '' or ARGV[4] == '' then
  policy = redis.call('HMGET', KEYS[6], 'maxAttempts', 'backoffBaseMs', 'backoffMaxMs')
end
local used = (tonumber(row[2]) or 0) - (tonumber(row[5]) or 0)
local limit = tonumber(ARGV[4]) or whole(row[6]) or whole(policy[1]) or 5
local delay = tonumber(ARGV[3])
-- block: backoff
local function ceiling(attempt)
  local base, most = whole(policy[2]) or 1000, whole(policy[3]) or 600000
  return math.min(most, base * 2 ^ math.max(0, math.min(attempt - 1, 40)))
end
-- end: backoff
if not delay then delay = math.floor(ceiling(used) * (tonumber(ARGV[6]) or 1)) end

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local state = 'scheduled'
if limit > 0 and used >= limit then
  state = 'dead'
  delay = 0
  write('ZADD', KEYS[3], 0, ARGV[1])
  redis.pcall('HINCRBY', KEYS[5], 'count', 1)
else
  write('ZADD', KEYS[2], now + delay, ARGV[1])
end
redis.call('ZREM', KEYS[1], ARGV[1])
if ARGV[6] or row[8] then
  -- The last five failures, a ring of fields. In the short form the first one leaves last_error alone.
  local nth = (tonumber(row[7]) or 0) + 1
  redis.call('HSET', KEYS[4], 'state', state, 'last_error', ARGV[5],
    'failures', nth, 'error:' .. nth % 5, row[2] .. ' ' .. string.format('%.0f', now) .. ' ' .. ARGV[5])
else
  redis.call('HSET', KEYS[4], 'state', state, 'last_error', ARGV[5])
end
if ARGV[6] then return {state, delay} end
return state
