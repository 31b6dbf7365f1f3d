"""What one replica holds of one namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from trie_service.drafting import Draft, DraftLimits, draft_batch
from trie_service.held_text import HeldText
from trie_service.ledger import Int64Array
from trie_service.namespace import NamespaceLimits, NamespaceRecord
from trie_service.sequence import Int32Array, TokenArray, TokenSequence, checked_tokens
from trie_service.snapshot import Snapshot
from trie_service.store import START, LogEntry, Stored
from trie_service.top_drafts import MAX_PATH_LEN, TopDraft, TopDrafts, follows

MANY_WORDS: Final = 500_000  # take a tenth of a second to copy
TOP_LIMITS: Final = DraftLimits(max_nodes=64, max_depth=MAX_PATH_LEN)


@dataclass(frozen=True, slots=True)
class NamespaceStats:
    """What a replica holds of a namespace, and what it did with it."""

    num_sequences: int
    num_tokens: int
    num_nodes: int
    num_bytes: int
    num_lookups: int
    num_hits: int
    num_drafted_nodes: int
    num_pending: int
    num_evicted_tokens: int
    num_forgotten_sequences: int
    replication_lag_s: float
    snapshot_age_s: float | None  # None: there is no snapshot
    snapshot_bytes: int
    log_bytes: int


@dataclass(slots=True)
class LearnedCounters:
    """Counters of what was learned; they go with the text into a snapshot."""

    num_sequences: int = 0
    num_tokens: int = 0
    num_forgotten_sequences: int = 0
    num_forgotten_tokens: int = 0


class NamespaceMemory:
    """Text, the place in the log up to which it is complete, and counters.

    Whoever changes or copies the text holds ``lock``; drafts need none.
    """

    def __init__(self, record: NamespaceRecord, limits: NamespaceLimits, *, max_order: int) -> None:
        self.record = record
        self.limits = limits
        self.position = START
        self.lock = asyncio.Lock()
        self.is_partial = False  # text was lost with a damaged snapshot
        self.is_out_of_reach = False  # it is kept where nobody answers: it learns nothing
        self.is_ahead = False  # it may hold text that the store has lost since
        self.text = HeldText(max_order=max_order, max_bytes=limits.max_bytes)
        self.lookups_by_order = [0] * (max_order + 1)  # [longest match]
        self._max_order = max_order
        self._num_long_copies = 0
        self._applied = 0  # number of the newest applied entry
        self._stored = Stored()
        self._lag_s = 0.0
        self._learned = LearnedCounters()
        self._num_drafted_nodes = 0
        self._top = TopDrafts()

    @classmethod
    async def restored(
        cls, record: NamespaceRecord, limits: NamespaceLimits, snapshot: Snapshot, *, max_order: int
    ) -> NamespaceMemory:
        """What a snapshot holds; raise ValueError for one that makes no sense."""
        memory = cls(record, limits, max_order=max_order)
        memory.position, memory._applied = snapshot.position, snapshot.number
        memory.text = await asyncio.to_thread(
            HeldText.from_arrays, snapshot.arrays, max_order=max_order, max_bytes=limits.max_bytes
        )
        learned = {name: int(snapshot.extra.get(name, 0)) for name in asdict(LearnedCounters())}
        memory._learned = LearnedCounters(**learned)
        memory.text.num_learned_tokens = memory._learned.num_tokens
        memory.text.num_forgotten_tokens = memory._learned.num_forgotten_tokens
        return memory

    @property
    def is_busy(self) -> bool:
        """Whether its log is not to be read for now."""
        return self._num_long_copies > 0

    async def snapshot(self) -> Snapshot:
        """Copy all that is held; learning waits meanwhile, drafts do not."""
        async with self._held_still():
            arrays = await asyncio.to_thread(self.text.to_arrays)
            return Snapshot(self.position, self._applied, arrays, asdict(self._counted()))

    async def words(self) -> tuple[Int32Array, Int64Array]:
        """Copy the text held, as ``HeldText.words`` does; learning waits meanwhile, drafts do not."""
        async with self._held_still():
            return await asyncio.to_thread(self.text.words)

    async def digest(self) -> tuple[str, int]:
        """A digest of the text, and the number of the entry up to which it is complete."""
        async with self._held_still():
            return await asyncio.to_thread(self.text.digest), self._applied

    async def resize(self, max_bytes: int) -> None:
        """Change the bytes that the text may take: it is learned anew, the newest of it that fits.

        About a second a million tokens; learning waits meanwhile, drafts do not.
        """
        async with self._held_still():
            if self.text.max_bytes != max_bytes:
                self.text = await asyncio.to_thread(self.text.resized, max_bytes)

    def apply(self, entry: LogEntry) -> Iterator[int]:
        """Learn or forget what an entry of the log says, piece by piece; yield the words of each."""
        if entry.sequence is not None:
            yield from self._insert(entry.sequence, entry.appended_ms)
        elif entry.forgotten is not None:
            self._learned.num_forgotten_sequences += self.text.holds(entry.forgotten)
            yield from self.text.forget(entry.forgotten)

    def advance(self, entry: LogEntry, now_ms: int) -> None:
        """Memory is complete up to this entry of the log."""
        self.position = entry.position
        self._applied = entry.number or self._applied
        self._lag_s = max(0, now_ms - entry.appended_ms) / 1000

    def expire(self, now_ms: int) -> Iterator[int]:
        """Let go of text that is older than it may be, piece by piece; yield the words of each."""
        if self.limits.text_ttl_s:
            yield from self.text.expire(now_ms - 1000 * self.limits.text_ttl_s)

    async def rewind(self, stored: Stored) -> None:
        """Read the log again behind what its snapshot holds: other entries may be there now."""
        async with self.lock:
            self.position, self._applied = stored.snapshot_position, stored.snapshot_number
            self._stored = stored

    def note_stored(self, stored: Stored) -> None:
        """Take note of what the store holds of the namespace; where nobody answers the last word stands."""
        self.is_out_of_reach = stored.is_out_of_reach
        if not stored.is_out_of_reach:
            self._stored = stored

    def misses(self, entry: LogEntry) -> bool:
        """Whether entries before this one were trimmed away unread."""
        return not self.is_ahead and entry.number > self._applied + 1

    def meets_again(self, entry: LogEntry) -> bool:
        """Whether the number of an entry behind all that was read was another one's: the log lost its end.

        Memory that is known to be ahead takes every entry as it comes, and learns what it holds no second time.
        """
        return not self.is_ahead and 0 < entry.number <= self._applied

    def lags_behind_snapshot(self, stored: Stored) -> bool:
        """Whether the stored snapshot holds entries that memory has not applied."""
        return not (self.is_ahead or self.is_partial) and stored.snapshot_number > self._applied

    def is_ahead_of(self, other: NamespaceMemory) -> bool:
        """Whether this one has more of the log."""
        return self._applied > other._applied

    def take_over_use(self, other: NamespaceMemory) -> None:
        """Go on counting where another memory of the namespace stopped."""
        self.lookups_by_order = other.lookups_by_order
        self._num_drafted_nodes, self._top = other._num_drafted_nodes, other._top

    @property
    def num_applied(self) -> int:
        """Number of the newest applied entry of the log."""
        return self._applied

    def newest(self, context: TokenArray) -> Int32Array:
        """What of a context can be matched; raise InvalidArgumentError for a token not in the vocabulary."""
        return checked_tokens(context[-self._max_order :], self.record.vocab_size)

    def draft(self, contexts: Sequence[Int32Array], limits: Sequence[DraftLimits]) -> list[Draft]:
        """Draft what follows each context, as ``newest`` gives it, under its own limits."""
        drafts = draft_batch(self.text.trie, contexts, limits)
        for context, found in zip(contexts, drafts, strict=True):
            self.lookups_by_order[int(found.orders[0]) if len(found) else 0] += 1
            self._num_drafted_nodes += len(found)
            self._top.note(context, found)
        return drafts

    def top_drafts(self, limit: int) -> list[TopDraft]:
        """What is drafted most, as far as it is still held."""
        found: list[TopDraft] = []
        for entry in self._top.most():
            if len(found) == limit:
                break
            if (held := self._still_held(entry)) is not None:
                found.append(held)
        return found

    def stats(self) -> NamespaceStats:
        """The figures as they are now."""
        learned, stored = self._counted(), self._stored
        return NamespaceStats(
            num_sequences=learned.num_sequences,
            num_tokens=learned.num_tokens,
            num_nodes=self.text.trie.num_nodes,
            num_bytes=self.text.num_bytes,
            num_lookups=sum(self.lookups_by_order),
            num_hits=sum(self.lookups_by_order[1:]),
            num_drafted_nodes=self._num_drafted_nodes,
            num_pending=max(0, stored.head - self._applied),
            num_evicted_tokens=self.text.num_evicted_tokens,
            num_forgotten_sequences=learned.num_forgotten_sequences,
            replication_lag_s=self._lag_s,
            snapshot_age_s=(stored.now_ms - stored.snapshot_ms) / 1000 if stored.snapshot_ms else None,
            snapshot_bytes=stored.snapshot_bytes,
            log_bytes=stored.log_bytes,
        )

    @asynccontextmanager
    async def _held_still(self) -> AsyncIterator[None]:
        """Nothing is learned meanwhile. While that may last, the logs of other namespaces are read on."""
        is_long = self.text.trie.num_words > MANY_WORDS
        self._num_long_copies += is_long
        try:
            async with self.lock:
                yield
        finally:
            self._num_long_copies -= is_long

    def _insert(self, sequence: TokenSequence, appended_ms: int) -> Iterator[int]:
        is_new = not self.text.holds(sequence.sequence_id)
        yield from self.text.insert(sequence, appended_ms)
        self._learned.num_sequences += is_new

    def _counted(self) -> LearnedCounters:
        self._learned.num_tokens = self.text.num_learned_tokens
        self._learned.num_forgotten_tokens = self.text.num_forgotten_tokens
        return self._learned

    def _still_held(self, entry: TopDraft) -> TopDraft | None:
        """The part of a counted draft that would be drafted today: what was forgotten is never shown."""
        context = np.array(entry.context, dtype=np.int32)
        (again,) = draft_batch(self.text.trie, [context], [TOP_LIMITS])
        num_held = follows(again, entry.tokens)
        if num_held == 0 or int(again.orders[0]) < len(entry.context):
            return None
        return TopDraft(entry.context, entry.tokens[:num_held], entry.num_drafts)
