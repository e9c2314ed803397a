-- Moves expired jobs to dead. The caller removes their ids from the set they were in and from start-by.
local function expire(ids, keys, jobPrefix)
  local entries = {}
  for _, id in ipairs(ids) do
    write('HSET', jobPrefix .. id, 'state', 'dead', 'last_error', 'expired')
    append(entries, 0, id)
  end
  chunked('ZADD', keys.dead, entries)
  count(keys.failed, #ids)
end
