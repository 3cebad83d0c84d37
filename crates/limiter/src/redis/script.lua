-- Decides on token buckets, or settles them. One call, all or nothing.
--
-- KEYS     the buckets; in a settlement, then the settlement's mark
-- ARGV[1]  a letter for what is asked ('t'ake, 'p'eek, 's'ettle) and eight bytes that the answer repeats;
--          in a settlement, then two doubles: the time after which it is not to happen any more, and for how many
--          milliseconds the mark is kept
-- ARGV[2]  for each bucket three doubles: the amount to take, the capacity, the refill per day
-- ARGV[3]  only in tests: the time. It is the server's otherwise.
--
-- Returns a letter ('g'ranted, 'd'enied, 's'ettled, 'r'epeated: it had been settled before, e'x'pired), ARGV[1], the
-- time, and what was stored of each bucket before. Who asked works out balances and waits from that.
--
-- A bucket is five doubles: whole units (below zero in debt), parts of a unit, the time, the capacity, the refill per
-- day. A unit has as many parts as a day has microseconds, so a refill of r per day is r parts per microsecond. All of
-- them are integers below 2^53, and so is every product here, so that nothing is ever rounded except an expiry.

local DAY = 86400000000
local DEEPEST_DEBT = 1440000000000000
local LONGEST_LIFE = 4503599627370
local ABSENT = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

local call, pack, unpack_at = redis.call, struct.pack, struct.unpack
local head, items = ARGV[1], ARGV[2]
local asked = string.sub(head, 1, 1)
local count = #items / 24

-- Redis 5 refuses to write after TIME unless it replicates what scripts do rather than scripts.
if redis.replicate_commands then redis.replicate_commands() end
local now, kept_longer = tonumber(ARGV[3]), 3600000
if not now then
  local time = call('TIME')
  now, kept_longer = time[1] * 1000000 + time[2], 0
end

local mark_life
if asked == 's' then
  local not_after
  not_after, mark_life = unpack_at('<dd', head, 10)
  if now > not_after then return 'x' .. head .. pack('<d', now) end
end

local stored = call('MGET', unpack(KEYS))
local repeated = mark_life and stored[count + 1]

-- The value and the life of a bucket; false if it is full, and so need not be kept.
local function encode(units, part, at, capacity, refill)
  local missing = capacity - units
  if missing == 0 and at <= now then return false end
  -- When it will be full, in milliseconds after the one that has begun.
  local life = ((missing * DAY - part) / refill + (at - now) + now % 1000) / 1000
  life = life - life % 1 + 1
  if life > LONGEST_LIFE then life = LONGEST_LIFE end
  return pack('<ddddd', units, part, at, capacity, refill), life + kept_longer
end

local granted = true
local values, lives = {}, {}
local requoted
for i = 1, count do
  local amount, capacity, refill = unpack_at('<ddd', items, i * 24 - 23)
  local units, part, at = capacity, 0, now
  local state = stored[i]
  if state then
    local old_capacity, old_refill
    units, part, at, old_capacity, old_refill = unpack_at('<ddddd', state)
    local passed = now - at
    if passed > 0 then
      at = now
      local flow = old_refill * passed
      if flow < 4503599627370496 then
        flow = flow + part
        part = flow % DAY
        units = units + (flow - part) / DAY
      else
        -- flow / DAY, by long division: whole days, then the days' worth in the refill, then the rest of both in
        -- limbs of 13 bits. Where a sum passes 2^53 the bucket is full whatever its last digits are.
        local rest = passed % DAY
        local slow = old_refill % DAY
        units = units + (passed - rest) / DAY * old_refill + (old_refill - slow) / DAY * rest
        local low = rest % 8192
        rest = (rest - low) / 8192
        local middle = rest % 8192
        local product = slow * ((rest - middle) / 8192)
        local left = product % DAY
        local quotient = (product - left) / DAY
        product = left * 8192 + slow * middle
        left = product % DAY
        quotient = quotient * 8192 + (product - left) / DAY
        product = left * 8192 + slow * low + part
        part = product % DAY
        units = units + quotient * 8192 + (product - part) / DAY
      end
    end
    -- Full under its own quota is full under any.
    if units >= old_capacity or units >= capacity then
      units, part = capacity, 0
    end
    if old_capacity ~= capacity or old_refill ~= refill then
      requoted = requoted or {}
      requoted[i] = { encode(units, part, at, capacity, refill) }
    end
  else
    stored[i] = ABSENT
  end
  if units < amount and asked ~= 's' then granted = false end
  if granted and asked ~= 'p' then
    units = units - amount
    if units >= capacity then
      units, part = capacity, 0
    elseif units < -DEEPEST_DEBT then
      units, part = -DEEPEST_DEBT, 0
    end
    local value, life = encode(units, part, at, capacity, refill)
    if value or state then values[i], lives[i] = value, life end
  end
end

if repeated or not granted or asked == 'p' then
  -- What takes nothing writes nothing, except a quota that has changed.
  values = {}
  if requoted then
    for i, state in pairs(requoted) do values[i], lives[i] = state[1], state[2] end
  end
end
for i = 1, count do
  local value = values[i]
  if value then
    call('SET', KEYS[i], value, 'PX', lives[i])
  elseif value == false then
    call('DEL', KEYS[i])
  end
end
-- Last, so that a mark is never there without what it stands for.
if mark_life and not repeated then call('SET', KEYS[count + 1], '1', 'PX', mark_life) end

local answer = granted and 'g' or 'd'
if mark_life then answer = repeated and 'r' or 's' end
return answer .. head .. pack('<d', now) .. table.concat(stored, '', 1, count)
