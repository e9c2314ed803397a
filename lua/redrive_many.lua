-- redrive_many: brings dead jobs back to pending, by mint time and by error text; looks at a bounded number and says where to go on.
-- MOVE: dead -> pending
-- KEYS: emq:{q}:dead emq:{q}:pending emq:{q}:start-by
-- ARGV: jobPrefix, limit (jobs to redrive), from (lex bound: - or [id or an exclusive one), to (lex bound: + or [id or an exclusive one), scan (jobs to look at), errorContains (empty = any), dryRun (1 = change nothing)
-- REPLIES: {redriven, last id looked at or empty, 1 when there is more to look at}
-- REPEATABLE: yes, what was redriven is not dead any more
-- COST: 1 command (ZRANGE), then 1 for each job looked at (HMGET) and 6 more a redriven job (HEXISTS, HMGET, ZADD, ZREM, HSET, HDEL)
local prefix, limit, from, to, scan = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
local text, dry_run = ARGV[6], ARGV[7] == '1'
-- block: read
-- Reads a row. A key of another type than a hash is no row: nil. Any other error is one.
local function read(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then return redis.call(command, key, ...) end
end
-- end: read
-- block: redrive
local function redrive(dead, pending, start_by, key, id)
  local row = redis.call('HMGET', key, 'state', 'attempts', 'start_by')
  if row[1] ~= 'dead' then return row[1] or 'unknown' end
  redis.call('ZADD', pending, 0, id)
  redis.call('ZREM', dead, id)
  redis.call('HSET', key, 'state', 'pending', 'base', row[2] or '0')
  redis.call('HDEL', key, 'lapsed', 'lapses', 'start_by')
  if row[3] then redis.call('ZREM', start_by, id) end
end
-- end: redrive
local ids = redis.call('ZRANGE', KEYS[1], from, to, 'BYLEX', 'LIMIT', 0, scan + 1)
local redriven, last, looked = 0, '', 0
for _, id in ipairs(ids) do
  if looked == scan or redriven == limit then break end
  looked = looked + 1
  last = id
  local key = prefix .. id
  local row = read('HMGET', key, 'state', 'last_error') or {}
  local matches = row[1] == 'dead' and (text == '' or string.find(row[2] or '', text, 1, true))
  if matches and redis.call('HEXISTS', key, 'payload') == 1 then
    redriven = redriven + 1
    if not dry_run then redrive(KEYS[1], KEYS[2], KEYS[3], key, id) end
  end
end
return {redriven, last, #ids > looked and 1 or 0}
