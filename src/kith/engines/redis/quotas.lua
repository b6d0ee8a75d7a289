-- Atomically checks or changes the counts of one user: access/sliding_window.py in Lua. quota_store.py describes the key.
--
-- KEYS[1]  the counts
-- ARGV[1]  the operation
-- Lua's numbers are Python's floats, and the operations here are the same, in the same order, so results are equal.

local PARTS, SKEW_S = 15, 5.0
local WRONG_S = SKEW_S / 2 -- an instance's clock that is further than this from the node's counts as wrong

local function read()
  local value = redis.call('GET', KEYS[1])
  local counts = {}
  if not value then
    for at = 1, PARTS + 1 do counts[at] = 0 end
    return 0, 0, counts, false
  end
  local part, last = struct.unpack('<dd', value)
  for at = 1, PARTS + 1 do counts[at] = struct.unpack('<I4', value, 13 + 4 * at) end
  return part, last, counts, true
end

local function write(part, last, counts, ...)
  local packed = struct.pack('<dd', part, last)
  for at = 1, PARTS + 1 do packed = packed .. struct.pack('<I4', counts[at]) end
  redis.call('SET', KEYS[1], packed, ...)
end

local function moved(held_part, last, counts, part, window, now)
  local steps, shifted = part - held_part, {}
  if steps < -PARTS or now - last >= window then
    for at = 1, PARTS + 1 do shifted[at] = 0 end
    return part, 0, shifted
  end
  if now < last then return part, now, counts end
  if steps <= 0 then return held_part, last, counts end
  for at = 1, PARTS + 1 do shifted[at] = at > steps and counts[at - steps] or 0 end
  return part, last, shifted
end

local operations = {}

function operations.take(limit, window, now, wall)
  limit, window, now = tonumber(limit), tonumber(window), tonumber(now)
  local time = redis.call('TIME')
  local ahead = time[1] + time[2] / 1000000 - tonumber(wall)
  if math.abs(ahead) > WRONG_S then now = now + ahead end
  local part, last, counts = read()
  local width = window / PARTS
  if last - SKEW_S < now and now < last then now = last end
  part, last, counts = moved(part, last, counts, math.floor(now / width), window, now)
  local over, wait = -limit, 0
  for at = 1, PARTS + 1 do over = over + counts[at] end
  if over < 0 then
    counts[1], last = counts[1] + 1, now
  else
    local age = PARTS
    while over >= 0 do -- find the part that must leave the window until there is room
      over = over - counts[age + 1]
      age = age - 1
    end
    wait = math.max(math.min((part - age + PARTS) * width - now, window - (now - last)), 0.001)
  end
  write(part, last, counts, 'EX', 2 * window)
  return {part, string.format('%.17g', wait)}
end

function operations.refund(part)
  local held, last, counts, known = read()
  local age = held - tonumber(part)
  if known and age >= 0 and age <= PARTS and counts[age + 1] > 0 then
    counts[age + 1] = counts[age + 1] - 1
    write(held, last, counts, 'KEEPTTL')
  end
  return {0, '0'}
end

return operations[ARGV[1]](unpack(ARGV, 2))
