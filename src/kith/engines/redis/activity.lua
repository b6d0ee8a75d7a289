-- Who has a stream open in one process, told anew in one step; activity_store.py has the keys.
--
-- KEYS[1]  the hash of processes; their rows begin as it does
-- ARGV[1]  the name of the process
-- ARGV[2]  its row

local processes = KEYS[1]
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + now[2] / 1000
for _, name in ipairs(redis.call('HKEYS', processes)) do -- those that ended and will not tell again
  local low, high = struct.unpack('<I4i4', redis.call('GETRANGE', processes .. ':' .. name, 8, 15) .. string.rep('\0', 8))
  if name ~= ARGV[1] and high * 4294967296 + low < now_ms then
    redis.call('DEL', processes .. ':' .. name)
    redis.call('HDEL', processes, name)
  end
end
redis.call('SET', processes .. ':' .. ARGV[1], ARGV[2])
redis.call('HSET', processes, ARGV[1], string.sub(ARGV[2], 1, 8))
