"""The verbs of the trie service. One object a replica, used from one event loop.

Drafts come from memory alone. What is learned goes to the store; memory changes only by ``follow.py``
reading it back, the same way at every replica.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import Enum
from uuid import uuid4

from trie_service.drafting import Draft, DraftLimits
from trie_service.errors import (
    InvalidArgumentError,
    NamespaceNotFoundError,
    NotReadyError,
    StoreUnavailableError,
)
from trie_service.learning import LearnBatch, LearnItem, Receipt
from trie_service.memory import NamespaceMemory, NamespaceStats
from trie_service.namespace import MAX_VOCAB_SIZE, NamespaceRecord, NamespaceRef
from trie_service.query import DraftQuery
from trie_service.sequence import TokenSequence
from trie_service.store import START, Batch, Cursors, LogEntry, Registry, Store

TOKENS_BETWEEN_TURNS = 512


class ServingState(Enum):
    """How a replica fares."""

    LOADING = "loading"
    SERVING = "serving"
    DEGRADED = "degraded"


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How an index drafts and what it may hold."""

    max_order: int
    max_bytes: int  # a namespace
    auto_create: bool  # create an unknown namespace on Learn
    default_limits: DraftLimits


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A namespace as it is now."""

    record: NamespaceRecord
    stats: NamespaceStats


class DraftIndex:
    """All namespaces of one replica."""

    def __init__(self, store: Store, options: IndexOptions) -> None:
        self._store = store
        self._options = options
        self._held: dict[str, NamespaceMemory] = {}
        self._refused: dict[str, NamespaceRecord] = {}  # in a format that cannot be read
        self._store_id = ""
        self._changes = START
        self._num_since_turn = 0  # tokens inserted since others had their turn
        self._registry_lock = asyncio.Lock()
        self._state = ServingState.LOADING
        self.on_state: Callable[[ServingState], None] = lambda state: None

    @property
    def state(self) -> ServingState:
        """How this replica fares."""
        return self._state

    @state.setter
    def state(self, state: ServingState) -> None:
        if state is not self._state:
            self._state = state
            self.on_state(state)

    @property
    def store_description(self) -> str:
        """Where the store is, without credentials."""
        return self._store.description

    @property
    def max_match_order(self) -> int:
        """Longest suffix that is matched."""
        return self._options.max_order

    def draft(self, query: DraftQuery) -> Draft:
        """Draft for one context, from memory.

        Raises NamespaceNotFoundError, FingerprintMismatchError, InvalidArgumentError, NotReadyError or
        UnsupportedFormatError.
        """
        memory = self._memory_of(query.namespace)
        return memory.draft(query.context, query.limits(self._options.default_limits))

    async def learn(self, items: AsyncIterator[LearnItem]) -> Receipt:
        """Put sequences into the system of record; on return they are not lost.

        When it raises, sequences before the offending one may have been learned.
        """
        num_sequences = num_tokens = 0
        batch = LearnBatch()
        async for item in items:
            sequence = await self._gather(batch, item)
            num_sequences += 1
            num_tokens += sequence.num_learned
            if batch.is_full:
                await self._append(batch)
                batch = LearnBatch()
        await self._append(batch)
        return Receipt(num_sequences, num_tokens)

    async def create(self, ref: NamespaceRef, vocab_size: int) -> NamespaceView:
        """Create a namespace, or return the one that exists with the same fingerprint."""
        wanted = NamespaceRecord.new(ref, vocab_size)
        self._require_store()
        async with self._registry_lock:
            record = await self._store.create(wanted)
            self._adopt(record)
        record.check_format()
        record.check_fingerprint(ref.fingerprint)
        return NamespaceView(record, self._held[record.name].stats())

    async def describe(self, ref: NamespaceRef) -> NamespaceView:
        """One namespace."""
        memory = self._memory_of(ref)
        await self._note_heads([memory])
        return NamespaceView(memory.record, memory.stats())

    async def describe_all(self) -> list[NamespaceView]:
        """All namespaces that this replica can read, by name."""
        self._require_loaded()
        memories = [self._held[name] for name in sorted(self._held)]
        await self._note_heads(memories)
        return [NamespaceView(memory.record, memory.stats()) for memory in memories]

    async def delete(self, ref: NamespaceRef) -> None:
        """Delete a namespace everywhere; raise NamespaceNotFoundError where there is none."""
        ref.validate()
        self._require_store()
        async with self._registry_lock:
            record = await self._store.find(ref.name)
            if record is None:
                raise _not_found(ref.name)
            record.check_format()
            await self._store.delete(record)
            self._held.pop(ref.name, None)

    async def reconcile(self) -> None:
        """Hold exactly the namespaces that the store has.

        A store that was emptied is not one whose namespaces were deleted: memory is kept, and the
        namespaces are made known to the store again.
        """
        async with self._registry_lock:
            registry = await self._store.registry()
            if self._store_id not in ("", registry.store_id):
                registry = await self._restore(registry)
            self._store_id, self._changes = registry.store_id, registry.changes
            for name in self._held.keys() - {record.name for record in registry.records}:
                del self._held[name]
            self._refused.clear()
            for record in registry.records:
                self._adopt(record)

    async def store_changed(self) -> bool:
        """Whether the store is another one than at the last reconciliation: it was emptied."""
        return await self._store.identity() != self._store_id

    def cursors(self) -> Cursors:
        """How far memory has come in each log."""
        return Cursors(self._changes, {memory.record: memory.position for memory in self._held.values()})

    async def apply(self, batch: Batch) -> None:
        """Learn what was read from the logs, in small pieces: queries get their turn in between."""
        store_id = self._store_id
        for record, entries in batch.logs.items():
            for entry in entries:
                memory = self._held.get(record.name)
                if memory is None or memory.record != record or self._store_id != store_id:
                    break  # deleted, or the log started anew, while others had their turn
                await self._apply_entry(memory, entry)

    def refusals(self) -> list[NamespaceRecord]:
        """Namespaces in a format that cannot be read."""
        return list(self._refused.values())

    async def _apply_entry(self, memory: NamespaceMemory, entry: LogEntry) -> None:
        store_id = self._store_id
        for num_tokens in memory.insert(entry.sequence) if entry.sequence else ():
            self._num_since_turn += num_tokens
            if self._num_since_turn >= TOKENS_BETWEEN_TURNS:
                self._num_since_turn = 0
                await asyncio.sleep(0)
        if self._store_id == store_id:
            memory.advance(entry)

    async def _gather(self, batch: LearnBatch, item: LearnItem) -> TokenSequence:
        memory = await self._memory_to_learn(item.namespace)
        sequence_id = item.sequence_id or uuid4().hex
        vocab_size = memory.record.vocab_size
        sequence = TokenSequence.checked(sequence_id, item.tokens, item.context_len, vocab_size)
        batch.add(memory.record, sequence)
        return sequence

    async def _append(self, batch: LearnBatch) -> None:
        for record, sequences in batch.sequences.items():
            self._require_store()
            try:
                await self._store.append(record, sequences)
            except NamespaceNotFoundError:
                await self.reconcile()
                await self._append_again(record, sequences)

    async def _append_again(self, record: NamespaceRecord, sequences: list[TokenSequence]) -> None:
        memory = self._held.get(record.name)
        if memory is None:
            raise NamespaceNotFoundError(f"namespace {record.name!r} was deleted while it learned")
        memory.record.check_fingerprint(record.fingerprint)
        await self._store.append(memory.record, sequences)

    async def _memory_to_learn(self, ref: NamespaceRef) -> NamespaceMemory:
        try:
            return self._memory_of(ref)
        except NamespaceNotFoundError:
            self._require_store()
            await self.reconcile()  # another replica may have created it a moment ago
        if ref.name not in self._held and self._options.auto_create:
            if not ref.fingerprint:
                raise InvalidArgumentError(
                    f"namespace {ref.name!r} does not exist, and learning creates it only with a fingerprint"
                )
            await self.create(ref, MAX_VOCAB_SIZE)
        return self._memory_of(ref)

    def _memory_of(self, ref: NamespaceRef) -> NamespaceMemory:
        self._require_loaded()
        memory = self._held.get(ref.name)
        if memory is None:
            ref.validate()
            if ref.name in self._refused:
                self._refused[ref.name].check_format()
            raise _not_found(ref.name)
        memory.record.check_fingerprint(ref.fingerprint)
        return memory

    def _adopt(self, record: NamespaceRecord) -> None:
        if not record.is_readable:
            self._held.pop(record.name, None)
            self._refused[record.name] = record
            return
        held = self._held.get(record.name)
        if held is None or held.record.incarnation != record.incarnation:
            self._held[record.name] = NamespaceMemory(
                record, max_order=self._options.max_order, max_bytes=self._options.max_bytes
            )

    async def _restore(self, registry: Registry) -> Registry:
        """Make held namespaces known to an emptied store; the logs there are new ones."""
        known = {record.name for record in registry.records}
        for memory in self._held.values():
            memory.rewind()
            if memory.record.name not in known:
                await self._store.create(memory.record)
        return await self._store.registry()

    async def _note_heads(self, memories: list[NamespaceMemory]) -> None:
        """Ask the store how long the logs are; without it the last answer stands."""
        if self._state is ServingState.DEGRADED:
            return
        try:
            stored = await self._store.stored([memory.record for memory in memories])
        except StoreUnavailableError:
            return
        for memory, kept in zip(memories, stored, strict=True):
            memory.note_head(kept.head)

    def _require_loaded(self) -> None:
        if self._state is ServingState.LOADING:
            raise NotReadyError("the replica is still loading: try again, or ask another one")

    def _require_store(self) -> None:
        self._require_loaded()
        if self._state is ServingState.DEGRADED:
            raise StoreUnavailableError(f"store {self._store.description} is out of reach: try again later")


def _not_found(name: str) -> NamespaceNotFoundError:
    return NamespaceNotFoundError(f"namespace {name!r} does not exist")
