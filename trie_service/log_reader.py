"""Applies what is read from the logs to memory, and lets others wait until it is applied."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from trie_service.errors import NamespaceNotFoundError, NodeUnavailableError, StoreUnavailableError
from trie_service.memory import NamespaceMemory
from trie_service.namespace import NamespaceRecord
from trie_service.namespaces import Namespaces
from trie_service.store import Batch, Cursors, LogEntry, Store

WORDS_BETWEEN_TURNS = 512
STALLED_S = 10.0  # a log of which nothing is read for so long


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Turns:
    """Gives others their turn after so many words of work."""

    def __init__(self) -> None:
        self._num_since_turn = 0

    async def take(self, work: Iterator[int]) -> None:
        """Do work that yields the words it dealt with."""
        for num_words in work:
            self._num_since_turn += num_words
            if self._num_since_turn >= WORDS_BETWEEN_TURNS:
                self._num_since_turn = 0
                await asyncio.sleep(0)


class LogReader:
    """Learns and forgets as the logs say, in their order."""

    def __init__(self, store: Store, namespaces: Namespaces) -> None:
        self._store = store
        self._namespaces = namespaces
        self._turns = Turns()
        self._applied = asyncio.Condition()
        self.make_room: Callable[[], Awaitable[None]] = _nothing  # called before more is learned

    async def apply(self, batch: Batch, cursors: Cursors) -> None:
        """Apply what was read after the cursors in small pieces: queries get their turn in between."""
        for record, entries in batch.logs.items():
            position = cursors.logs[record]
            for entry in entries:
                if not await self._apply_after(position, record, entry):
                    break
                position = entry.position
        async with self._applied:
            self._applied.notify_all()

    async def until_caught_up(self, record: NamespaceRecord) -> NamespaceMemory:
        """Wait until memory holds all that is in the log now, for as long as it is read; return it.

        Raises StoreUnavailableError where nothing is read any more, and NamespaceNotFoundError for a namespace
        that is gone.
        """
        (stored,) = await self._store.stored([record])
        if stored.is_out_of_reach:
            raise NodeUnavailableError(f"namespace {record.name!r} is kept where the store does not answer")
        while (left := self._num_left(record, stored.head)) > 0:
            if not await self._moves_on(record, stored.head, left):
                raise StoreUnavailableError(
                    f"memory of namespace {record.name!r} lacks {left:,} entries of the log, and read none "
                    f"in {STALLED_S:.0f} s: try again later"
                )
        if (memory := self._namespaces.find(record)) is None:
            raise NamespaceNotFoundError(f"namespace {record.name!r} was deleted")
        return memory

    def _num_left(self, record: NamespaceRecord, head: int) -> int:
        """Entries up to the head that memory lacks; none of a namespace that is gone."""
        memory = self._namespaces.find(record)  # not always the same one: a snapshot may take its place
        return 0 if memory is None else max(0, head - memory.num_applied)

    async def _moves_on(self, record: NamespaceRecord, head: int, left: int) -> bool:
        """Whether memory reads on, or may not for now."""
        try:
            async with asyncio.timeout(STALLED_S), self._applied:
                await self._applied.wait_for(lambda: self._num_left(record, head) != left)
        except TimeoutError:
            memory = self._namespaces.find(record)
            return memory is None or memory.is_busy or self._num_left(record, head) != left
        return True

    async def _apply_after(self, position: str, record: NamespaceRecord, entry: LogEntry) -> bool:
        """False where memory is not at that position of the log any more: the rest is to be read anew."""
        memory = self._namespaces.find(record)
        if memory is None or memory.is_busy:
            return False
        if memory.misses(entry):
            await self._namespaces.refresh(memory)
        await self.make_room()
        async with memory.lock:
            if self._namespaces.find(record) is not memory or memory.position != position:
                return False
            if not memory.meets_again(entry):
                await self._turns.take(memory.apply(entry))
                memory.advance(entry, now_ms())
                return True
        await self._namespaces.read_again(memory)
        return False


async def _nothing() -> None:
    pass
