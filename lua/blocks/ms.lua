-- An instant in ms as text: Lua itself writes large numbers with an exponent.
local function ms(instant)
  return string.format('%.0f', instant)
end
