-- Why the next claim cannot mint a token: attempts that another client wrote may be no number, or too large; nil if it can.
local function unmintable(attempts)
  local number = whole(attempts or '0')
  if not number or number >= 2 ^ 53 - 1 then return 'attempts is not a number that can be counted up' end
end
