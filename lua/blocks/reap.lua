-- Ends lapsed leases: the first lapse returns a job to pending, later ones delay it by the backoff, and a job without
-- budget moves to dead. Returns the number of dead jobs and of ghosts.
local function reap(ids, keys, jobPrefix, policy, now, jitter)
  local back, later, died, dropped = {}, {}, {}, 0
  for i, id in ipairs(ids) do
    local row = jobPrefix .. id
    if isJob(row) then
      local token, base, maxAttempts, lapses, failures, state = unpack(redis.call('HMGET', row,
        'attempts', 'base', 'max_attempts', 'lapses', 'failures', 'state'))
      if not livesElsewhere(id, keys.active, setOf(state, keys)) then
        token, lapses = token or '0', (whole(lapses) or 0) + 1
        local used, limit, isSpent = budget(token, base, nil, maxAttempts, policy)
        local function mark(newState, ...)
          write('HSET', row, 'state', newState, 'lapsed', token, 'lapses', lapses, ...)
        end
        if isSpent or unmintable(token) then
          local reason = isSpent and 'lease expired on attempt ' .. used .. ' of ' .. limit or unmintable(token)
          mark('dead', 'died_at', ms(now), failure(token, now, reason, failures))
          append(died, 0, id)
        elseif lapses == 1 then
          mark('pending', 'since', ms(now))
          append(back, 0, id)
        else
          -- A poison job must not starve the healthy jobs behind it.
          local spread = (jitter + i * 0.618034) % 1
          mark('scheduled')
          append(later, now + math.ceil(backoff(used, policy) * (1 + spread) / 2), id)
        end
      end
    else
      removeGhost(row)
      dropped = dropped + 1
    end
  end
  chunked('ZADD', keys.pending, back)
  chunked('ZADD', keys.schedule, later)
  chunked('ZADD', keys.dead, died)
  chunked('ZREM', keys.active, ids)
  count(keys.failed, #died / 2)
  count(keys.ghosts, dropped)
  return #died / 2, dropped
end
