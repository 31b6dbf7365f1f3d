"""The store in Redis or Valkey, the only module that speaks to it. Every key is listed here.

- ``dw:store`` (string): random identity of the data set, made by the first replica. Replicas that
  meet another one know that the store was emptied, which is not the same as namespaces being deleted.
- ``dw:namespaces`` (set): names of the namespaces.
- ``dw:changes`` (stream): field ``name``; an entry for each namespace created or deleted, so that waiting
  readers wake. Only a hint, the truth is in the set and the meta keys; trimmed to about 1000 entries.
- ``dw:{NAME}:meta`` (hash), the namespace exists as long as this key does:
  ``format`` (of everything under the namespace), ``fingerprint``, ``vocab_size``, ``incarnation`` (hex, new
  at each creation), ``created`` (Unix seconds), ``appended`` (entries ever appended), ``log_bytes``
  (bytes of tokens in the log).
- ``dw:{NAME}:log:INCARNATION`` (stream): an entry for each learned sequence: ``n`` (its number, from 1),
  ``i`` (sequence id), ``c`` (context length), ``t`` (tokens, little-endian int32).

The braces make Redis Cluster keep the keys of a namespace on one slot, so that the scripts below are
atomic there too. A log is trimmed from its old end once its tokens exceed the bound in bytes that a
replica's memory has for the namespace. No memory under that bound can hold more text, so trimming never
drops what a replica would have kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import numpy as np
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from trie_service.errors import InvalidArgumentError, NamespaceNotFoundError, StoreUnavailableError
from trie_service.namespace import NamespaceRecord
from trie_service.sequence import TokenSequence
from trie_service.store import START, Batch, Cursors, LogEntry, Registry

STORE_KEY = "dw:store"
NAMESPACES_KEY = "dw:namespaces"
CHANGES_KEY = "dw:changes"

CONNECT_TIMEOUT_S = 1.0
COMMAND_TIMEOUT_S = 2.0
MAX_ENTRIES_PER_READ = 64
MAX_CHANGES_KEPT = 1000
GONE = -1

CREATE_SCRIPT = """
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'format', ARGV[1], 'fingerprint', ARGV[2], 'vocab_size', ARGV[3],
             'incarnation', ARGV[4], 'created', redis.call('TIME')[1], 'appended', 0, 'log_bytes', 0)
