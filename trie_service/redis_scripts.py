"""The scripts that the store runs in Redis or Valkey. Each touches the keys of one namespace alone.

KEYS[1] is always the namespace's hash and ARGV[1] its incarnation; a script answers GONE where the namespace
is another one by now, and STALE for a lease's token that is older than the newest grant. Redis without room
for more refuses a script's first write, so each writes all or nothing. Of a log, which may have entries of a
mebibyte, a script has a few at once.
"""

from __future__ import annotations

from typing import Final

GONE: Final = -1
STALE: Final = -2

# KEYS: meta, snapshot, staged snapshot (it need not exist). ARGV: incarnation, then fields and values.
CREATE: Final = """
if redis.call('EXISTS', KEYS[1]) == 0 then
  local now = redis.call('TIME')
  redis.call('HSET', KEYS[1], 'incarnation', ARGV[1], 'created', now[1], 'appended', 0, 'log_bytes', 0)
  for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
  if redis.call('EXISTS', KEYS[3]) == 1 then
    redis.call('RENAME', KEYS[3], KEYS[2])
    redis.call('PERSIST', KEYS[2])
    redis.call('HSET', KEYS[1], 'snap_ms', now[1] * 1000 + math.floor(now[2] / 1000))
  end
end
return redis.call('HGETALL', KEYS[1])
"""

# ARGV: incarnation, then fields and values.
UPDATE: Final = """
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return -1 end
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
"""

# KEYS: meta, deleted, then all the others. ARGV: incarnation, seconds to remember it.
# A full Redis refuses a SET, but not after an UNLINK.
DELETE: Final = """
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return -1 end
redis.call('UNLINK', unpack(KEYS))
redis.call('SET', KEYS[2], 1, 'EX', ARGV[2])
return 1
"""

# KEYS: meta, log, ids. ARGV: incarnation, bound in bytes of the log, ids kept, then of each item the id,
# context length (or -1 for a sequence that is taken back) and tokens. The log is trimmed from its old end once
# its tokens exceed the bound, which is that of a replica's memory: no memory under it can hold more text.
# Answers the tokens appended, context not counted.
APPEND: Final = """
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return -1 end
local bound, added, num, learned = tonumber(ARGV[2]), 0, 0, 0
local last = tonumber(redis.call('HGET', KEYS[1], 'appended'))
for i = 4, #ARGV, 3 do
  local id, context_len, tokens = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if context_len == '-1' then
    num = num + 1
    redis.call('XADD', KEYS[2], '*', 'n', last + num, 'f', id)
    redis.call('ZREM', KEYS[3], id)
  elseif not redis.call('ZSCORE', KEYS[3], id) then
    num = num + 1
    redis.call('XADD', KEYS[2], '*', 'n', last + num, 'i', id, 'c', context_len, 't', tokens)
    redis.call('ZADD', KEYS[3], last + num, id)
    added = added + #tokens
    learned = learned + #tokens / 4 - tonumber(context_len)
  end
end
if num == 0 then return 0 end
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -1 - tonumber(ARGV[3]))
redis.call('HINCRBY', KEYS[1], 'appended', num)
local held = redis.call('HINCRBY', KEYS[1], 'log_bytes', added)
local dropped, left = 0, held > bound and 2 * num + 16 or 0
while left > 0 do
  local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', math.min(left, 8))
  left = #oldest > 0 and left - #oldest or 0
  for _, entry in ipairs(oldest) do
    local size = #(entry[2][8] or '')
    if held - dropped - size < bound then left = 0 break end
    redis.call('XDEL', KEYS[2], entry[1])
    dropped = dropped + size
  end
end
if dropped > 0 then redis.call('HINCRBY', KEYS[1], 'log_bytes', -dropped) end
return learned
"""

# KEYS: meta, lease. ARGV: incarnation, owner, milliseconds. Answers a token, or 0.
ACQUIRE: Final = """
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return -1 end
local owner = redis.call('GET', KEYS[2])
if owner and owner ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
if owner then return tonumber(redis.call('HGET', KEYS[1], 'token')) end
return redis.call('HINCRBY', KEYS[1], 'token', 1)
"""

# KEYS: meta, lease. ARGV: incarnation, owner.
RELEASE: Final = """
if redis.call('GET', KEYS[2]) == ARGV[2] then redis.call('DEL', KEYS[2]) end
return 1
"""

# KEYS: meta, snapshot, staged snapshot. ARGV: incarnation, token, lineage, new lineage or '', number, position,
# bytes.
SWITCH: Final = """
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return -1 end
if tonumber(ARGV[2]) < tonumber(redis.call('HGET', KEYS[1], 'token') or '0') then return -2 end
if (redis.call('HGET', KEYS[1], 'lineage') or '') ~= ARGV[3] then return -2 end
local is_of_same_text = ARGV[4] == ''
local number = tonumber(redis.call('HGET', KEYS[1], 'snap_number') or '0')
if is_of_same_text and tonumber(ARGV[5]) < number then return -2 end
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], 'lineage', is_of_same_text and ARGV[3] or ARGV[4], 'snap_number', ARGV[5],
           'snap_position', ARGV[6], 'snap_bytes', ARGV[7],
           'snap_ms', now[1] * 1000 + math.floor(now[2] / 1000))
redis.call('HDEL', KEYS[1], 'snap_rejected')
redis.call('UNLINK', KEYS[2])
redis.call('RENAME', KEYS[3], KEYS[2])
redis.call('PERSIST', KEYS[2])
return 1
"""

# KEYS: meta, snapshot, rejected snapshot. ARGV: incarnation, seconds to keep it.
REJECT: Final = """
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return -1 end
if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'snap_rejected', 1)
redis.call('HDEL', KEYS[1], 'snap_bytes', 'snap_number', 'snap_position', 'snap_ms')
redis.call('UNLINK', KEYS[3])
redis.call('RENAME', KEYS[2], KEYS[3])
redis.call('EXPIRE', KEYS[3], ARGV[2])
return 1
"""

# KEYS: meta, log. ARGV: incarnation, token, milliseconds that entries are kept, most entries and about most
# bytes to drop. Answers the entries dropped; 0: there are no more.
TRIM: Final = """
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return -1 end
if tonumber(ARGV[2]) < tonumber(redis.call('HGET', KEYS[1], 'token') or '0') then return -2 end
local covered = tonumber(redis.call('HGET', KEYS[1], 'snap_number') or '0')
local now = redis.call('TIME')
local newest = now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(ARGV[3])
local dropped, num, left = 0, 0, tonumber(ARGV[4])
while left > 0 and dropped < tonumber(ARGV[5]) do
  local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', math.min(left, 8))
  left = #oldest > 0 and left - #oldest or 0
  for _, entry in ipairs(oldest) do
    local number, appended = tonumber(entry[2][2]) or 0, tonumber(string.match(entry[1], '^%d+'))
    if number > covered or appended > newest then left = 0 break end
    dropped = dropped + #(entry[2][8] or '')
    num = num + redis.call('XDEL', KEYS[2], entry[1])
  end
end
if dropped > 0 then redis.call('HINCRBY', KEYS[1], 'log_bytes', -dropped) end
return num
"""
