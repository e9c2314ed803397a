-- Whether a job should have started by now. A job that was claimed once has started, whatever became of the attempt.
local function isExpired(attempts, startBy, now)
  return attempts == '0' and (tonumber(startBy) or math.huge) <= now
end