end
return redis.call('HGETALL', KEYS[1])
"""

DELETE_SCRIPT = """
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return 0 end
redis.call('UNLINK', KEYS[1], KEYS[2])
return 1
"""

# ARGV: incarnation, bound in bytes, then id, context length and tokens of each sequence.
APPEND_SCRIPT = """
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then return -1 end
local bound = tonumber(ARGV[2])
local count = (#ARGV - 2) / 3
local last = redis.call('HINCRBY', KEYS[1], 'appended', count)
local added = 0
for i = 1, count do
  local id, context_len, tokens = ARGV[3 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
  redis.call('XADD', KEYS[2], '*', 'n', last - count + i, 'i', id, 'c', context_len, 't', tokens)
  added = added + #tokens
end
local held = redis.call('HINCRBY', KEYS[1], 'log_bytes', added)
local dropped = 0
local oldest = held > bound and redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 2 * count + 16) or {}
for _, entry in ipairs(oldest) do
  local size = #entry[2][8]
  if held - dropped - size < bound then break end
  redis.call('XDEL', KEYS[2], entry[1])
  dropped = dropped + size
end
if dropped > 0 then redis.call('HINCRBY', KEYS[1], 'log_bytes', -dropped) end
return last
"""


class RedisStore:
    """Follows the Store protocol. Commands fail within seconds and are never retried here."""

    def __init__(self, url: str, *, max_log_bytes: int, description: str = "") -> None:
        self._max_log_bytes = max_log_bytes
        self._description = description or without_credentials(url)
        # Any: redis-py's types allow for text replies too, ours are bytes.
        self._redis: Any = _client(url)
        self._create = self._redis.register_script(CREATE_SCRIPT)
        self._delete = self._redis.register_script(DELETE_SCRIPT)
        self._append = self._redis.register_script(APPEND_SCRIPT)

    @property
    def description(self) -> str:
        """Where the store is, without credentials."""
        return self._description

    async def connect(self) -> None:
        """Check that the store answers."""
        async with self._calling():
            await self._redis.ping()

    async def close(self) -> None:
        """Release connections."""
        await self._redis.aclose()

    async def identity(self) -> str:
        """The store's identity, drawn when a store is first asked."""
        async with self._calling():
            await self._redis.set(STORE_KEY, uuid4().hex, nx=True)
            store_id: bytes = await self._redis.get(STORE_KEY)
        return store_id.decode()

    async def registry(self) -> Registry:
        """All namespaces. A name without meta is one whose deletion was cut short: it does not exist."""
        store_id = await self.identity()
        async with self._calling():
            newest = await self._redis.xrevrange(CHANGES_KEY, count=1)
            names = sorted(name.decode() for name in await self._redis.smembers(NAMESPACES_KEY))
            metas = await self._pipelined("hgetall", [meta_key(name) for name in names])
        records = (_record(name, meta) for name, meta in zip(names, metas, strict=True) if meta)
        return Registry(store_id, newest[0][0].decode() if newest else START, tuple(records))

    async def find(self, name: str) -> NamespaceRecord | None:
        """One namespace."""
        async with self._calling():
            meta = await self._redis.hgetall(meta_key(name))
        return _record(name, meta) if meta else None

    async def create(self, record: NamespaceRecord) -> NamespaceRecord:
        """Create a namespace unless one of that name exists; return the one that exists now."""
        arguments: list[str | int] = [
            record.format_version,
            record.fingerprint,
            record.vocab_size,
            record.incarnation,
        ]
        async with self._calling():
            flat = await self._create(keys=[meta_key(record.name)], args=arguments)
            if await self._redis.sadd(NAMESPACES_KEY, record.name):
                await self._announce(record.name)
        return _record(record.name, dict(zip(flat[::2], flat[1::2], strict=True)))

    async def delete(self, record: NamespaceRecord) -> bool:
        """Delete a namespace and its log; False where that incarnation is gone already."""
        async with self._calling():
            keys = [meta_key(record.name), log_key(record)]
            if not await self._delete(keys=keys, args=[record.incarnation]):
                return False
            await self._redis.srem(NAMESPACES_KEY, record.name)
            await self._announce(record.name)
        return True

    async def append(self, record: NamespaceRecord, sequences: Sequence[TokenSequence]) -> None:
        """Append to a namespace's log, all or nothing, in one round trip."""
        arguments: list[str | int | bytes] = [record.incarnation, self._max_log_bytes]
        for sequence in sequences:
            tokens = sequence.tokens.astype("<i4", copy=False).tobytes()
            arguments += [sequence.sequence_id, sequence.context_len, tokens]
        async with self._calling():
            last = await self._append(keys=[meta_key(record.name), log_key(record)], args=arguments)
        if last == GONE:
            raise NamespaceNotFoundError(f"namespace {record.name!r} was deleted")

    async def read(self, cursors: Cursors, wait_s: float) -> Batch:
        """Entries after the cursors, a bounded number of each log; wait up to ``wait_s`` for the first."""
        keys = {record: log_key(record) for record in cursors.logs}
        streams = {keys[record]: position for record, position in cursors.logs.items()}
        found = await self._xread(streams | {CHANGES_KEY: cursors.changes}, wait_s)
        logs = {record: _entries(record, found[key]) for record, key in keys.items() if key in found}
        return Batch(CHANGES_KEY in found, logs)

    async def heads(self, records: Sequence[NamespaceRecord]) -> list[int]:
        """Number of the newest entry of each log, 0 for an empty one."""
        async with self._calling():
            numbers = await self._pipelined("hget", [meta_key(r.name) for r in records], "appended")
        return [int(number or 0) for number in numbers]

    async def _xread(self, streams: Mapping[str, str], wait_s: float) -> dict[str, Any]:
        block_ms = max(1, int(wait_s * 1000)) if wait_s > 0 else None
        async with self._calling(wait_s):
            reply = await self._redis.xread(dict(streams), count=MAX_ENTRIES_PER_READ, block=block_ms)
        return {key.decode(): entries for key, entries in reply or []}

    async def _pipelined(self, command: str, keys: Sequence[str], *arguments: str) -> list[Any]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for key in keys:
                getattr(pipeline, command)(key, *arguments)
            replies: list[Any] = await pipeline.execute()
        return replies

    async def _announce(self, name: str) -> None:
        await self._redis.xadd(CHANGES_KEY, {"name": name}, maxlen=MAX_CHANGES_KEPT, approximate=True)

    @asynccontextmanager
    async def _calling(self, wait_s: float = 0.0) -> AsyncIterator[None]:
        """Bound the time of a call and translate its errors."""
        try:
            async with asyncio.timeout(wait_s + COMMAND_TIMEOUT_S):
                yield
        except TimeoutError as error:
            raise StoreUnavailableError(f"store {self._description}: no answer in time") from error
        except (RedisError, OSError) as error:
            raise StoreUnavailableError(f"store {self._description}: {error}") from error


def meta_key(name: str) -> str:
    """Key of a namespace's hash."""
    return f"dw:{{{name}}}:meta"


def log_key(record: NamespaceRecord) -> str:
    """Key of a namespace's log."""
    return f"dw:{{{record.name}}}:log:{record.incarnation}"


def without_credentials(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _client(url: str) -> Redis:
    return Redis.from_url(
        url,
        protocol=2,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        socket_timeout=None,  # redis-py's way to bound a write loses cancellations on Python 3.11
        retry=Retry(NoBackoff(), 0),
    )


def _record(name: str, meta: Mapping[bytes, bytes]) -> NamespaceRecord:
    return NamespaceRecord(
        name=name,
        fingerprint=meta.get(b"fingerprint", b"").decode(),
        vocab_size=int(meta.get(b"vocab_size", 0)),
        incarnation=meta.get(b"incarnation", b"").decode(),
        format_version=int(meta.get(b"format", 0)),
    )


def _entries(
    record: NamespaceRecord, entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
) -> list[LogEntry]:
    return [_entry(record, position.decode(), fields) for position, fields in entries]


def _entry(record: NamespaceRecord, position: str, fields: Mapping[bytes, bytes]) -> LogEntry:
    """An entry of the log; one that somebody else wrote there must not stop a replica."""
    try:
        tokens = np.frombuffer(fields[b"t"], dtype="<i4").astype(np.int64)
        sequence_id, context_len = fields[b"i"].decode(), int(fields[b"c"])
        sequence = TokenSequence.checked(sequence_id, tokens, context_len, record.vocab_size)
        return LogEntry(position, int(fields[b"n"]), sequence)
    except (KeyError, ValueError, InvalidArgumentError):
        return LogEntry(position, 0, None)
