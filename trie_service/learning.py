"""Learning and forgetting: into the system of record, from where memory takes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from trie_service.errors import (
    InvalidArgumentError,
    NamespaceNotFoundError,
    NodeUnavailableError,
    SequenceNotFoundError,
    StoreFullError,
)
from trie_service.limits import LearningRates
from trie_service.log_reader import LogReader
from trie_service.memory import NamespaceMemory
from trie_service.namespace import MAX_VOCAB_SIZE, NamespaceRecord, NamespaceRef
from trie_service.namespaces import Namespaces
from trie_service.sequence import Forgotten, TokenArray, TokenSequence
from trie_service.serving import Serving
from trie_service.store import Store

MAX_BATCH_SEQUENCES = 256
MAX_BATCH_TOKENS = 1 << 18


@dataclass(frozen=True, slots=True)
class LearnItem:
    """One sequence as a caller sends it."""

    namespace: NamespaceRef
    sequence_id: str
    tokens: TokenArray  # [len]
    context_len: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is in the system of record now."""

    num_sequences: int = 0
    num_tokens: int = 0  # context not counted


@dataclass(slots=True)
class LearnBatch:
    """Sequences on their way to the store, by namespace."""

    sequences: dict[NamespaceRecord, list[TokenSequence]] = field(default_factory=dict)
    num_sequences: int = 0
    num_tokens: int = 0

    def add(self, record: NamespaceRecord, sequence: TokenSequence) -> None:
        """Take one more sequence."""
        self.sequences.setdefault(record, []).append(sequence)
        self.num_sequences += 1
        self.num_tokens += len(sequence.tokens)

    @property
    def is_full(self) -> bool:
        """Whether it should be written before more is taken."""
        return self.num_sequences >= MAX_BATCH_SEQUENCES or self.num_tokens >= MAX_BATCH_TOKENS


@dataclass(frozen=True, slots=True)
class Learner:
    """Puts sequences, and the names of those to forget, into the logs."""

    store: Store
    namespaces: Namespaces
    reader: LogReader
    rates: LearningRates
    serving: Serving
    auto_create: bool

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

    async def forget(self, ref: NamespaceRef, sequence_id: str) -> int:
        """Take back what a sequence taught; return its tokens that were held.

        Raises SequenceNotFoundError where none of that name is held.
        """
        record = self.namespaces.memory_of(ref).record
        self.serving.require_store()
        memory = await self.reader.until_caught_up(record)
        num_tokens = memory.text.num_tokens_of(sequence_id)
        if not memory.text.holds(sequence_id):
            raise SequenceNotFoundError(f"namespace {ref.name!r} holds no sequence {sequence_id!r}")
        await self._write(record, [Forgotten(sequence_id)])
        await self.reader.until_caught_up(record)
        return num_tokens

    async def _gather(self, batch: LearnBatch, item: LearnItem) -> TokenSequence:
        memory = await self._memory_to_learn(item.namespace)
        sequence_id = item.sequence_id or uuid4().hex
        vocab_size = memory.record.vocab_size
        sequence = TokenSequence.checked(sequence_id, item.tokens, item.context_len, vocab_size)
        batch.add(memory.record, sequence)
        return sequence

    async def _append(self, batch: LearnBatch) -> None:
        """Write what is there; namespaces whose node of the store is lost hold up no others."""
        lost: NodeUnavailableError | None = None
        for record, sequences in batch.sequences.items():
            self.serving.require_store()
            try:
                await self._append_admitted(record, sequences)
            except NodeUnavailableError as error:
                lost = error
        if lost is not None:
            raise lost

    async def _append_admitted(self, record: NamespaceRecord, sequences: Sequence[TokenSequence]) -> None:
        num_tokens = sum(each.num_learned for each in sequences)
        self.rates.admit(self._newest(record), num_tokens)
        num_new = 0
        try:
            num_new = await self._append_to(record, sequences)
        finally:  # a call that is repeated would get nowhere if what the log has already counted again
            self.rates.give_back(record, num_tokens - num_new)

    def _newest(self, record: NamespaceRecord) -> NamespaceRecord:
        """The record with the limits of now."""
        memory = self.namespaces.find(record)
        return record if memory is None else memory.record

    async def _append_to(self, record: NamespaceRecord, sequences: Sequence[TokenSequence]) -> int:
        try:
            return await self._write(record, sequences)
        except NamespaceNotFoundError:
            await self.namespaces.reconcile()
            return await self._append_again(record, sequences)

    async def _write(self, record: NamespaceRecord, items: Sequence[TokenSequence | Forgotten]) -> int:
        try:
            num_new = await self.store.append(record, items)
        except StoreFullError:
            self.serving.note_room(self.store.place_of(record), is_full=True)
            raise
        self.serving.note_room(self.store.place_of(record), is_full=False)
        return num_new

    async def _append_again(self, gone: NamespaceRecord, sequences: Sequence[TokenSequence]) -> int:
        """Learn into the namespace that took the place of a deleted one, if the tokens mean the same there."""
        try:
            record = self.namespaces.memory_of(NamespaceRef(gone.name)).record
        except NamespaceNotFoundError as error:
            raise NamespaceNotFoundError(f"namespace {gone.name!r} was deleted while it learned") from error
        record.check_fingerprint(gone.fingerprint)
        for sequence in sequences:
            sequence.check_vocabulary(record.vocab_size)
        return await self._write(record, sequences)

    async def _memory_to_learn(self, ref: NamespaceRef) -> NamespaceMemory:
        try:
            return self.namespaces.memory_of(ref)
        except NamespaceNotFoundError:
            self.serving.require_store()
            if await self.store.find(ref.name) is not None:  # another replica has created it a moment ago
                await self.namespaces.reconcile()
        try:
            return self.namespaces.memory_of(ref)
        except NamespaceNotFoundError:
            if not self.auto_create:
                raise
        if not ref.fingerprint:
            raise InvalidArgumentError(
                f"namespace {ref.name!r} does not exist, and learning creates it only with a fingerprint"
            )
        await self.namespaces.create(NamespaceRecord.new(ref, MAX_VOCAB_SIZE))
        return self.namespaces.memory_of(ref)
