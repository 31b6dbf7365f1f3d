"""The store in Redis, Valkey or a cluster of them, the only module that speaks to it.

``redis_keys.py`` lists every key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from uuid import uuid4

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisClusterException, RedisError

from trie_service import redis_keys as keys
from trie_service import redis_scripts as scripts
from trie_service.errors import (
    LeaseLostError,
    NamespaceNotFoundError,
    NodeUnavailableError,
    SnapshotCorruptError,
    StoreFullError,
    StoreUnavailableError,
)
from trie_service.namespace import NamespaceRecord
from trie_service.redis_codec import (
    STORED_FIELDS,
    entries_of,
    flat,
    limit_fields,
    log_words,
    record_of,
    stored_of,
)
from trie_service.redis_logs import RedisLogs
from trie_service.redis_nodes import Ask, RedisNodes
from trie_service.redis_snapshots import RedisSnapshots
from trie_service.sequence import Forgotten, TokenSequence
from trie_service.snapshot import Snapshot
from trie_service.store import MAX_RECENT_IDS, START, Batch, Cursors, Registry, Stored

CONNECT_TIMEOUT_S = 1.0
COMMAND_TIMEOUT_S = 2.0
MAX_CHANGES_KEPT = 1000
ENTRIES_PER_TRIM = 256  # dropped by one call of the script, some milliseconds
BYTES_PER_TRIM = 8 << 20
REJECTED_FOR_S = 24 * 3600
DELETED_FOR_S = 30 * 24 * 3600  # longer than any replica goes on without the store
CLUSTER_SUFFIX = "+cluster://"  # redis+cluster:// and rediss+cluster:// name any node of a cluster

# redis-py's types allow for text replies too, ours are bytes: they are not checked.
Reply: TypeAlias = Any
Arguments: TypeAlias = Sequence[str | int | bytes]


class RedisStore:
    """Follows the Store protocol. Commands fail within seconds and are never retried here."""

    def __init__(self, url: str, *, max_log_bytes: int, description: str = "") -> None:
        self._max_log_bytes = max_log_bytes
        self._description = description or without_credentials(url)
        self._redis: Reply = _client(url)
        self._is_cluster = isinstance(self._redis, RedisCluster)
        self._snapshots = RedisSnapshots(self._redis, self._calling)
        self._nodes = RedisNodes(self._redis, self._calling, is_cluster=self._is_cluster)
        self._logs = RedisLogs(self._redis, self._calling, self._nodes)

    @property
    def description(self) -> str:
        """Where the store is, without credentials."""
        return self._description

    def place_of(self, record: NamespaceRecord) -> str:
        """The node of a cluster."""
        return self._nodes.name_of(keys.meta_key(record.name)) if self._is_cluster else self._description

    async def connect(self) -> None:
        """Check that the store answers."""
        await self._nodes.now_ms()

    async def close(self) -> None:
        """Release connections."""
        await self._nodes.close()
        await self._redis.aclose()

    async def identity(self) -> str:
        """The store's identity, drawn when a store is first asked."""
        self._nodes.require(keys.STORE_KEY)
        async with self._calling():
            store_id: bytes | None = await self._redis.get(keys.STORE_KEY)
            if store_id is None:
                await self._redis.set(keys.STORE_KEY, uuid4().hex, nx=True)
                store_id = await self._redis.get(keys.STORE_KEY)
        if store_id is None:
            raise StoreUnavailableError(f"store {self._description} is being emptied")
        return store_id.decode()

    async def registry(self) -> Registry:
        """All namespaces. A name without meta is one whose deletion was cut short: it does not exist."""
        store_id = await self.identity()
        async with self._calling():
            newest = await self._redis.xrevrange(keys.CHANGES_KEY, count=1)
            names = sorted(name.decode() for name in await self._redis.smembers(keys.NAMESPACES_KEY))
        metas = dict(zip(names, await self._metas(names), strict=True))
        return Registry(
            store_id,
            newest[0][0].decode() if newest else START,
            tuple(record_of(name, meta) for name, meta in metas.items() if meta),
            frozenset(name for name, meta in metas.items() if meta is None),
        )

    async def find(self, name: str) -> NamespaceRecord | None:
        """One namespace."""
        async with self._calling():
            meta = await self._redis.hgetall(keys.meta_key(name))
        return record_of(name, meta) if meta else None

    async def create(self, record: NamespaceRecord, snapshot: Snapshot | None = None) -> NamespaceRecord:
        """Create a namespace unless one of that name exists; return the one that exists now."""
        fields: dict[str, str | int] = limit_fields(record) | {
            "format": record.format_version,
            "fingerprint": record.fingerprint,
            "vocab_size": record.vocab_size,
            "lineage": record.lineage,
        }
        staged = keys.staging_key(record)
        if snapshot is not None:
            num_bytes = await self._snapshots.stage(staged, replace(snapshot, position=START, number=0))
            fields |= {"snap_bytes": num_bytes, "snap_number": 0, "snap_position": START}
        names = [keys.meta_key(record.name), keys.snapshot_key(record), staged]
        meta = await self._run(scripts.CREATE, record, names, flat(fields))
        async with self._calling():
            if await self._redis.sadd(keys.NAMESPACES_KEY, record.name):
                await self._announce(record.name)
        return record_of(record.name, dict(zip(meta[::2], meta[1::2], strict=True)))

    async def update(self, record: NamespaceRecord) -> None:
        """Store a namespace's limits."""
        await self._run_on(scripts.UPDATE, record, [], flat(limit_fields(record)))
        async with self._calling():
            await self._announce(record.name)

    async def delete(self, record: NamespaceRecord) -> bool:
        """Delete a namespace, its log and its snapshot; False where that incarnation is gone already."""
        others = (keys.log_key, keys.ids_key, keys.lease_key, keys.snapshot_key, keys.rejected_key)
        names = [key(record) for key in (keys.deleted_key, *others)]
        try:
            await self._run_on(scripts.DELETE, record, names, [DELETED_FOR_S])
        except NamespaceNotFoundError:
            return False
        async with self._calling():
            await self._redis.srem(keys.NAMESPACES_KEY, record.name)
            if await self._redis.exists(keys.meta_key(record.name)):  # created again meanwhile
                await self._redis.sadd(keys.NAMESPACES_KEY, record.name)
            await self._announce(record.name)
        return True

    async def was_deleted(self, record: NamespaceRecord) -> bool:
        """Whether that incarnation was deleted lately."""
        async with self._calling():
            return bool(await self._redis.exists(keys.deleted_key(record)))

    async def append(self, record: NamespaceRecord, items: Sequence[TokenSequence | Forgotten]) -> int:
        """Append to a namespace's log, all or nothing, in one round trip; return the tokens appended."""
        arguments: list[str | int | bytes] = [self._max_log_bytes, MAX_RECENT_IDS]
        for item in items:
            arguments += log_words(item)
        names = [keys.log_key(record), keys.ids_key(record)]
        return int(await self._run_on(scripts.APPEND, record, names, arguments))

    async def read(self, cursors: Cursors, wait_s: float) -> Batch:
        """Entries after the cursors, a bounded number of each log; wait up to ``wait_s`` for the first."""
        names = {record: keys.log_key(record) for record in cursors.logs}
        streams = {names[record]: position for record, position in cursors.logs.items()}
        streams[keys.CHANGES_KEY] = cursors.changes
        found = await self._logs.read(streams, wait_s)
        logs = {}
        for record, key in names.items():
            if key in found:
                logs[record] = entries_of(record, found[key])
                await asyncio.sleep(0)  # a turn for queries
        return Batch(keys.CHANGES_KEY in found, logs)

    async def stored(self, records: Sequence[NamespaceRecord]) -> list[Stored]:
        """What the store holds of each namespace."""
        now_ms = await self._nodes.now_ms()
        names = [keys.meta_key(record.name) for record in records]
        replies = await self._nodes.ask([Ask(name, partial(_put_hmget, name)) for name in names])
        return [stored_of(record, reply, now_ms) for record, reply in zip(records, replies, strict=True)]

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

    async def write_snapshot(
        self, record: NamespaceRecord, snapshot: Snapshot, token: int, new_lineage: str = ""
    ) -> int:
        """Put a snapshot in the place of the old one, all at once; return its bytes in the store.

        Until the last script it lies under a key of its own, which expires should nobody go on writing.
        """
        staged = keys.staging_key(record)
        try:
            num_bytes = await self._snapshots.stage(staged, snapshot)
            lineages = [record.lineage, new_lineage]
            arguments: Arguments = [token, *lineages, snapshot.number, snapshot.position, num_bytes]
            names = [keys.snapshot_key(record), staged]
            await self._run_on(scripts.SWITCH, record, names, arguments)
        except BaseException:
            await self._snapshots.drop(staged)
            raise
        if new_lineage:
            async with self._calling():
                await self._announce(record.name)
        return num_bytes

    async def read_snapshot(self, record: NamespaceRecord) -> Snapshot | None:
        """The newest snapshot."""
        snapshot = await self._snapshots.read(record)
        if snapshot is None:
            await self._check_not_rejected(record)
        return snapshot

    async def reject_snapshot(self, record: NamespaceRecord) -> None:
        """Put a damaged snapshot aside."""
        names = [keys.snapshot_key(record), keys.rejected_key(record)]
        await self._run_on(scripts.REJECT, record, names, [REJECTED_FOR_S])

    async def trim(self, record: NamespaceRecord, token: int, keep_s: float) -> int:
        """Drop entries that the snapshot holds, in steps that hold nobody up."""
        arguments: Arguments = [token, int(keep_s * 1000), ENTRIES_PER_TRIM, BYTES_PER_TRIM]
        num_trimmed = 0
        while num := int(await self._run_on(scripts.TRIM, record, [keys.log_key(record)], arguments)):
            num_trimmed += num
        return num_trimmed

    async def _check_not_rejected(self, record: NamespaceRecord) -> None:
        (stored,) = await self.stored([record])
        if stored.is_snapshot_rejected:
            raise SnapshotCorruptError(f"the snapshot of namespace {record.name!r} was found damaged")

    async def _metas(self, names: Sequence[str]) -> list[Mapping[bytes, bytes] | None]:
        """The hash of each namespace, None where its node does not answer."""
        hashes = [keys.meta_key(name) for name in names]
        return await self._nodes.ask([Ask(key, partial(_put_hgetall, key)) for key in hashes])

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
        self._nodes.require(names[0])
        async with self._calling():
            return await self._redis.eval(script, len(names), *names, record.incarnation, *arguments)

    @asynccontextmanager
    async def _calling(self, wait_s: float = 0.0) -> AsyncIterator[None]:
        """Bound the time of a call and translate its errors."""
        try:
            async with asyncio.timeout(wait_s + COMMAND_TIMEOUT_S):
                yield
        except TimeoutError as error:
            raise self._unavailable("no answer in time") from error
        except OutOfMemoryError as error:
            raise StoreFullError(f"store {self._description} is full: {error}") from error
        except (RedisError, RedisClusterException, OSError) as error:
            raise self._unavailable(str(error)) from error

    def _unavailable(self, reason: str) -> StoreUnavailableError:
        kind = NodeUnavailableError if self._is_cluster else StoreUnavailableError
        return kind(f"store {self._description}: {reason}")


def _put_hgetall(key: str, pipeline: Reply) -> None:
    pipeline.hgetall(key)


def _put_hmget(key: str, pipeline: Reply) -> None:
    pipeline.hmget(key, STORED_FIELDS)


def without_credentials(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _client(url: str) -> Redis | RedisCluster:
    scheme, separator, rest = url.partition(CLUSTER_SUFFIX)
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_timeout": None,  # redis-py's way to bound a write loses cancellations on Python 3.11
        "retry": Retry(NoBackoff(), 0),
    }
    if separator:
        return RedisCluster.from_url(scheme + "://" + rest, **options)
    return Redis.from_url(url, **options)
