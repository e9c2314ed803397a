-- list: reads one page of a set with the rows of its jobs; changes nothing.
-- MOVE: none
-- KEYS:
--   set  emq:{q}:<set>
-- ARGV:
--   jobPrefix
--   by           BYLEX | BYSCORE
--   first        bound, in the order of reading
--   last         bound
--   order        REV or empty
--   offset
--   limit        jobs
--   withError    1 = with the error text
--   withPayload  1 = with the payload
--   after?       id: the ids up to it that have the score of the first bound were read before
--   again?       how many of those ids to skip at most
-- REPLIES:
--   {1 if there are more, then for each job id, score, state, attempts, max_attempts, lapses, start_by, last_error,
--     payload}; a field that is absent or not asked for is nil
-- REPEATABLE: yes
-- COST: 1 command (ZRANGE) and 2 a job (HEXISTS, HMGET)
-- prologue
local keys = {set = KEYS[1]}
local args = {
  jobPrefix = ARGV[1], by = ARGV[2], first = ARGV[3], last = ARGV[4], order = ARGV[5], offset = ARGV[6],
  limit = ARGV[7], withError = ARGV[8], withPayload = ARGV[9], after = ARGV[10], again = ARGV[11],
}
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
-- block: jsonBytes
-- The bytes of a text in a response: JSON writes a control character in six bytes, a quote and a backslash in two.
local function jsonBytes(text)
  local _, controls = string.gsub(text, '%c', '')
  local _, escaped = string.gsub(text, '["\\]', '')
  return #text + 5 * controls + escaped
end
-- end: jsonBytes
-- block: isJob
-- A job exists if it has a row with a payload.
local function isJob(row)
  return read('HEXISTS', row, 'payload') == 1
end
-- end: isJob

local MAX_BYTES = 4 * 1024 * 1024
local limit, again, isReverse = tonumber(args.limit), tonumber(args.again or 0), args.order == 'REV'
local range = {keys.set, args.first, args.last, args.by}
if isReverse then append(range, 'REV') end
append(range, 'LIMIT', args.offset, limit + again + 1)
-- In lex order every score is 0, and Redis does not return it.
local step = args.by == 'BYSCORE' and 2 or 1
if step == 2 then append(range, 'WITHSCORES') end
local found = redis.call('ZRANGE', unpack(range))

-- Whether an id was read before. Compares bytes: `<` on strings uses the locale.
local function wasRead(id)
  for i = 1, math.max(#id, #args.after) do
    local a, b = string.byte(id, i) or -1, string.byte(args.after, i) or -1
    if a ~= b then return (a < b) ~= isReverse end
  end
  return true
end

local reply, jobs, bytes = {#found / step > limit + again and 1 or 0}, 0, 0
for i = 1, #found, step do
  local id, score = found[i], step == 2 and found[i + 1] or '0'
  if not (args.after and step == 2 and score == args.first and wasRead(id)) then
    local job
    if jobs < limit then
      local row = args.jobPrefix .. id
      job = {}
      if isJob(row) then
        job = redis.call('HMGET', row, 'state', 'attempts', 'max_attempts', 'lapses', 'start_by',
          args.withError == '1' and 'last_error' or '', args.withPayload == '1' and 'payload' or '')
        -- A state of nil marks a ghost: a job without a state has an empty one.
        job[1] = job[1] or ''
      end
      bytes = bytes + jsonBytes(job[7] or '') + jsonBytes(job[6] or '')
    end
    -- A short page is legal: the cursor continues after its last job.
    if not job or bytes > MAX_BYTES and jobs > 0 then
      reply[1] = 1
      break
    end
    append(reply, id, score)
    for field = 1, 7 do append(reply, job[field] or false) end
    jobs = jobs + 1
  end
end
return reply
