-- The retry policy of a queue from its settings, with the defaults of those that are absent or malformed.
local function policyOf(maxAttempts, backoffBaseMs, backoffMaxMs)
  return {
    maxAttempts = whole(maxAttempts) or 5,
    backoffBaseMs = whole(backoffBaseMs) or 1000,
    backoffMaxMs = whole(backoffMaxMs) or 600000,
  }
end
