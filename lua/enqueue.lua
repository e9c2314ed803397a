-- enqueue: adds a new job to pending.
-- MOVE: none -> pending
-- KEYS:
--   row      emq:{q}:job:<id>
--   pending  emq:{q}:pending
-- ARGV:
--   id
--   payload  bytes, stored unchanged
-- REPLIES:
--   1 = enqueued
--   0 = duplicate, nothing changed
--   EMQKIND job id must be JOB-namespaced
-- REPEATABLE: yes, a repeat returns 0 while the job exists
-- COST: 3 commands (HKEYS, ZADD, HSET); 1 for a duplicate
-- prologue
local keys = {row = KEYS[1], pending = KEYS[2]}
local args = {id = ARGV[1], payload = ARGV[2]}
-- end: prologue
-- block: read
-- Reads a row. A key of another type is not a row: nil. Any other error is raised.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
-- block: occupant
-- What is stored at a row: 'job', 'rest' (the half row of a ghost, or a key of another type), or nil.
local function occupant(row)
  local fields = read('HKEYS', row)
  if not fields then return 'rest' end
  for _, field in ipairs(fields) do
    if field == 'payload' then return 'job' end
  end
  if #fields > 0 then return 'rest' end
end
-- end: occupant

if string.sub(args.id, 1, 3) ~= 'JOB' then
  return redis.error_reply('EMQKIND job id must be JOB-namespaced')
end
local found = occupant(keys.row)
if found == 'job' then return 0 end

-- The set first: a run that fails in between leaves a ghost, which any claim drops, and not a row that blocks its id.
redis.call('ZADD', keys.pending, 0, args.id)
-- The new job must not inherit the attempts of a ghost.
if found then redis.call('DEL', keys.row) end
redis.call('HSET', keys.row, 'state', 'pending', 'attempts', '0', 'payload', args.payload)
return 1
