"""The namespaces of one replica: held in memory, kept the same as in the store's registry."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from uuid import uuid4

import structlog

from trie_service.errors import (
    AlreadyExistsError,
    NamespaceNotFoundError,
    NodeUnavailableError,
    ResourceExhaustedError,
    SnapshotCorruptError,
    StoreUnavailableError,
    UnsupportedFormatError,
)
from trie_service.memory import NamespaceMemory, NamespaceStats
from trie_service.namespace import NamespaceLimits, NamespaceRecord, NamespaceRef
from trie_service.options import IndexOptions
from trie_service.serving import Serving, ServingState
from trie_service.snapshot import Snapshot
from trie_service.store import START, Cursors, Registry, Store, Stored

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A namespace as it is now."""

    record: NamespaceRecord
    stats: NamespaceStats


class Namespaces:
    """Holds memories by name; creates, changes, describes and deletes."""

    def __init__(self, store: Store, options: IndexOptions, serving: Serving) -> None:
        self._store = store
        self._options = options
        self._serving = serving
        self._held: dict[str, NamespaceMemory] = {}
        self._unknown: frozenset[str] = frozenset()  # names that the store could say nothing of
        self._refused: dict[str, tuple[NamespaceRecord, UnsupportedFormatError]] = {}
        self._store_id = ""
        self._changes = START
        self._registry_lock = asyncio.Lock()

    def all(self) -> list[NamespaceMemory]:
        """All memories, by name. Other threads may ask too."""
        return sorted(self._held.values(), key=lambda memory: memory.record.name)

    def find(self, record: NamespaceRecord) -> NamespaceMemory | None:
        """The memory of that very incarnation."""
        memory = self._held.get(record.name)
        return memory if memory is not None and memory.record == record else None

    def memory_of(self, ref: NamespaceRef) -> NamespaceMemory:
        """The memory that a caller names.

        Raises NotReadyError, InvalidArgumentError, NamespaceNotFoundError, FingerprintMismatchError or
        UnsupportedFormatError.
        """
        self._serving.require_loaded()
        memory = self._held.get(ref.name)
        if memory is None:
            ref.validate()
            if ref.name in self._refused:
                raise self._refused[ref.name][1]
            if ref.name in self._unknown:
                raise NodeUnavailableError(f"namespace {ref.name!r} is kept where the store does not answer")
            raise _not_found(ref.name)
        memory.record.check_fingerprint(ref.fingerprint)
        return memory

    async def create(self, wanted: NamespaceRecord) -> NamespaceView:
        """Create a namespace, or return the one that exists with the same fingerprint."""
        self._options.limits.check(wanted.limits)
        memory = await self._create(wanted, None)
        memory.record.check_fingerprint(wanted.fingerprint)
        return NamespaceView(memory.record, memory.stats())

    async def create_filled(self, wanted: NamespaceRecord, snapshot: Snapshot) -> NamespaceView:
        """Create a namespace with first contents; raise AlreadyExistsError where there is one."""
        memory = await self._create(wanted, snapshot)
        if memory.record.incarnation != wanted.incarnation:
            raise AlreadyExistsError(
                f"namespace {wanted.name!r} exists: delete it first, or choose another name"
            )
        return NamespaceView(memory.record, memory.stats())

    async def update(self, ref: NamespaceRef, limits: NamespaceLimits) -> NamespaceView:
        """Change a namespace's limits everywhere."""
        self._options.limits.check(limits)
        self._serving.require_store()
        memory = self.memory_of(ref)
        async with self._registry_lock:
            await self._store.update(replace(memory.record, limits=limits))
            self._note_record(memory, replace(memory.record, limits=limits))
        log.info("limits changed", namespace=ref.name, **asdict(limits))
        return NamespaceView(memory.record, memory.stats())

    async def describe(self, ref: NamespaceRef) -> NamespaceView:
        """One namespace."""
        memory = self.memory_of(ref)
        await self.note_stored([memory])
        return NamespaceView(memory.record, memory.stats())

    async def describe_all(self) -> list[NamespaceView]:
        """All namespaces that this replica can read, by name."""
        self._serving.require_loaded()
        memories = self.all()
        await self.note_stored(memories)
        return [NamespaceView(memory.record, memory.stats()) for memory in memories]

    async def delete(self, ref: NamespaceRef) -> None:
        """Delete a namespace everywhere; raise NamespaceNotFoundError where there is none."""
        ref.validate()
        self._serving.require_store()
        async with self._registry_lock:
            record = await self._store.find(ref.name)
            if record is None:
                raise _not_found(ref.name)
            record.check_format()
            await self._store.delete(record)
            self._held.pop(ref.name, None)
        log.info("namespace deleted", namespace=ref.name)

    async def reconcile(self) -> None:
        """Hold exactly the namespaces that the store has.

        A store that was emptied, or that lost its newest writes, is not one whose namespaces were deleted:
        memory is kept, and the namespaces are made known to the store again.
        """
        async with self._registry_lock:
            registry = await self._store.registry()
            if self._store_id not in ("", registry.store_id):
                log.warning("the store was emptied: memory is kept", store=self._store.description)
            if missing := await self._missing(registry):
                await self._restore(missing)
                registry = await self._store.registry()
            self._store_id, self._changes = registry.store_id, registry.changes
            self._unknown = registry.unknown
            for name in self._held.keys() - _names_in(registry):
                del self._held[name]
            for name in self._refused.keys() - _names_in(registry):
                del self._refused[name]
            for record in registry.records:
                await self._adopt(record)

    async def refresh(self, memory: NamespaceMemory) -> bool:
        """Let a newer snapshot take the place of memory that misses entries of the log; False without one."""
        async with self._registry_lock:
            record = memory.record
            if self.find(record) is not memory:
                return False
            opened = memory if memory.is_partial else await self._open_or_refuse(record)
            if opened is None:
                return False
            if not opened.is_ahead_of(memory):
                log.warning("entries of the log are missing, and no snapshot has them", namespace=record.name)
                return False
            log.warning("entries of the log were trimmed unread, snapshot loaded", namespace=record.name)
            self._put(opened)
            return True

    async def refresh_trimmed(self) -> bool:
        """Load snapshots that hold what was trimmed unread; False where there are none.

        To be called when a read found nothing: what is not in memory then is not in a log either.
        """
        memories = [memory for memory in self._held.values() if not memory.is_busy]
        stored = await self._store.stored([memory.record for memory in memories])
        pairs = zip(memories, stored, strict=True)
        return any(
            [await self.refresh(memory) for memory, found in pairs if memory.lags_behind_snapshot(found)]
        )

    async def read_again(self, memory: NamespaceMemory) -> Stored:
        """Have the log of a namespace read again behind its snapshot: the store lost its newest entries."""
        log.warning("the store lost the end of a log: memory is kept", namespace=memory.record.name)
        (stored,) = await self._store.stored([memory.record])
        await memory.rewind(stored)
        memory.is_ahead = True
        return stored

    async def part_with(self, gone: Sequence[NamespaceMemory]) -> None:
        """Hold no namespace any more that was deleted; whoever deleted it could not say so to all."""
        for memory in gone:
            if await self._store.was_deleted(memory.record) and self.find(memory.record) is memory:
                del self._held[memory.record.name]
        await self.reconcile()

    async def store_changed(self) -> bool:
        """Whether there is something to reconcile: the store was emptied, or did not tell all the last time."""
        return bool(self._unknown) or await self._store.identity() != self._store_id

    def cursors(self) -> Cursors:
        """How far memory has come in each log that it can follow now."""
        memories = [memory for memory in self._held.values() if not memory.is_busy]
        return Cursors(self._changes, {memory.record: memory.position for memory in memories})

    def refusals(self) -> dict[str, str]:
        """Why namespaces cannot be read, by name."""
        return {name: str(error) for name, (_, error) in self._refused.items()}

    async def note_stored(self, memories: Sequence[NamespaceMemory]) -> None:
        """Ask the store what it holds; without it the last answer stands."""
        if self._serving.state is ServingState.DEGRADED or not memories:
            return
        try:
            stored = await self._store.stored([memory.record for memory in memories])
        except StoreUnavailableError:
            return
        for memory, found in zip(memories, stored, strict=True):
            memory.note_stored(found)

    async def _create(self, wanted: NamespaceRecord, snapshot: Snapshot | None) -> NamespaceMemory:
        self._serving.require_store()
        async with self._registry_lock:
            self._require_place(wanted.name)
            record = await self._store.create(wanted, snapshot)
            await self._adopt(record)
        if record.incarnation == wanted.incarnation:
            log.info("namespace created", namespace=record.name, fingerprint=record.fingerprint)
        return self.memory_of(NamespaceRef(record.name))

    def _require_place(self, name: str) -> None:
        most = self._options.limits.max_namespaces
        if most and name not in self._held and len(self._held) >= most:
            raise ResourceExhaustedError(
                f"namespace {name!r} cannot be created: there are {len(self._held)}, and {most} are allowed"
            )

    async def _adopt(self, record: NamespaceRecord) -> None:
        held = self.find(record)
        if held is None:
            self._held.pop(record.name, None)
        elif held.record.lineage == record.lineage:
            self._note_record(held, record)
            return
        if (opened := await self._open_or_refuse(record)) is not None:
            self._put(opened)

    async def _open_or_refuse(self, record: NamespaceRecord) -> NamespaceMemory | None:
        try:
            record.check_format()
            opened = await self._open(record)
        except UnsupportedFormatError as error:
            self._held.pop(record.name, None)
            self._refused[record.name] = (record, error)
            return None
        self._refused.pop(record.name, None)
        return opened

    async def _open(self, record: NamespaceRecord) -> NamespaceMemory:
        """Memory from the newest snapshot, or, without one that can be read, empty: the log tells the rest."""
        limits, max_order = self._options.limits.of(record.limits), self._options.max_order
        try:
            if (snapshot := await self._store.read_snapshot(record)) is not None:
                return await NamespaceMemory.restored(record, limits, snapshot, max_order=max_order)
        except (SnapshotCorruptError, ValueError) as error:
            log.error("snapshot is damaged, put aside", namespace=record.name, error=str(error))
            with suppress(NamespaceNotFoundError):  # deleted meanwhile
                await self._store.reject_snapshot(record)
            memory = NamespaceMemory(record, limits, max_order=max_order)
            memory.is_partial = True
            return memory
        return NamespaceMemory(record, limits, max_order=max_order)

    def _put(self, memory: NamespaceMemory) -> None:
        if (old := self._held.get(memory.record.name)) is not None:
            memory.take_over_use(old)
        self._held[memory.record.name] = memory

    def _note_record(self, memory: NamespaceMemory, record: NamespaceRecord) -> None:
        memory.record, memory.limits = record, self._options.limits.of(record.limits)

    async def _missing(self, registry: Registry) -> list[NamespaceMemory]:
        """Memories of namespaces that the store should have."""
        known = _names_in(registry)
        missing = [memory for memory in self.all() if memory.record.name not in known]
        if self._store_id not in ("", registry.store_id):
            for memory in self.all():
                await memory.rewind(Stored())
        return [memory for memory in missing if not await self._store.was_deleted(memory.record)]

    async def _restore(self, memories: Sequence[NamespaceMemory]) -> None:
        """Make namespaces known to the store again; the logs there are new ones.

        The first replica's memory becomes the snapshot, under a new lineage: the others take it over.
        """
        for memory in memories:
            await memory.rewind(Stored())
            record = replace(memory.record, lineage=uuid4().hex)
            if (await self._store.create(record, await memory.snapshot())).lineage == record.lineage:
                memory.record = record
                log.warning("the store lost a namespace: restored from memory", namespace=record.name)


def _names_in(registry: Registry) -> set[str]:
    """All names that there may be."""
    return {record.name for record in registry.records} | registry.unknown


def _not_found(name: str) -> NamespaceNotFoundError:
    return NamespaceNotFoundError(f"namespace {name!r} does not exist")
