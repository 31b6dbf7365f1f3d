"""The store in Redis or Valkey, the only module that speaks to it. ``redis_keys.py`` lists every key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from uuid import uuid4

import numpy as np
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError

from trie_service import redis_keys as keys
from trie_service import redis_scripts as scripts
from trie_service.errors import (
    InvalidArgumentError,
    LeaseLostError,
    NamespaceNotFoundError,
    SnapshotCorruptError,
    StoreFullError,
    StoreUnavailableError,
)
from trie_service.namespace import NamespaceLimits, NamespaceRecord
from trie_service.sequence import Forgotten, TokenSequence
from trie_service.snapshot import Snapshot
from trie_service.snapshot_codec import SnapshotDecoder, SnapshotEncoder
from trie_service.store import MAX_RECENT_IDS, START, Batch, Cursors, LogEntry, Registry, Stored

CONNECT_TIMEOUT_S = 1.0
COMMAND_TIMEOUT_S = 2.0
MAX_ENTRIES_PER_READ = 64
MAX_CHANGES_KEPT = 1000
ENTRIES_PER_TRIM = 256  # looked at by one call of the script, some milliseconds
CHUNKS_PER_READ = 4
STAGED_FOR_S = 120  # a snapshot that nobody goes on writing
REJECTED_FOR_S = 24 * 3600
HEADER_FIELD = "header"
LIMIT_FIELDS = ("max_bytes", "max_tokens_per_second", "text_ttl_s")
STORED_FIELDS = ("appended", "log_bytes", "snap_bytes", "snap_number", "snap_ms", "snap_rejected")

# redis-py's types allow for text replies too, ours are bytes: they are not checked.
Reply: TypeAlias = Any
Arguments: TypeAlias = Sequence[str | int | bytes]


class RedisStore:
    """Follows the Store protocol. Commands fail within seconds and are never retried here."""

    def __init__(self, url: str, *, max_log_bytes: int, description: str = "") -> None:
        self._max_log_bytes = max_log_bytes
        self._description = description or without_credentials(url)
        self._redis: Reply = _client(url)

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
            await self._redis.set(keys.STORE_KEY, uuid4().hex, nx=True)
            store_id: bytes = await self._redis.get(keys.STORE_KEY)
        return store_id.decode()

    async def registry(self) -> Registry:
        """All namespaces. A name without meta is one whose deletion was cut short: it does not exist."""
        store_id = await self.identity()
        async with self._calling():
            newest = await self._redis.xrevrange(keys.CHANGES_KEY, count=1)
            names = sorted(name.decode() for name in await self._redis.smembers(keys.NAMESPACES_KEY))
            metas = await self._pipelined("hgetall", [keys.meta_key(name) for name in names])
        records = (_record(name, meta) for name, meta in zip(names, metas, strict=True) if meta)
        return Registry(store_id, newest[0][0].decode() if newest else START, tuple(records))

    async def find(self, name: str) -> NamespaceRecord | None:
        """One namespace."""
        async with self._calling():
            meta = await self._redis.hgetall(keys.meta_key(name))
        return _record(name, meta) if meta else None

    async def create(self, record: NamespaceRecord, snapshot: Snapshot | None = None) -> NamespaceRecord:
        """Create a namespace unless one of that name exists; return the one that exists now."""
        fields: dict[str, str | int] = _limit_fields(record) | {
            "format": record.format_version,
            "fingerprint": record.fingerprint,
            "vocab_size": record.vocab_size,
            "lineage": record.lineage,
        }
        staged = keys.staging_key(record)
        if snapshot is not None:
            num_bytes = await self._stage(staged, replace(snapshot, position=START, number=0))
            fields |= {"snap_bytes": num_bytes, "snap_number": 0, "snap_position": START}
        names = [keys.meta_key(record.name), keys.snapshot_key(record), staged]
        flat = await self._run(scripts.CREATE, record, names, _flat(fields))
        async with self._calling():
            if await self._redis.sadd(keys.NAMESPACES_KEY, record.name):
                await self._announce(record.name)
        return _record(record.name, dict(zip(flat[::2], flat[1::2], strict=True)))

    async def update(self, record: NamespaceRecord) -> None:
        """Store a namespace's limits."""
        await self._run_on(scripts.UPDATE, record, [], _flat(_limit_fields(record)))
        async with self._calling():
            await self._announce(record.name)

    async def delete(self, record: NamespaceRecord) -> bool:
        """Delete a namespace, its log and its snapshot; False where that incarnation is gone already."""
        key_of = (keys.log_key, keys.ids_key, keys.lease_key, keys.snapshot_key, keys.rejected_key)
        try:
            await self._run_on(scripts.DELETE, record, [key(record) for key in key_of], [])
        except NamespaceNotFoundError:
            return False
        async with self._calling():
            await self._redis.srem(keys.NAMESPACES_KEY, record.name)
            await self._announce(record.name)
        return True

    async def append(self, record: NamespaceRecord, items: Sequence[TokenSequence | Forgotten]) -> None:
        """Append to a namespace's log, all or nothing, in one round trip."""
        arguments: list[str | int | bytes] = [self._max_log_bytes, MAX_RECENT_IDS]
        for item in items:
            if isinstance(item, Forgotten):
                arguments += [item.sequence_id, -1, b""]
            else:
                tokens = item.tokens.astype("<i4", copy=False).tobytes()
                arguments += [item.sequence_id, item.context_len, tokens]
        await self._run_on(scripts.APPEND, record, [keys.log_key(record), keys.ids_key(record)], arguments)

    async def read(self, cursors: Cursors, wait_s: float) -> Batch:
        """Entries after the cursors, a bounded number of each log; wait up to ``wait_s`` for the first."""
        names = {record: keys.log_key(record) for record in cursors.logs}
        streams = {names[record]: position for record, position in cursors.logs.items()}
        found = await self._xread(streams | {keys.CHANGES_KEY: cursors.changes}, wait_s)
        logs = {record: _entries(record, found[key]) for record, key in names.items() if key in found}
        return Batch(keys.CHANGES_KEY in found, logs)

    async def stored(self, records: Sequence[NamespaceRecord]) -> list[Stored]:
        """What the store holds of each namespace."""
        async with self._calling():
            seconds, microseconds = await self._redis.time()
            names = [keys.meta_key(record.name) for record in records]
            replies = await self._pipelined("hmget", names, ("incarnation", *STORED_FIELDS))
        now_ms = seconds * 1000 + microseconds // 1000
        return [_stored(record, reply, now_ms) for record, reply in zip(records, replies, strict=True)]

    async def acquire_lease(self, record: NamespaceRecord, owner: str, ttl_s: float) -> int | None:
        """Take or renew the lease to write a namespace's snapshot; None while another owner has it."""
        arguments: Arguments = [owner, max(1, int(ttl_s * 1000))]
        token = int(await self._run_on(scripts.ACQUIRE, record, [keys.lease_key(record)], arguments))
        return token or None

    async def release_lease(self, record: NamespaceRecord, owner: str) -> None:
        """Give the lease back, where this owner has it."""
        await self._run(
            scripts.RELEASE, record, [keys.meta_key(record.name), keys.lease_key(record)], [owner]
        )

    async def write_snapshot(self, record: NamespaceRecord, snapshot: Snapshot, token: int) -> int:
        """Put a snapshot in the place of the old one, all at once; return its bytes in the store.

        Until the last script it lies under a key of its own, which expires should nobody go on writing.
        """
        staged = keys.staging_key(record)
        try:
            num_bytes = await self._stage(staged, snapshot)
            arguments: Arguments = [token, record.lineage, snapshot.number, snapshot.position, num_bytes]
            names = [keys.snapshot_key(record), staged]
            is_new_lineage = await self._run_on(scripts.SWITCH, record, names, arguments)
        except BaseException:
            await self._drop(staged)
            raise
        if is_new_lineage:
            async with self._calling():
                await self._announce(record.name)
        return num_bytes

    async def read_snapshot(self, record: NamespaceRecord) -> Snapshot | None:
        """The newest snapshot; read again where another one took its place meanwhile."""
        while True:
            header = await self._snapshot_fields(record, [HEADER_FIELD])
            if header[0] is None:
                await self._check_not_rejected(record)
                return None
            try:
                return await self._read_chunks(record, header[0])
            except SnapshotCorruptError:
                if await self._snapshot_fields(record, [HEADER_FIELD]) == header:
                    raise

    async def reject_snapshot(self, record: NamespaceRecord) -> None:
        """Put a damaged snapshot aside."""
        names = [keys.snapshot_key(record), keys.rejected_key(record)]
        await self._run_on(scripts.REJECT, record, names, [REJECTED_FOR_S])

    async def trim(self, record: NamespaceRecord, token: int, keep_s: float) -> int:
        """Drop entries that the snapshot holds, in steps that hold nobody up."""
        arguments: Arguments = [token, int(keep_s * 1000), ENTRIES_PER_TRIM]
        num_trimmed = 0
        while True:
            num = int(await self._run_on(scripts.TRIM, record, [keys.log_key(record)], arguments))
            num_trimmed += num
            if num < ENTRIES_PER_TRIM:
                return num_trimmed

    async def _stage(self, key: str, snapshot: Snapshot) -> int:
        """Write a snapshot chunk by chunk under a key of its own; return its bytes."""
        encoder = SnapshotEncoder(snapshot)
        chunks = encoder.chunks()
        num_bytes = number = 0
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            await self._stage_field(key, str(number), chunk)
            num_bytes += len(chunk)
            number += 1
        header = encoder.header()
        await self._stage_field(key, HEADER_FIELD, header)
        return num_bytes + len(header)

    async def _stage_field(self, key: str, field: str, value: bytes) -> None:
        async with self._calling(), self._redis.pipeline(transaction=False) as pipeline:
            pipeline.hset(key, field, value)
            pipeline.expire(key, STAGED_FOR_S)
            await pipeline.execute()

    async def _drop(self, key: str) -> None:
        """Unlink a key if the store can be reached; else it expires."""
        try:
            async with self._calling():
                await self._redis.unlink(key)
        except StoreUnavailableError:
            return

    async def _read_chunks(self, record: NamespaceRecord, header: bytes) -> Snapshot:
        decoder = await asyncio.to_thread(SnapshotDecoder, header)
        for first in range(0, decoder.num_chunks, CHUNKS_PER_READ):
            numbers = range(first, min(first + CHUNKS_PER_READ, decoder.num_chunks))
            chunks = await self._snapshot_fields(record, list(map(str, numbers)))
            await asyncio.to_thread(_decode, decoder, chunks)
        return decoder.snapshot()

    async def _snapshot_fields(self, record: NamespaceRecord, fields: list[str]) -> list[bytes | None]:
        async with self._calling():
            values: list[bytes | None] = await self._redis.hmget(keys.snapshot_key(record), fields)
        return values

    async def _check_not_rejected(self, record: NamespaceRecord) -> None:
        (stored,) = await self.stored([record])
        if stored.is_snapshot_rejected:
            raise SnapshotCorruptError(f"the snapshot of namespace {record.name!r} was found damaged")

    async def _xread(self, streams: Mapping[str, str], wait_s: float) -> dict[str, Any]:
        block_ms = max(1, int(wait_s * 1000)) if wait_s > 0 else None
        async with self._calling(wait_s):
            reply = await self._redis.xread(dict(streams), count=MAX_ENTRIES_PER_READ, block=block_ms)
        return {key.decode(): entries for key, entries in reply or []}

    async def _pipelined(self, command: str, names: Sequence[str], *arguments: Sequence[str]) -> list[Any]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for name in names:
                getattr(pipeline, command)(name, *arguments)
            replies: list[Any] = await pipeline.execute()
        return replies

    async def _announce(self, name: str) -> None:
        await self._redis.xadd(keys.CHANGES_KEY, {"name": name}, maxlen=MAX_CHANGES_KEPT, approximate=True)

    async def _run_on(
        self,
        script: str,
        record: NamespaceRecord,
        names: Sequence[str],
        arguments: Arguments,
    ) -> Reply:
        """Run a script on a namespace that must exist."""
        reply = await self._run(script, record, [keys.meta_key(record.name), *names], arguments)
        if reply == scripts.GONE:
            raise NamespaceNotFoundError(f"namespace {record.name!r} was deleted")
        if reply == scripts.STALE:
            raise LeaseLostError(f"another replica writes the snapshots of namespace {record.name!r}")
        return reply

    async def _run(
        self,
        script: str,
        record: NamespaceRecord,
        names: Sequence[str],
        arguments: Arguments,
    ) -> Reply:
        async with self._calling():
            return await self._redis.eval(script, len(names), *names, record.incarnation, *arguments)

    @asynccontextmanager
    async def _calling(self, wait_s: float = 0.0) -> AsyncIterator[None]:
        """Bound the time of a call and translate its errors."""
        try:
            async with asyncio.timeout(wait_s + COMMAND_TIMEOUT_S):
                yield
        except TimeoutError as error:
            raise StoreUnavailableError(f"store {self._description}: no answer in time") from error
        except OutOfMemoryError as error:
            raise StoreFullError(f"store {self._description} is full: {error}") from error
        except (RedisError, OSError) as error:
            raise StoreUnavailableError(f"store {self._description}: {error}") from error


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


