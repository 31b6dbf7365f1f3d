"""Applies what is read from the logs to memory, and lets others wait until it is applied."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from trie_service.errors import NamespaceNotFoundError, StoreUnavailableError
from trie_service.memory import NamespaceMemory
from trie_service.namespace import NamespaceRecord
from trie_service.namespaces import Namespaces
from trie_service.store import Batch, LogEntry, Store

WORDS_BETWEEN_TURNS = 512
READ_BACK_TIMEOUT_S = 10.0


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

    async def apply(self, batch: Batch) -> None:
        """Apply entries in small pieces: queries get their turn in between."""
        store_id = self._namespaces.store_id
        for record, entries in batch.logs.items():
            for entry in entries:
                memory = self._namespaces.find(record)
                if memory is None or memory.is_busy or self._namespaces.store_id != store_id:
                    break  # deleted, being copied, or the log started anew, while others had their turn
                if memory.misses(entry):
                    memory = await self._namespaces.refreshed(memory)
                if entry.number > 0 and memory.has_applied(entry.number):
                    memory.pass_over(entry)
                else:
                    await self._apply_entry(memory, entry)
        async with self._applied:
            self._applied.notify_all()

    async def until_caught_up(self, record: NamespaceRecord) -> NamespaceMemory:
        """Wait until memory holds all that is in the log now; return it.

        Raises StoreUnavailableError where it does not come to that in time, and NamespaceNotFoundError for a
        namespace that is gone.
        """
        (stored,) = await self._store.stored([record])
        try:
            async with asyncio.timeout(READ_BACK_TIMEOUT_S), self._applied:
                await self._applied.wait_for(lambda: self._is_settled(record, stored.head))
        except TimeoutError as error:
            raise StoreUnavailableError(
                f"the log of namespace {record.name!r} was not read in {READ_BACK_TIMEOUT_S:.0f} s"
            ) from error
        if (memory := self._namespaces.find(record)) is None:
            raise NamespaceNotFoundError(f"namespace {record.name!r} was deleted")
        return memory

    def _is_settled(self, record: NamespaceRecord, head: int) -> bool:
        memory = self._namespaces.find(record)  # not always the same one: a snapshot may take its place
        return memory is None or memory.has_applied(head)

    async def _apply_entry(self, memory: NamespaceMemory, entry: LogEntry) -> None:
        await self.make_room()
        store_id = self._namespaces.store_id
        async with memory.lock:
            await self._turns.take(memory.apply(entry))
            if self._namespaces.store_id == store_id:
                memory.advance(entry, now_ms())


async def _nothing() -> None:
    pass
