-- Atomically reads or changes one cached set; set_store.py describes the keys.
--
-- KEYS[1]  the set; for `standing`, `stand` and `time`: the key of the progress of all sets
-- ARGV[1]  the operation

local GENERATION_BYTES = 8

-- Whether the members (8 bytes each, ascending) contain an id. Ids are compared in halves: Lua's numbers have 53 bits.
local function has(members, high, low)
  local first, last = 0, (#members - 1) / 8 - 1
  while first <= last do
    local middle = math.floor((first + last) / 2)
    local h, l = struct.unpack('>I4I4', members, 2 + middle * 8)
    if h == high and l == low then return true end
    if h < high or (h == high and l < low) then first = middle + 1 else last = middle - 1 end
  end
  return false
end

local operations = {}

function operations.lookup(lease, lease_ms, ids)
  local value = redis.call('GET', KEYS[1])
  if not value then
    redis.call('SET', KEYS[1], 'L' .. lease, 'PX', lease_ms)
    return {'L', 0}
  end
  if string.sub(value, 1, 1) ~= 'S' then return {'W', math.max(redis.call('PTTL', KEYS[1]), 1)} end
  local found = {}
  for at = 1, #ids, 8 do
    local high, low = struct.unpack('>I4I4', ids, at)
    found[#found + 1] = has(value, high, low) and '1' or '0'
  end
  return {'S', table.concat(found)}
end

function operations.fill(lease, value, ttl_ms)
  if redis.call('GET', KEYS[1]) ~= 'L' .. lease then return 0 end
  redis.call('SET', KEYS[1], value, 'PX', ttl_ms)
  return 1
end

function operations.standing(standing)
  return {redis.call('GET', KEYS[1]), redis.call('GET', standing)}
end

function operations.time()
  return redis.call('TIME')
end

function operations.stand(instead_of, value, until_ms, standing)
  local last = redis.call('GET', KEYS[1])
  if (last and string.sub(last, 1, GENERATION_BYTES) or '') ~= instead_of then return 0 end
  redis.call('SET', KEYS[1], value)
  if tonumber(until_ms) > 0 then
    redis.call('SET', standing, '1', 'PXAT', until_ms)
  else
    redis.call('DEL', standing)
  end
  return 1
end

return operations[ARGV[1]](unpack(ARGV, 2))
