"""A store inside one process, for tests: nothing survives it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import uuid4

from trie_service.errors import NamespaceNotFoundError
from trie_service.namespace import NamespaceRecord
from trie_service.sequence import TokenSequence
from trie_service.store import Batch, Cursors, LogEntry, Registry

MAX_ENTRIES_PER_READ = 64


class MemoryStore:
    """Follows the Store protocol; replicas in one process may share one."""

    def __init__(self) -> None:
        self._store_id = uuid4().hex
        self._records: dict[str, NamespaceRecord] = {}
        self._logs: dict[str, list[LogEntry]] = {}  # by incarnation
        self._num_changes = 0
        self._grew = asyncio.Condition()

    @property
    def description(self) -> str:
        """Where the store is."""
        return "memory:"

    async def connect(self) -> None:
        """Nothing to check."""

    async def close(self) -> None:
        """Nothing to release."""

    async def identity(self) -> str:
        """The store's identity."""
        return self._store_id

    async def registry(self) -> Registry:
        """All namespaces."""
        return Registry(self._store_id, self._changes, tuple(self._records.values()))

    async def find(self, name: str) -> NamespaceRecord | None:
        """One namespace."""
        return self._records.get(name)

    async def create(self, record: NamespaceRecord) -> NamespaceRecord:
        """Create a namespace unless one of that name exists."""
        if record.name not in self._records:
            self._records[record.name] = record
            self._logs[record.incarnation] = []
            await self._announce()
        return self._records[record.name]

    async def delete(self, record: NamespaceRecord) -> bool:
        """Delete a namespace and its log."""
        if self._logs.pop(record.incarnation, None) is None:
            return False
        del self._records[record.name]
        await self._announce()
        return True

    async def append(self, record: NamespaceRecord, sequences: Sequence[TokenSequence]) -> None:
        """Append to a namespace's log."""
        log = self._logs.get(record.incarnation)
        if log is None:
            raise NamespaceNotFoundError(f"namespace {record.name!r} was deleted")
        for sequence in sequences:
            number = len(log) + 1
            log.append(LogEntry(f"{number}-0", number, sequence))
        async with self._grew:
            self._grew.notify_all()

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

    async def heads(self, records: Sequence[NamespaceRecord]) -> list[int]:
        """Number of the newest entry of each log."""
        return [len(self._logs.get(record.incarnation, ())) for record in records]

    def _after(self, cursors: Cursors) -> Batch:
        logs: dict[NamespaceRecord, Sequence[LogEntry]] = {}
        for record, position in cursors.logs.items():
            num_read = int(position.partition("-")[0])
            entries = self._logs.get(record.incarnation, [])[num_read : num_read + MAX_ENTRIES_PER_READ]
            if entries:
                logs[record] = entries
        return Batch(cursors.changes != self._changes, logs)

    @property
    def _changes(self) -> str:
        return f"{self._num_changes}-0"

    async def _announce(self) -> None:
        self._num_changes += 1
        async with self._grew:
            self._grew.notify_all()
