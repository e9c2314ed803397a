-- audit: compares the rows of jobs with the four sets; on request, repairs every case that has one correct fix.
-- MOVE: with repair: a job in no set or in several moves to the one correct set; a ghost is deleted
-- KEYS:
--   pending   emq:{q}:pending
--   active    emq:{q}:active
--   schedule  emq:{q}:schedule
--   dead      emq:{q}:dead
--   ghosts    emq:{q}:metrics:ghosts
--   startBy   emq:{q}:start-by
-- KEYS EACH:
--   row       emq:{q}:job:<id>
-- ARGV:
--   walk    where the ids were found: pending | active | schedule | dead; rows = among all rows
--   repair  1 = repair
-- ARGV EACH:
--   id
-- REPLIES:
--   for each finding id, kind (ghost | orphan | doubled | state | score), the sets with the id, 1 if it was repaired
-- REPEATABLE: yes, a repaired job has no finding
-- COST: 4 commands (ZMSCORE) and 2 for each id in a set (HEXISTS, HGET); at most 7 more for each id that is repaired
-- prologue
local keys = {
  pending = KEYS[1], active = KEYS[2], schedule = KEYS[3], dead = KEYS[4], ghosts = KEYS[5], startBy = KEYS[6],
}
local args = {walk = ARGV[1], repair = ARGV[2]}
local items = {}
for nth = 1, #ARGV - 2 do
  items[nth] = {row = KEYS[6 + nth], id = ARGV[2 + nth]}
end
-- end: prologue
-- block: read
-- Reads a row. A key of another type is not a row: nil. Any other error is raised.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
-- block: append
-- Appends values to a list, for example a score and an id, as ZADD takes them.
local function append(list, ...)
  for _, value in ipairs({...}) do list[#list + 1] = value end
end
-- end: append
-- block: clock
-- The clock of the server in ms. It is read once: one run of a script has one instant.
local instant
local function clock()
  if not instant then
    local t = redis.call('TIME')
    instant = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return instant
end
-- end: clock
-- block: count
-- Adds to a counter. No move depends on a counter: one that cannot be written is skipped.
local function count(counter, number)
  if counter and number > 0 then redis.pcall('HINCRBY', counter, 'count', number) end
end
-- end: count
-- block: isJob
-- A job exists if it has a row with a payload.
local function isJob(row)
  return read('HEXISTS', row, 'payload') == 1
end
-- end: isJob

local repair = args.repair == '1'
local SETS = {'pending', 'active', 'schedule', 'dead'}
local STATES = {pending = 'pending', active = 'active', schedule = 'scheduled', dead = 'dead'}

-- Where a job in no set belongs, by its state. An active one has lost its deadline: it gets one that has passed. The
-- next sweep then ends it like every lapsed lease, and its holder may settle it until then. A scheduled one has lost
-- its time: it runs now, because the other choice is never.
local HOMES = {pending = 'pending', active = 'active', scheduled = 'pending', dead = 'dead'}
-- Which of several sets keeps a job whose state names none of them, the first that contains it: a holder keeps its
-- lease, a time is waited for, and a job in any other set is not dead.
local KEEPERS = {'active', 'schedule', 'pending', 'dead'}

local scores = {}
for _, set in ipairs(SETS) do
  scores[set] = {}
  for first = 1, #items, 1000 do
    local ids = {}
    for nth = first, math.min(first + 999, #items) do append(ids, items[nth].id) end
    append(scores[set], unpack(redis.call('ZMSCORE', keys[set], unpack(ids))))
  end
end

-- Which of several sets keeps a job: the one that its state names, else the safest.
local function keeperOf(state, score)
  for set, name in pairs(STATES) do
    if name == state and score[set] then return set end
  end
  for _, set in ipairs(KEEPERS) do
    if score[set] then return set end
  end
end

local function needsZero(set, score)
  return (set == 'pending' or set == 'dead') and tonumber(score) ~= 0
end

-- Leaves the job in one set only, with the score and the state that belong there.
local function put(item, home, score)
  for _, set in ipairs(SETS) do
    if set ~= home and score[set] then redis.call('ZREM', keys[set], item.id) end
  end
  if home == 'active' then
    if not score.active then redis.call('ZADD', keys.active, clock(), item.id) end
  elseif not score[home] or needsZero(home, score[home]) then
    redis.call('ZADD', keys[home], 0, item.id)
  end
  redis.call('HSET', item.row, 'state', STATES[home])
end

local reply = {}
local function judge(nth, item)
  local sets, score = {}, {}
  for _, set in ipairs(SETS) do
    score[set] = scores[set][nth]
    if score[set] then append(sets, set) end
  end
  -- A job is judged once: where the first set that contains it is walked, and among the rows if no set does.
  if (sets[1] or 'rows') ~= args.walk then return end
  local function report(kind, isRepaired)
    append(reply, item.id, kind, table.concat(sets, ' '), isRepaired and 1 or 0)
  end

  if not isJob(item.row) then
    -- The row was deleted after the walk found it.
    if #sets == 0 and redis.call('EXISTS', item.row) == 0 then return end
    if repair then
      for _, set in ipairs(sets) do redis.call('ZREM', keys[set], item.id) end
      redis.call('ZREM', keys.startBy, item.id)
      redis.call('DEL', item.row)
      count(keys.ghosts, 1)
    end
    return report('ghost', repair)
  end

  local state = redis.call('HGET', item.row, 'state')
  if #sets == 0 then
    local home = HOMES[state]
    if repair and home then put(item, home, score) end
    return report('orphan', repair and home)
  end
  if #sets > 1 then
    if repair then put(item, keeperOf(state, score), score) end
    return report('doubled', repair)
  end
  local home = sets[1]
  local isMisnamed, isMisplaced = state ~= STATES[home], needsZero(home, score[home])
  if repair and (isMisnamed or isMisplaced) then put(item, home, score) end
  if isMisnamed then report('state', repair) end
  if isMisplaced then report('score', repair) end
end

for nth, item in ipairs(items) do judge(nth, item) end
return reply
