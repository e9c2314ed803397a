-- What is stored at a row: 'job', 'rest' (the half row of a ghost, or a key of another type), or nil.
local function occupant(row)
  local fields = read('HKEYS', row)
  if not fields then return 'rest' end
  for _, field in ipairs(fields) do
    if field == 'payload' then return 'job' end
  end
  if #fields > 0 then return 'rest' end
end
