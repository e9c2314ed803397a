-- Whether an id in `set` is a duplicate entry of a job that is in `home`, the set that its row names. The id of a ghost
-- may have been enqueued again: the job stays where its row says.
local function livesElsewhere(id, set, home)
  return home and home ~= set and redis.call('ZSCORE', home, id)
end
