-- sweep: the maintenance of one queue in one visit: promotes what is due, reaps what has lapsed, ends what was to start by now; each bounded.
-- MOVE: scheduled -> pending; active -> pending | scheduled | dead; pending | scheduled -> dead for a job that was to start by now
-- KEYS: emq:{q}:active emq:{q}:pending emq:{q}:schedule emq:{q}:dead emq:{q}:metrics:failed emq:{q}:metrics:ghosts emq:{q}:meta emq:{q}:start-by
-- ARGV: jobPrefix, limit (jobs of each kind), jitter (0 <= jitter < 1)
-- REPLIES: {server's now in ms, promoted, reaped, dead, ghosts, 1 when more is left, ms of the next visit that pays or -1 when the queue rests}
-- REPEATABLE: yes, it moves what is due by the server's clock
-- COST: 6 commands at rest (TIME, ZRANGE, ZRANGE, ZRANGE, ZCARD, ZCARD); more for what it moves
local active, pending, schedule, dead, failed, ghosts, meta, start_by = unpack(KEYS)
local prefix, SWEEP, jitter = ARGV[1], math.max(0, math.floor(tonumber(ARGV[2]))), tonumber(ARGV[3]) or 0.5
local policy = {}
-- block: chunked
-- Lua hands a call a few thousand values at the most.
local function chunked(command, key, values)
  for first = 1, #values, 1000 do
    redis.call(command, key, unpack(values, first, math.min(first + 999, #values)))
  end
end
-- end: chunked
-- block: whole
-- A number of a setting or a row: whole and not negative, or nothing.
local function whole(text)
  local number = tonumber(text)
  if number and number >= 0 and number < 2 ^ 53 and number == math.floor(number) then return number end
end
-- end: whole
-- block: backoff
local function ceiling(attempt)
  local base, most = whole(policy[2]) or 1000, whole(policy[3]) or 600000
  return math.min(most, base * 2 ^ math.max(0, math.min(attempt - 1, 40)))
end
-- end: backoff
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
-- block: reap
-- Ends the lapsed leases; answers how many jobs died of it, and how many ids were ghosts.
local function reap(lapsed, now, jitter)
  local back, later, died, dropped = {}, {}, {}, 0
  for i, id in ipairs(lapsed) do
    local key = prefix .. id
    local row = read('HEXISTS', key, 'payload') == 1
      and redis.call('HMGET', key, 'attempts', 'base', 'max_attempts', 'lapses', 'failures', 'last_error', 'state')
    local home = row and ({pending = pending, scheduled = schedule, dead = dead})[row[7]]
    if not row then
      redis.call('DEL', key)
      dropped = dropped + 1
    elseif not (home and redis.call('ZSCORE', home, id)) then
      -- An id that stood here as a ghost may have become a job elsewhere since: where its row says, it stays.
      local token = row[1] or '0'
      local used = (tonumber(token) or 0) - (tonumber(row[2]) or 0)
      local limit = whole(row[3]) or whole(policy[1]) or 5
      local lapses = (tonumber(row[4]) or 0) + 1
      if limit > 0 and used >= limit then
        local reason = 'lease expired on attempt ' .. used .. ' of ' .. limit
        local nth = (tonumber(row[5]) or 0) + 1
        write('HSET', key, 'state', 'dead', 'lapsed', token, 'lapses', lapses, 'last_error', reason)
        if row[6] then
          redis.call('HSET', key, 'failures', nth, 'error:' .. nth % 5, token .. ' ' .. string.format('%.0f', now) .. ' ' .. reason)
        end
        died[#died + 1] = 0
        died[#died + 1] = id
      elseif lapses == 1 then
        write('HSET', key, 'state', 'pending', 'lapsed', token, 'lapses', lapses)
        back[#back + 1] = 0
        back[#back + 1] = id
      else
        -- From the second lapse on the job waits, so that a poison job cannot starve the healthy ones behind it.
        local spread = (jitter + i * 0.618034) % 1
        write('HSET', key, 'state', 'scheduled', 'lapsed', token, 'lapses', lapses)
        later[#later + 1] = now + math.ceil(ceiling(used) * (1 + spread) / 2)
        later[#later + 1] = id
      end
    end
  end
  chunked('ZADD', pending, back)
  chunked('ZADD', schedule, later)
  chunked('ZADD', dead, died)
  chunked('ZREM', active, lapsed)
  if #died > 0 then redis.pcall('HINCRBY', failed, 'count', #died / 2) end
  if dropped > 0 then redis.pcall('HINCRBY', ghosts, 'count', dropped) end
  return #died / 2, dropped
end
-- end: reap
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local next_due = redis.call('ZRANGE', schedule, 0, 0, 'WITHSCORES')
local next_lapse = redis.call('ZRANGE', active, 0, 0, 'WITHSCORES')
if next_lapse[1] and tonumber(next_lapse[2]) <= now then
  policy = redis.call('HMGET', meta, 'maxAttempts', 'backoffBaseMs', 'backoffMaxMs')
end
-- block: sweep
-- Moves what is due and ends what has lapsed, a bounded number of each; answers the counts.
local function sweep()
  local swept = {promoted = 0, reaped = 0, died = 0, dropped = 0}
  if next_due[1] and tonumber(next_due[2]) <= now then
    local due = redis.call('ZRANGE', schedule, '-inf', now, 'BYSCORE', 'LIMIT', 0, SWEEP)
    swept.promoted, swept.dropped = promote(due)
    next_due = redis.call('ZRANGE', schedule, 0, 0, 'WITHSCORES')
  end
  if next_lapse[1] and tonumber(next_lapse[2]) <= now then
    local lapsed = redis.call('ZRANGE', active, '-inf', now, 'BYSCORE', 'LIMIT', 0, SWEEP)
    local died, dropped = reap(lapsed, now, jitter)
    swept.reaped, swept.died, swept.dropped = #lapsed, died, swept.dropped + dropped
    next_lapse = redis.call('ZRANGE', active, 0, 0, 'WITHSCORES')
    -- A job that lapsed again waits in the schedule now.
    next_due = redis.call('ZRANGE', schedule, 0, 0, 'WITHSCORES')
  end
  return swept
end
-- end: sweep
local swept = sweep()

local next_expiry = redis.call('ZRANGE', start_by, 0, 0, 'WITHSCORES')
local expired = 0
if next_expiry[1] and tonumber(next_expiry[2]) <= now then
  local ids = redis.call('ZRANGE', start_by, '-inf', now, 'BYSCORE', 'LIMIT', 0, SWEEP)
  for _, id in ipairs(ids) do
    local row = read('HMGET', prefix .. id, 'attempts', 'state', 'start_by') or {}
    -- A job that was claimed once has started, whatever became of that attempt. The row decides: the index may name a
    -- job that is gone, whose id was used again.
    local waits = row[1] == '0' and (row[2] == 'pending' or row[2] == 'scheduled')
    local expires = waits and (tonumber(row[3]) or math.huge) <= now
    if expires and redis.call('HEXISTS', prefix .. id, 'payload') == 1 then
      redis.call('ZREM', row[2] == 'pending' and pending or schedule, id)
      redis.call('ZADD', dead, 0, id)
      redis.call('HSET', prefix .. id, 'state', 'dead', 'last_error', 'expired')
      expired = expired + 1
    end
  end
  chunked('ZREM', start_by, ids)
  if expired > 0 then redis.pcall('HINCRBY', failed, 'count', expired) end
  next_due = redis.call('ZRANGE', schedule, 0, 0, 'WITHSCORES')
  next_expiry = redis.call('ZRANGE', start_by, 0, 0, 'WITHSCORES')
end

local more = 0
for _, head in ipairs({next_due, next_lapse, next_expiry}) do
  if head[1] and tonumber(head[2]) <= now then more = 1 end
end
-- A queue with work to hand out may lease, retry and lapse at any time: it is visited each minute. One that only
-- waits for its schedule is visited when that is due.
local due = -1
if redis.call('ZCARD', pending) > 0 or redis.call('ZCARD', active) > 0 then
  due = now
elseif next_due[1] then
  due = math.min(tonumber(next_due[2]), tonumber(next_expiry[2]) or math.huge)
end
return {now, swept.promoted, swept.reaped, swept.died + expired, swept.dropped, more, due}
