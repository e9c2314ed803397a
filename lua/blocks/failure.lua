-- The fields that record a failure: the last error, and a ring of the last five with attempt, instant and error.
local function failure(attempt, now, error, failures)
  local nth = (whole(failures) or 0) + 1
  local entry = attempt .. ' ' .. ms(now) .. ' ' .. error
  return 'last_error', error, 'failures', nth, 'error:' .. nth % 5, entry
end
