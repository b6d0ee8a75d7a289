-- The operations on one bucket of timelines, each atomic; timeline_store.py describes the keys.
--
-- KEYS[1]  the bucket's sorted set of last reads; without its last five letters, the prefix of the bucket's other keys
-- KEYS[2]  a key that never exists, see `Script`: without it, a push would miss timelines that have moved to another node
-- ARGV[1]  the operation
-- Ids, users and rates are 8 bytes, little-endian; many are concatenated in one string. They have 63 bits and Lua's
-- numbers have 53, so they are compared in halves.

local CAP, STORED_MAX, BUILD_PUSHES = 500, 600, 28
local READS_MS = 7 * 86400000
local BUILDS_MAX, BUILD_MS = 64, 600000 -- from BUILDS_MAX builds on, those older than BUILD_MS are given up
local HEADER = 32 -- withheld_rate_min, floor, lately (double), last read in ms (double)
local PAGE = 1000
local NOBODY = string.rep('\0', HEADER)
local RATE_MAX = string.rep('\0', 7) .. '\64' -- 2^62

local bucket = string.sub(KEYS[1], 1, -6)
local reads, builds, timeline = KEYS[1], bucket .. 'builds', bucket .. 't'

local function less(one, other)
  local low, high = struct.unpack('<I4I4', one)
  local other_low, other_high = struct.unpack('<I4I4', other)
  return high < other_high or (high == other_high and low < other_low)
end

local function before(id) -- the id before this one; 0 stays 0
  local low, high = struct.unpack('<I4I4', id)
  if low > 0 then return struct.pack('<I4I4', low - 1, high) end
  if high > 0 then return struct.pack('<I4I4', 4294967295, high - 1) end
  return id
end

local function each(users, act)
  for at = 1, #users, 8 do act(string.sub(users, at, at + 7)) end
end

local function faded(header, now)
  local lately, read = struct.unpack('<dd', string.sub(header, 17, HEADER))
  return lately * math.exp((read - now) / READS_MS)
end

local function trim(key) -- drop ids beyond the cap; they raise the floor
  local value = redis.call('GET', key)
  local floor = string.sub(value, 9, 16)
  each(string.sub(value, HEADER + 1, #value - 8 * CAP), function(id) if less(floor, id) then floor = id end end)
  local header = string.sub(value, 1, 8) .. floor .. string.sub(value, 17, HEADER)
  redis.call('SET', key, header .. string.sub(value, -8 * CAP))
end

local function evict(user) -- a build in progress continues
  redis.call('ZREM', reads, user)
  return redis.call('DEL', timeline .. user)
end

local function drop(user)
  redis.call('HDEL', builds, user)
  return evict(user)
end

local operations = {}

function operations.push(post, users)
  local given, building = 0, redis.call('HLEN', builds) > 0
  each(users, function(user)
    local key = timeline .. user
    local length = redis.call('APPEND', key, post)
    if length == 8 then
      redis.call('DEL', key) -- the user has no timeline: undo the APPEND, which created the key
    else
      given = given + 1
      if length >= HEADER + 8 * STORED_MAX then trim(key) end
    end
    local build = building and redis.call('HGET', builds, user)
    if build then
      if #build >= 24 + 8 * BUILD_PUSHES then
        redis.call('HDEL', builds, user)
      else
        redis.call('HSET', builds, user, build .. post)
      end
    end
  end)
  return given
end

function operations.withhold(rate, users)
  local building = redis.call('HLEN', builds) > 0
  each(users, function(user)
    local lacks = redis.call('GETRANGE', timeline .. user, 0, 7)
    if lacks ~= '' and less(rate, lacks) then redis.call('SETRANGE', timeline .. user, 0, rate) end
    local build = building and redis.call('HGET', builds, user)
    if build and less(rate, string.sub(build, 9, 16)) then
      redis.call('HSET', builds, user, string.sub(build, 1, 8) .. rate .. string.sub(build, 17))
    end
  end)
end

function operations.begin(user, epoch, now)
  if redis.call('HLEN', builds) >= BUILDS_MAX then
    local all = redis.call('HGETALL', builds)
    for at = 1, #all, 2 do
      if tonumber(now) - struct.unpack('<d', string.sub(all[at + 1], 17, 24)) > BUILD_MS then
        redis.call('HDEL', builds, all[at])
      end
    end
  end
  redis.call('HSET', builds, user, epoch .. RATE_MAX .. struct.pack('<d', tonumber(now)))
end

function operations.put(user, epoch, ids, now, places)
  local build = redis.call('HGET', builds, user)
  if not build or string.sub(build, 1, 8) ~= epoch then return 0 end
  redis.call('HDEL', builds, user)
  local key, lately = timeline .. user, 1
  local header = redis.call('GETRANGE', key, 0, HEADER - 1)
  if header ~= '' then
    lately = faded(header, tonumber(now))
  elseif redis.call('ZCARD', reads) >= tonumber(places) then
    evict(redis.call('ZRANGE', reads, 0, 0)[1])
  end
  local pushed = string.sub(build, 25)
  local kept = string.sub(ids, -(8 * CAP - #pushed))
  local floor = string.rep('\0', 8)
  if #kept == 8 * CAP - #pushed then floor = before(string.sub(kept, 1, 8)) end
  header = string.sub(build, 9, 16) .. floor .. struct.pack('<dd', lately, tonumber(now))
  redis.call('SET', key, header .. kept .. pushed)
  redis.call('ZADD', reads, now, user)
  return 1
end

function operations.read(user, now)
  local value = redis.call('GET', timeline .. user)
  if value then
    redis.call('SETRANGE', timeline .. user, 16, struct.pack('<dd', faded(value, tonumber(now)) + 1, tonumber(now)))
    redis.call('ZADD', reads, now, user)
  end
  return value
end

function operations.habits(users)
  local headers = {}
  each(users, function(user)
    local header = redis.call('GETRANGE', timeline .. user, 0, HEADER - 1)
    headers[#headers + 1] = header == '' and NOBODY or header
  end)
  return table.concat(headers)
end

function operations.drop(users)
  local dropped = 0
  each(users, function(user) dropped = dropped + drop(user) end)
  return dropped
end

function operations.evict(before_ms) -- one page of the timelines last read before then
  local users = redis.call('ZRANGEBYSCORE', reads, '-inf', '(' .. before_ms, 'LIMIT', 0, PAGE)
  for _, user in ipairs(users) do evict(user) end
  return #users
end

function operations.clear() -- all builds, and one page of timelines
  redis.call('DEL', builds)
  local users = redis.call('ZRANGE', reads, 0, PAGE - 1)
  for _, user in ipairs(users) do drop(user) end
  return #users
end

return operations[ARGV[1]](unpack(ARGV, 2))
