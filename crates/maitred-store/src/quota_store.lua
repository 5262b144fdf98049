-- Answers one gateway's ask about one counter. The law stands, in readable form, in `Bank` of maitred-tenant, and a test holds both
-- against each other.
-- KEYS: the counter, the gateways, the news. ARGV: the gateway, the counter's name, the time in milliseconds or nothing for the
-- server's, and the numbers of the ask.
local LEASE, FORGET, PIECE, PIECES = 3000, 600000, 10000, 7
local NEWS_MAX, DAY = 100000, 86400000
local PLACES, RATE, MINUTE, BY_DAY, BY_MONTH = 0, 1, 2, 3, 4
local floor, max, min = math.floor, math.max, math.min

local gateway, name = ARGV[1], ARGV[2]
local now = tonumber(ARGV[3])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end
local numbers = {}
for index = 4, #ARGV do numbers[index - 3] = tonumber(ARGV[index]) end
local kind, amount, leak, number, spent, told, reserved, keep, want, need, known_epoch, known_spent, known_period = unpack(numbers)

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + LEASE, gateway)
local gateways = redis.call('ZCARD', KEYS[2])

-- The counter as it was left.
local stored, leases = {}, {}
local flat = redis.call('HGETALL', KEYS[1])
for index = 1, #flat, 2 do
  local field, value = flat[index], flat[index + 1]
  if string.sub(field, 1, 2) == 'l:' then
    local lease = {}
    for word in string.gmatch(value, '%S+') do lease[#lease + 1] = tonumber(word) end
    leases[string.sub(field, 3)] = {
      number = lease[1], spent = lease[2], held = lease[3], reserved = lease[4], expires = lease[5], charged = lease[6],
    }
  else
    stored[field] = tonumber(value)
  end
end
local account = {
  epoch = stored.epoch or max(now, 1), spent = stored.spent or 0, over = stored.over or 0, at = stored.at or now,
  period = stored.period or 0, announced = stored.announced or 0,
}
local pieces = {}
for index = 0, PIECES - 1 do pieces[index] = stored['p' .. index] or 0 end

local function month()
  local days = floor(now / DAY) + 719468
  local era, of_era = floor(days / 146097), days % 146097
  local year = floor((of_era - floor(of_era / 1460) + floor(of_era / 36524) - floor(of_era / 146096)) / 365)
  local day = of_era - (365 * year + floor(year / 4) - floor(year / 100))
  return (era * 400 + year) * 12 + floor((5 * day + 2) / 153) + 2
end

local function charge(more)
  account.spent = account.spent + more
  if kind == MINUTE then
    local index = account.period % PIECES
    pieces[index] = pieces[index] + more
  end
end

-- What is over is forgotten.
local period = 0
if kind == BY_DAY then period = floor(now / DAY)
elseif kind == BY_MONTH then period = month()
elseif kind == MINUTE then period = floor(now / PIECE)
elseif kind == RATE then
  account.spent = max(account.spent - leak * max(now - account.at, 0), 0)
  account.at = max(account.at, now)
end
if period > account.period then
  if kind == MINUTE then
    for piece = max(account.period + 1, period + 1 - PIECES), period do
      local index = piece % PIECES
      account.spent = max(account.spent - pieces[index], 0)
      pieces[index] = 0
    end
  else
    account.spent, account.over = 0, 0
    for _, lease in pairs(leases) do lease.charged = 0 end
  end
  account.period = period
end

-- Of whom nothing was heard for too long holds nothing, and what its calls had reserved counts as spent.
local expired = 0
for other, lease in pairs(leases) do
  if lease.expires + FORGET <= now then
    leases[other] = nil
  elseif lease.expires <= now then
    if kind ~= PLACES then
      lease.charged = lease.charged + lease.reserved
      expired = expired + lease.reserved
    end
    lease.held, lease.reserved = 0, 0
  end
end
charge(expired)

local answer = {}
local mine = leases[gateway]
if not mine or number > mine.number then
  local is_new = next(leases) == nil and account.announced == 0
  if mine and kind ~= MINUTE then account.spent = max(account.spent - mine.charged, 0) end
  charge(max(spent - (mine and mine.spent or told), 0))
  local is_of_now = known_period == account.period or kind == MINUTE
  if known_epoch ~= 0 and known_epoch ~= account.epoch and is_of_now and kind ~= PLACES and known_spent > account.over then
    charge(known_spent - account.over)
    account.over = known_spent
  end
  local others = 0
  for other, lease in pairs(leases) do
    if other ~= gateway then others = others + lease.held end
  end
  local room = max(amount - account.spent - others - reserved, 0)
  local extra = min(max(min(want, floor((room + 2 * gateways - 1) / (2 * gateways))), keep, need), room)
  local free = room - extra
  leases[gateway] = {
    number = number, spent = spent, held = reserved + extra, reserved = reserved, expires = now + LEASE, charged = 0,
  }
  if is_new or free < floor(account.announced / 2) or (free == 0 and account.announced > 0) then
    account.announced = free
    redis.call('ZADD', KEYS[3], now, name)
    redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -NEWS_MAX - 1)
    redis.call('PEXPIRE', KEYS[3], 33 * DAY)
  else
    account.announced = max(account.announced, free)
  end
  answer = {reserved + extra, free, account.spent, account.epoch, account.period, gateways}
end

local fields = {}
local function put(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end
for field, value in pairs(account) do put(field, string.format('%.0f', value)) end
if kind == MINUTE then
  for index = 0, PIECES - 1 do put('p' .. index, string.format('%.0f', pieces[index])) end
end
for other, lease in pairs(leases) do
  put('l:' .. other, string.format('%.0f %.0f %.0f %.0f %.0f %.0f',
    lease.number, lease.spent, lease.held, lease.reserved, lease.expires, lease.charged))
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(fields))
local life = 2 * FORGET
if kind == BY_DAY then life = 2 * DAY elseif kind == BY_MONTH then life = 33 * DAY elseif kind > BY_MONTH then life = DAY end
redis.call('PEXPIRE', KEYS[1], life)
return answer
