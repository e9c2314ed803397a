-- The error reply to a stale token.
local function stale(move, reason)
  local suffix = reason == 'superseded' and '' or ' (' .. reason .. ')'
  return redis.error_reply('EMQSTALE ' .. move .. ' token mismatch' .. suffix)
end
