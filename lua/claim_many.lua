-- claim_many: hands out the oldest pending jobs, each under a lease and with its fencing token, after a sweep of what is due and what has lapsed.
-- MOVE: pending -> active; scheduled -> pending; active -> pending | scheduled | dead; pending -> dead for a job that was to start by now
-- KEYS: emq:{q}:active emq:{q}:pending emq:{q}:schedule emq:{q}:dead emq:{q}:metrics:failed emq:{q}:metrics:ghosts emq:{q}:meta emq:{q}:start-by
-- OPTIONAL KEYS: emq:{q}:claim:<claimId>
-- ARGV: jobPrefix, leaseMs (empty = the queue's, else 30000), limit (jobs), jitter (0 <= jitter < 1)
-- REPLIES: {ok | paused | full, ms until the next job is due or lapses or -1, then for each job id, payload, token, ms of lease left}
-- REPEATABLE: with a claim key: the jobs of the claim that are still live, with the same tokens; without one a repeat takes further jobs
-- COST: empty 5 commands (HMGET, TIME, ZRANGE, ZRANGE, ZRANGE), EXISTS for the last with a claim key while anything is active; then 2 a job (HMGET, HSET) and 2 a batch (ZREM, ZADD); 1 more on a queue with a cap while anything is active (ZCARD); with a claim key 1 more to remember it, and 1 (EXISTS) to look for it while anything is active
local active, pending, schedule, dead, failed, ghosts, meta, start_by, claim = unpack(KEYS)
local prefix, limit, jitter = ARGV[1], math.max(0, math.floor(tonumber(ARGV[3]))), tonumber(ARGV[4]) or 0.5
local MAX_BYTES, SWEEP, ROUNDS = 8 * 1024 * 1024, 100, 10
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
local settings = redis.call('HMGET', meta, 'maxAttempts', 'backoffBaseMs', 'backoffMaxMs', 'paused', 'leaseMs', 'maxActive')
local policy = settings
local lease = tonumber(ARGV[2]) or whole(settings[5]) or 30000
if lease == 0 and ARGV[2] == '' then lease = 30000 end
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
sweep()

local paused = settings[4]
local function peek()
  return limit > 0 and redis.call('ZRANGE', pending, 0, limit - 1) or {}
end

-- The answer of this very claim may have been lost: what it gave is still its own. Most claims that come back empty
-- find nothing remembered and nothing pending, which is one question; where one of the two is there, pending tells which.
local peeked
if claim and next_lapse[1] then
  local there = paused and 2 or redis.call('EXISTS', claim, pending)
  if there < 2 then peeked = there == 0 and {} or peek() end
  if there == 2 or there == 1 and #peeked == 0 then
    local words = {}
    for word in string.gmatch(read('GET', claim) or '', '%S+') do words[#words + 1] = word end
    local reply = {'ok', -1}
    for i = 1, #words, 2 do
      local row = read('HMGET', prefix .. words[i], 'payload', 'attempts', 'state') or {}
      local deadline = tonumber(redis.call('ZSCORE', active, words[i]) or 0)
      if row[1] and row[2] == words[i + 1] and row[3] == 'active' and deadline > now then
        local n = #reply
        reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = words[i], row[1], words[i + 1], deadline - now
      end
    end
    if #reply > 2 then return reply end
  end
end

local function wait()
  local due, lapse = tonumber(next_due[2]), tonumber(next_lapse[2])
  if not due and not lapse then return -1 end
  return math.max(0, math.min(due or math.huge, lapse or math.huge) - now)
end
if paused then return {'paused', wait()} end
local cap = whole(settings[6]) or 0
if cap > 0 then
  -- Where nothing is pending, how many are active makes no difference.
  peeked = peeked or peek()
  limit = math.min(limit, cap - (#peeked > 0 and next_lapse[1] and redis.call('ZCARD', active) or 0))
  if limit <= 0 then return {'full', wait()} end
end

-- What is to be written is known in whole before anything is.
local reply, given, leased, left, expiring, broken = {'ok', -1}, 0, {}, {}, {}, {}
local started, remembered, bytes, full = {}, {}, 0, false
for round = 1, limit > 0 and ROUNDS or 0 do
  -- The first look is for what is wanted; behind ids that are passed over, the others see further.
  local wanted = round == 1 and limit or math.max(limit - given, 100)
  local ids = peeked or redis.call('ZRANGE', pending, #left, #left + wanted - 1)
  peeked = nil
  for _, id in ipairs(ids) do
    if given == limit then break end
    local row = read('HMGET', prefix .. id, 'payload', 'attempts', 'start_by') or {}
    if not row[1] then
      broken[#broken + 1] = prefix .. id
    elseif row[2] == '0' and (tonumber(row[3]) or math.huge) <= now then
      expiring[#expiring + 1] = 0
      expiring[#expiring + 1] = id
      started[#started + 1] = id
    elseif given > 0 and bytes + #row[1] > MAX_BYTES then
      full = true
      break
    else
      local token = string.format('%.0f', (tonumber(row[2]) or 0) + 1)
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = id, row[1], token, lease
      bytes = bytes + #row[1]
      given = given + 1
      leased[#leased + 1] = now + lease
      leased[#leased + 1] = id
      remembered[given] = id .. ' ' .. token
      if row[3] then started[#started + 1] = id end
    end
    left[#left + 1] = id
  end
  if full or given == limit or #ids < wanted then break end
  -- There is more behind so many that are none: nobody should take this for an empty queue.
  if round == ROUNDS then next_due = {'', now} end
end
for i = 3, #reply, 4 do write('HSET', prefix .. reply[i], 'state', 'active', 'attempts', reply[i + 2]) end
for i = 2, #expiring, 2 do write('HSET', prefix .. expiring[i], 'state', 'dead', 'last_error', 'expired') end
chunked('ZADD', active, leased)
chunked('ZADD', dead, expiring)
chunked('ZREM', pending, left)
chunked('ZREM', start_by, started)
for first = 1, #broken, 1000 do redis.call('DEL', unpack(broken, first, math.min(first + 999, #broken))) end
if #expiring > 0 then redis.pcall('HINCRBY', failed, 'count', #expiring / 2) end
if #broken > 0 then redis.pcall('HINCRBY', ghosts, 'count', #broken) end
if given == 0 then
  reply[2] = wait()
elseif claim and lease >= 1 then
  redis.call('SET', claim, table.concat(remembered, ' '), 'PX', math.floor(lease))
end
return reply
