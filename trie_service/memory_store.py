"""A store inside one process, for tests: nothing survives it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

from trie_service.errors import LeaseLostError, NamespaceNotFoundError, SnapshotCorruptError
from trie_service.namespace import NamespaceRecord
from trie_service.sequence import Forgotten, TokenSequence
from trie_service.snapshot import Snapshot
from trie_service.store import MAX_RECENT_IDS, START, Batch, Cursors, LogEntry, Registry, Stored

MAX_ENTRIES_PER_READ = 64


@dataclass(slots=True)
class _Namespace:
    """One namespace as the store keeps it."""

    record: NamespaceRecord
    log: list[LogEntry] = field(default_factory=list)
    num_appended: int = 0
    recent_ids: dict[str, None] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    snapshot_ms: int = 0
    is_rejected: bool = False
    token: int = 0
    lease: tuple[str, float] = ("", 0.0)  # owner, and until when


class MemoryStore:
    """Follows the Store protocol; replicas in one process may share one."""

    def __init__(self) -> None:
        self._store_id = uuid4().hex
        self._namespaces: dict[str, _Namespace] = {}
        self._deleted: set[str] = set()  # incarnations
        self._num_changes = 0
        self._num_appended = 0
        self._grew = asyncio.Condition()

    @property
    def description(self) -> str:
        """Where the store is."""
        return "memory:"

    def place_of(self, record: NamespaceRecord) -> str:
        """There is but one."""
        return self.description

    async def connect(self) -> None:
        """Nothing to check."""

    async def close(self) -> None:
        """Nothing to release."""

    async def identity(self) -> str:
        """The store's identity."""
        return self._store_id

    async def registry(self) -> Registry:
        """All namespaces."""
        records = tuple(namespace.record for namespace in self._namespaces.values())
        return Registry(self._store_id, self._changes, records)

    async def find(self, name: str) -> NamespaceRecord | None:
        """One namespace."""
        namespace = self._namespaces.get(name)
        return namespace.record if namespace else None

    async def create(self, record: NamespaceRecord, snapshot: Snapshot | None = None) -> NamespaceRecord:
        """Create a namespace unless one of that name exists."""
        if record.name not in self._namespaces:
            self._namespaces[record.name] = created = _Namespace(record)
            if snapshot is not None:
                created.snapshot = replace(snapshot, position=START, number=0)
                created.snapshot_ms = _now_ms()
            await self._announce()
        return self._namespaces[record.name].record

    async def update(self, record: NamespaceRecord) -> None:
        """Store a namespace's limits."""
        namespace = self._existing(record)
        namespace.record = replace(namespace.record, limits=record.limits)
        await self._announce()

    async def delete(self, record: NamespaceRecord) -> bool:
        """Delete a namespace, its log and its snapshot."""
        if self._get(record) is None:
            return False
        del self._namespaces[record.name]
        self._deleted.add(record.incarnation)
        await self._announce()
        return True

    async def was_deleted(self, record: NamespaceRecord) -> bool:
        """Whether that incarnation was deleted."""
        return record.incarnation in self._deleted

    async def append(self, record: NamespaceRecord, items: Sequence[TokenSequence | Forgotten]) -> int:
        """Append to a namespace's log."""
        namespace = self._existing(record)
        num_tokens = sum([self._append_one(namespace, item) for item in items])
        while len(namespace.recent_ids) > MAX_RECENT_IDS:
            del namespace.recent_ids[next(iter(namespace.recent_ids))]
        async with self._grew:
            self._grew.notify_all()
        return num_tokens

    async def read(self, cursors: Cursors, wait_s: float) -> Batch:
        """Entries after the cursors."""
        batch = self._after(cursors)
        if wait_s <= 0 or batch.logs or batch.changed:
            return batch
        try:
            async with asyncio.timeout(wait_s), self._grew:
                await self._grew.wait()
        except TimeoutError:
            return batch
        return self._after(cursors)

    async def stored(self, records: Sequence[NamespaceRecord]) -> list[Stored]:
        """What the store holds of each namespace."""
        return [_stored(self._get(record)) for record in records]

    async def acquire_lease(self, record: NamespaceRecord, owner: str, ttl_s: float) -> int | None:
        """Take or renew the lease."""
        namespace = self._existing(record)
        holder, until = namespace.lease
        if holder and holder != owner and time.monotonic() < until:
            return None
        if holder != owner or time.monotonic() >= until:
            namespace.token += 1
        namespace.lease = (owner, time.monotonic() + ttl_s)
        return namespace.token

    async def release_lease(self, record: NamespaceRecord, owner: str) -> None:
        """Give the lease back."""
        namespace = self._get(record)
        if namespace is not None and namespace.lease[0] == owner:
            namespace.lease = ("", 0.0)

    async def write_snapshot(
        self, record: NamespaceRecord, snapshot: Snapshot, token: int, new_lineage: str = ""
    ) -> int:
        """Put a snapshot in the place of the old one."""
        namespace = self._existing(record)
        is_stale = token < namespace.token or namespace.record.lineage != record.lineage
        old = namespace.snapshot
        if is_stale or (old and not new_lineage and snapshot.number < old.number):
            raise LeaseLostError(f"another replica writes the snapshots of namespace {record.name!r}")
        namespace.snapshot, namespace.snapshot_ms, namespace.is_rejected = snapshot, _now_ms(), False
        if new_lineage:
            namespace.record = replace(namespace.record, lineage=new_lineage)
            await self._announce()
        return snapshot.num_bytes

    async def read_snapshot(self, record: NamespaceRecord) -> Snapshot | None:
        """The newest snapshot."""
        namespace = self._get(record)
        if namespace is not None and namespace.is_rejected:
            raise SnapshotCorruptError(f"the snapshot of namespace {record.name!r} was rejected")
        return namespace.snapshot if namespace else None

    async def reject_snapshot(self, record: NamespaceRecord) -> None:
        """Put a damaged snapshot aside."""
        namespace = self._get(record)
        if namespace is not None and namespace.snapshot is not None:
            namespace.snapshot, namespace.snapshot_ms, namespace.is_rejected = None, 0, True

    async def trim(self, record: NamespaceRecord, token: int, keep_s: float) -> int:
        """Drop entries that the snapshot holds."""
        namespace = self._existing(record)
        if token < namespace.token:
            raise LeaseLostError(f"another replica writes the snapshots of namespace {record.name!r}")
        covered = namespace.snapshot.number if namespace.snapshot else 0
        oldest_ms = _now_ms() - int(keep_s * 1000)
        kept = [entry for entry in namespace.log if entry.number > covered or entry.appended_ms >= oldest_ms]
        num_trimmed = len(namespace.log) - len(kept)
        namespace.log[:] = kept
        return num_trimmed

    def _append_one(self, namespace: _Namespace, item: TokenSequence | Forgotten) -> int:
        if item.sequence_id in namespace.recent_ids and isinstance(item, TokenSequence):
            return 0
        namespace.num_appended += 1
        self._num_appended += 1
        number = namespace.num_appended
        position = f"{_now_ms()}-{self._num_appended}"
        if isinstance(item, Forgotten):
            namespace.recent_ids.pop(item.sequence_id, None)
            namespace.log.append(LogEntry(position, number, forgotten=item.sequence_id))
            return 0
        namespace.recent_ids[item.sequence_id] = None
        namespace.log.append(LogEntry(position, number, sequence=item))
        return item.num_learned

    def _after(self, cursors: Cursors) -> Batch:
        logs: dict[NamespaceRecord, Sequence[LogEntry]] = {}
        for record, position in cursors.logs.items():
            namespace = self._get(record)
            log = namespace.log if namespace else []
            if entries := [entry for entry in log if entry.is_after(position)][:MAX_ENTRIES_PER_READ]:
                logs[record] = entries
        return Batch(cursors.changes != self._changes, logs)

    def _get(self, record: NamespaceRecord) -> _Namespace | None:
        namespace = self._namespaces.get(record.name)
        return namespace if namespace and namespace.record.incarnation == record.incarnation else None

    def _existing(self, record: NamespaceRecord) -> _Namespace:
        namespace = self._get(record)
        if namespace is None:
            raise NamespaceNotFoundError(f"namespace {record.name!r} was deleted")
        return namespace

    @property
    def _changes(self) -> str:
        return f"{self._num_changes}-0"

    async def _announce(self) -> None:
        self._num_changes += 1
        async with self._grew:
            self._grew.notify_all()


def _stored(namespace: _Namespace | None) -> Stored:
    if namespace is None:
        return Stored()
    snapshot = namespace.snapshot
    return Stored(
        head=namespace.num_appended,
        log_bytes=sum(entry.sequence.tokens.nbytes for entry in namespace.log if entry.sequence),
        snapshot_bytes=snapshot.num_bytes if snapshot else 0,
        snapshot_number=snapshot.number if snapshot else 0,
        snapshot_position=snapshot.position if snapshot else START,
        snapshot_ms=namespace.snapshot_ms,
        now_ms=_now_ms(),
        is_snapshot_rejected=namespace.is_rejected,
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
