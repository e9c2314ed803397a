-- reap: takes jobs whose lease has lapsed out of active; the first lapse goes back to pending, later ones wait, and a spent budget is dead.
-- MOVE: active -> pending | scheduled | dead
-- KEYS: emq:{q}:active emq:{q}:pending emq:{q}:schedule emq:{q}:dead emq:{q}:metrics:failed emq:{q}:metrics:ghosts emq:{q}:meta
-- ARGV: jobPrefix, limit (jobs), jitter? (0 <= jitter < 1, asks for the extended form)
-- REPLIES: number taken out of active, ghosts included; extended {taken, of them dead, of them ghosts, 1 when more have lapsed}
-- REPEATABLE: yes, it takes what has lapsed by the server's clock
-- COST: 2 commands (TIME, ZRANGE) when nothing has lapsed; then 1 (HMGET), 3 a job (HEXISTS, HMGET, HSET) and up to 6 a run
local active, pending, schedule, dead, failed, ghosts, meta = unpack(KEYS)
local prefix, limit = ARGV[1], math.max(0, math.floor(tonumber(ARGV[2])))
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
local lapsed = redis.call('ZRANGE', active, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit + 1)
local more = 0
if #lapsed > limit then
  more = 1
  lapsed[#lapsed] = nil
end
local died, dropped = 0, 0
if #lapsed > 0 then
  policy = redis.call('HMGET', meta, 'maxAttempts', 'backoffBaseMs', 'backoffMaxMs')
  died, dropped = reap(lapsed, now, tonumber(ARGV[3]) or 0.5)
end
if ARGV[3] then return {#lapsed, died, dropped, more} end
return #lapsed
