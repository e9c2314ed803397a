-- The budget of a job: attempts used, how many it may use (0 = no limit), and whether all of them are used. The limit
-- is the value of the call, else the job's, else the queue's.
local function budget(attempts, base, ofCall, ofJob, policy)
  local used = (whole(attempts) or 0) - (whole(base) or 0)
  local limit = tonumber(ofCall) or whole(ofJob) or policy.maxAttempts
  return used, limit, limit > 0 and used >= limit
end
