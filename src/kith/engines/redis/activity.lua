-- Atomically replaces the row of users who have a stream open in one process; activity_store.py describes the keys.
--
-- KEYS[1]  the hash of processes; the keys of their rows begin with this name
-- ARGV[1]  the name of the process
-- ARGV[2]  its row

local processes = KEYS[1]
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + now[2] / 1000
for _, name in ipairs(redis.call('HKEYS', processes)) do -- delete the rows of processes that ended
  local low, high = struct.unpack('<I4i4', redis.call('GETRANGE', processes .. ':' .. name, 8, 15) .. string.rep('\0', 8))
  if name ~= ARGV[1] and high * 4294967296 + low < now_ms then
    redis.call('DEL', processes .. ':' .. name)
    redis.call('HDEL', processes, name)
  end
end
redis.call('SET', processes .. ':' .. ARGV[1], ARGV[2])
redis.call('HSET', processes, ARGV[1], string.sub(ARGV[2], 1, 8))