def _flat(fields: Mapping[str, str | int]) -> list[str | int]:
    return [word for item in fields.items() for word in item]


def _limit_fields(record: NamespaceRecord) -> dict[str, str | int]:
    return {name: getattr(record.limits, name) for name in LIMIT_FIELDS}


def _record(name: str, meta: Mapping[bytes, bytes]) -> NamespaceRecord:
    limits = {field: int(meta.get(field.encode(), 0)) for field in LIMIT_FIELDS}
    return NamespaceRecord(
        name=name,
        fingerprint=meta.get(b"fingerprint", b"").decode(),
        vocab_size=int(meta.get(b"vocab_size", 0)),
        incarnation=meta.get(b"incarnation", b"").decode(),
        format_version=int(meta.get(b"format", 0)),
        limits=NamespaceLimits(**limits),
        lineage=meta.get(b"lineage", b"").decode(),
    )


def _stored(record: NamespaceRecord, reply: Sequence[bytes | None], now_ms: int) -> Stored:
    if reply[0] != record.incarnation.encode():
        return Stored()
    head, log_bytes, snapshot_bytes, number, snapshot_ms, rejected = (int(value or 0) for value in reply[1:])
    return Stored(head, log_bytes, snapshot_bytes, number, snapshot_ms, now_ms, bool(rejected))


def _decode(decoder: SnapshotDecoder, chunks: Sequence[bytes | None]) -> None:
    for chunk in chunks:
        decoder.add(chunk or b"")


def _entries(
    record: NamespaceRecord, entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]]
) -> list[LogEntry]:
    return [_entry(record, position.decode(), fields) for position, fields in entries]


def _entry(record: NamespaceRecord, position: str, fields: Mapping[bytes, bytes]) -> LogEntry:
    """An entry of the log; one that somebody else wrote there must not stop a replica."""
    try:
        number = int(fields[b"n"])
        if b"f" in fields:
            return LogEntry(position, number, forgotten=fields[b"f"].decode())
        tokens = np.frombuffer(fields[b"t"], dtype="<i4").astype(np.int64)
        sequence_id, context_len = fields[b"i"].decode(), int(fields[b"c"])
        sequence = TokenSequence.checked(sequence_id, tokens, context_len, record.vocab_size)
        return LogEntry(position, number, sequence)
    except (KeyError, ValueError, InvalidArgumentError):
        return LogEntry(position, 0)
