-- A gateway says that it lives, and hears of which counters there is news.
-- KEYS: the gateways, the news. ARGV: the gateway, since when (milliseconds), and how many names at most.
local LEASE = 3000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + LEASE, ARGV[1])
-- The newest, if there are more than may be.
local names = redis.call('ZREVRANGEBYSCORE', KEYS[2], '+inf', ARGV[2], 'LIMIT', 0, ARGV[3])
return {now, redis.call('ZCARD', KEYS[1]), names}
