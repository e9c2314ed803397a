-- The bytes of a text in a response: JSON writes a control character in six bytes, a quote and a backslash in two.
local function jsonBytes(text)
  local _, controls = string.gsub(text, '%c', '')
  local _, escaped = string.gsub(text, '["\\]', '')
  return #text + 5 * controls + escaped
end
