-- Why a token is stale: superseded, released or lapsed; nil for the token of the current lease.
local function staleness(token, attempts, state, lapsed)
  if token ~= attempts or token == '0' then return 'superseded' end
  if state == 'active' then return nil end
  return lapsed == token and 'lapsed' or 'released'
end
