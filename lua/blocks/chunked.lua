-- Runs a command with many values, a thousand at a time, because Lua passes only a few thousand values to one call.
-- Without a key, the values are the keys.
local function chunked(command, key, values)
  for first = 1, #values, 1000 do
    local last = math.min(first + 999, #values)
    if key then redis.call(command, key, unpack(values, first, last))
    else redis.call(command, unpack(values, first, last)) end
  end
end
