-- The longest delay in ms before the next attempt: it doubles with each attempt, up to a maximum.
local function backoff(used, policy)
  return math.min(policy.backoffMaxMs, policy.backoffBaseMs * 2 ^ math.max(0, math.min(used - 1, 40)))
end
