-- list: reads one page of a set with the rows of its jobs; changes nothing.
-- MOVE: none
-- KEYS: emq:{q}:<set>
-- ARGV: jobPrefix, by (BYLEX | BYSCORE), first (bound in the order of reading), last (bound), order (REV or empty), offset, limit (jobs), withError (1 = with the error text), withPayload (1 = with the payload), after? (id: those up to it, at the score of the first bound, were read before), again? (how many of them to pass over at the most)
-- REPLIES: {1 when there is more, then for each job id, score, state, attempts, max_attempts, lapses, start_by, last_error, payload; what is absent or not asked for is nil}
-- REPEATABLE: yes
-- COST: 1 command (ZRANGE) and 2 a job (HEXISTS, HMGET)
local prefix, by, first, last, order, offset, limit = unpack(ARGV, 1, 7)
local after, again = ARGV[10], tonumber(ARGV[11] or 0)
local MAX_BYTES = 8 * 1024 * 1024
local range = {KEYS[1], first, last, by}
if order == 'REV' then range[#range + 1] = 'REV' end
for _, word in ipairs({'LIMIT', offset, limit + again + 1}) do range[#range + 1] = word end
-- In lex order every score is 0, and Redis does not answer it.
if by == 'BYSCORE' then range[#range + 1] = 'WITHSCORES' end
local found = redis.call('ZRANGE', unpack(range))
local step = by == 'BYSCORE' and 2 or 1

-- block: read
-- Reads a row. A key of another type than a hash is no row: nil. Any other error is one.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read

-- Whether an id was read before. By bytes: `<` on strings goes by the locale.
local function was_read(id)
  for i = 1, math.max(#id, #after) do
    local a, b = string.byte(id, i) or -1, string.byte(after, i) or -1
    if a ~= b then return (a < b) == (order ~= 'REV') end
  end
  return true
end

local reply, jobs, bytes = {#found / step > limit + again and 1 or 0}, 0, 0
for i = 1, #found, step do
  if not (after and step == 2 and found[i + 1] == first and was_read(found[i])) then
    local row
    if jobs < tonumber(limit) then
      local key = prefix .. found[i]
      row = {}
      if read('HEXISTS', key, 'payload') == 1 then
        row = redis.call('HMGET', key, 'state', 'attempts', 'max_attempts', 'lapses', 'start_by',
          ARGV[8] == '1' and 'last_error' or '', ARGV[9] == '1' and 'payload' or '')
        -- A job without a state is a job all the same: nil tells that there is none.
        row[1] = row[1] or ''
      end
      bytes = bytes + #(row[7] or '')
    end
    -- A short page is legal: the cursor goes on from its last job.
    if not row or bytes > MAX_BYTES and jobs > 0 then
      reply[1] = 1
      break
    end
    local n = #reply
    reply[n + 1] = found[i]
    reply[n + 2] = step == 2 and found[i + 1] or '0'
    for field = 1, 7 do reply[n + 2 + field] = row[field] or false end
    jobs = jobs + 1
  end
end
return reply
