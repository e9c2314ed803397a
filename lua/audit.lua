-- audit: judges jobs by what their rows and the four sets say of them; asked to, repairs what has one right answer.
-- MOVE: with repair: into the one set that is right, for a job that stands in none or in several; none for a ghost
-- KEYS: emq:{q}:pending emq:{q}:active emq:{q}:schedule emq:{q}:dead emq:{q}:metrics:ghosts emq:{q}:start-by
-- KEYS EACH: emq:{q}:job:<id>
-- ARGV: walk (the set in which the ids were found: pending | active | schedule | dead; rows = they are all the rows), repair (1 = do it)
-- ARGV EACH: id
-- REPLIES: for each finding id, kind (ghost | orphan | doubled | state | score), the sets that hold it with spaces, 1 when it was repaired
-- REPEATABLE: yes, what was repaired is sound
-- COST: 4 commands (ZMSCORE) and 2 for each id in a set (HEXISTS, HGET); at most 7 more for each id that is repaired
local SETS, STATES = {'pending', 'active', 'schedule', 'dead'}, {'pending', 'active', 'scheduled', 'dead'}
local PENDING, ACTIVE, SCHEDULE, DEAD = 1, 2, 3, 4
local ghosts, start_by, FIXED = KEYS[5], KEYS[6], 6
local walk, repair, BEFORE = ARGV[1], ARGV[2] == '1', 2
local count = #ARGV - BEFORE

local now
local function clock()
  if not now then
    local t = redis.call('TIME')
    now = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return now
end

local scores = {}
for set in ipairs(SETS) do
  scores[set] = {}
  for first = 1, count, 1000 do
    local found = redis.call('ZMSCORE', KEYS[set], unpack(ARGV, BEFORE + first, BEFORE + math.min(first + 999, count)))
    for i = 1, #found do scores[set][first + i - 1] = found[i] end
  end
end

-- Where a job that stands in no set belongs. One that says active has lost its deadline: it gets one that is over, so
-- that the next sweep ends it as it ends every lapsed lease, by the budget, and until then its holder may still settle.
-- One that says scheduled has lost its time: it is handed out now, because the other choice is never.
local HOMES = {pending = PENDING, active = ACTIVE, scheduled = PENDING, dead = DEAD}
-- Which of several sets keeps a job whose word names none of them: a lease is never taken from a holder, a time is
-- waited for, and only a job that is nowhere else stays dead, because there it would wait for a person.
local KEEPERS = {ACTIVE, SCHEDULE, PENDING, DEAD}

local function includes(sets, wanted)
  for _, set in ipairs(sets) do
    if set == wanted then return true end
  end
end

-- The set of several that keeps a job: the one its word names, else the safest.
local function keeper(sets, state)
  for set, word in ipairs(STATES) do
    if word == state and includes(sets, set) then return set end
  end
  for _, set in ipairs(KEEPERS) do
    if includes(sets, set) then return set end
  end
end

local function needs_zero(set, score)
  return (set == PENDING or set == DEAD) and tonumber(score) ~= 0
end

-- Leaves the job in one set only, with the score and the word that belong there.
local function put(id, key, home, sets, i)
  for _, set in ipairs(sets) do
    if set ~= home then redis.call('ZREM', KEYS[set], id) end
  end
  local score = scores[home][i]
  if not score and home == ACTIVE then
    redis.call('ZADD', KEYS[home], clock(), id)
  elseif not score or needs_zero(home, score) then
    redis.call('ZADD', KEYS[home], 0, id)
  end
  redis.call('HSET', key, 'state', STATES[home])
end

-- block: read
-- Reads a row. A key of another type than a hash is no row: nil. Any other error is one.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
local reply = {}
local function judge(i)
  local id, key = ARGV[BEFORE + i], KEYS[FIXED + i]
  local sets, names = {}, {}
  for set, name in ipairs(SETS) do
    if scores[set][i] then
      sets[#sets + 1] = set
      names[#names + 1] = name
    end
  end
  -- A job is judged once: where the first set that holds it is walked, and among the rows when none does.
  if (names[1] or 'rows') ~= walk then return end
  local function report(kind, repaired)
    local n = #reply
    reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = id, kind, table.concat(names, ' '), repaired and 1 or 0
  end

  if read('HEXISTS', key, 'payload') ~= 1 then
    -- It went since the walk met it.
    if #sets == 0 and redis.call('EXISTS', key) == 0 then return end
    if repair then
      for _, set in ipairs(sets) do redis.call('ZREM', KEYS[set], id) end
      redis.call('ZREM', start_by, id)
      redis.call('DEL', key)
      redis.pcall('HINCRBY', ghosts, 'count', 1)
    end
    return report('ghost', repair)
  end

  local state = redis.call('HGET', key, 'state')
  if #sets == 0 then
    local home = HOMES[state]
    if repair and home then put(id, key, home, sets, i) end
    return report('orphan', repair and home)
  end
  if #sets > 1 then
    if repair then put(id, key, keeper(sets, state), sets, i) end
    return report('doubled', repair)
  end
  local home = sets[1]
  local misnamed, misplaced = state ~= STATES[home], needs_zero(home, scores[home][i])
  if repair and (misnamed or misplaced) then put(id, key, home, sets, i) end
  if misnamed then report('state', repair) end
  if misplaced then report('score', repair) end
end

for i = 1, count do judge(i) end
return reply
