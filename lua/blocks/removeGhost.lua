-- Deletes the half row of a ghost, and its id from a set. Returns whether there was a half row.
local function removeGhost(row, id, set)
  local existed = redis.call('DEL', row) == 1
  if existed and set then redis.call('ZREM', set, id) end
  return existed
end
