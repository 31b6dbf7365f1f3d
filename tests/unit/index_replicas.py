"""Replicas in one process over a store in memory, for tests of the index's verbs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import numpy as np

from trie_service.drafting import DraftLimits
from trie_service.errors import StoreUnavailableError
from trie_service.follow import Follower
from trie_service.index import DraftIndex
from trie_service.learning import LearnItem, Receipt
from trie_service.limits import ServiceLimits
from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceRef
from trie_service.options import IndexOptions
from trie_service.query import DraftQuery
from trie_service.serving import ServingState
from trie_service.store import Batch, Cursors, LogEntry

OPTIONS = IndexOptions(
    max_order=8,
    limits=ServiceLimits(max_bytes=1 << 20),
    auto_create=True,
    default_limits=DraftLimits(max_nodes=8),
)
CHAT = NamespaceRef("chat", "fp")


class BreakableStore(MemoryStore):
    """A store that can be out of reach, or be emptied."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False

    def empty(self) -> None:
        """Lose everything."""
        MemoryStore.__init__(self)

    def lose_newest(self, name: str, num_entries: int) -> None:
        """Lose the newest entries of a log, as if they had not reached the disk."""
        namespace = self._namespaces[name]
        for entry in namespace.log[-num_entries:]:
            assert entry.sequence is not None
            namespace.recent_ids.pop(entry.sequence.sequence_id)
        del namespace.log[-num_entries:]
        namespace.num_appended -= num_entries

    def slip_in(self, name: str, entry: LogEntry) -> None:
        """Put a foreign entry into a log."""
        self._namespaces[name].log.append(entry)

    def lose(self, name: str) -> None:
        """Lose a namespace, as if its creation had not reached the disk."""
        del self._namespaces[name]

    async def delete_silently(self, name: str) -> None:
        """Delete a namespace without waking anybody."""
        num_changes = self._num_changes
        await self.delete(self._namespaces[name].record)
        self._num_changes = num_changes

    async def read(self, cursors: Cursors, wait_s: float) -> Batch:
        """Fail where broken."""
        if self.is_broken:
            raise StoreUnavailableError("broken")
        return await super().read(cursors, min(wait_s, 0.01))


@asynccontextmanager
async def replica(store: MemoryStore, options: IndexOptions = OPTIONS) -> AsyncIterator[DraftIndex]:
    index = DraftIndex(store, options)
    follower = Follower(store, index)
    await follower.catch_up()
    index.serving.state = ServingState.SERVING
    tasks = [asyncio.create_task(work) for work in (follower.run(), index.upkeep.run())]
    try:
        yield index
    finally:
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - conditions are plain functions
            await asyncio.sleep(0.001)


async def learn(
    index: DraftIndex,
    *sequences: Sequence[int],
    ref: NamespaceRef = CHAT,
    context_len: int = 0,
    name: str = "",
) -> Receipt:
    async def items() -> AsyncIterator[LearnItem]:
        for tokens in sequences:
            yield LearnItem(ref, name, np.array(tokens, dtype=np.int64), context_len)

    return await index.learner.learn(items())


def draft(index: DraftIndex, *context: int, ref: NamespaceRef = CHAT, max_nodes: int = 0) -> list[int]:
    query = DraftQuery(ref, np.array(context, dtype=np.int64), max_nodes)
    return index.drafter.draft(query).draft.tokens.tolist()
