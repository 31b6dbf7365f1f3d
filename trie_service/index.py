"""The index of one replica: what it is made of, and drafting. Used from one event loop.

Drafts come from memory alone. What is learned goes to the store; memory changes only by ``follow.py``
reading it back, the same way at every replica.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from trie_service.draft_union import SourcedDraft, united
from trie_service.errors import FingerprintMismatchError, InvalidArgumentError, TrieServiceError
from trie_service.learning import Learner
from trie_service.limits import LearningRates
from trie_service.log_reader import LogReader, now_ms
from trie_service.memory import NamespaceMemory
from trie_service.moving import Mover
from trie_service.namespace import NamespaceRef
from trie_service.namespaces import Namespaces
from trie_service.options import IndexOptions
from trie_service.query import DraftQuery
from trie_service.serving import Serving
from trie_service.snapshot_writer import SnapshotWriter
from trie_service.store import Store
from trie_service.top_drafts import TopDraft
from trie_service.upkeep import Upkeep
from trie_service.verifying import Verifier

MAX_NODES_PER_MESSAGE: Final = 1 << 16
NODES_BETWEEN_TURNS: Final = 1024  # about a millisecond of work
DEFAULT_TOP_DRAFTS: Final = 20


class DraftIndex:
    """All namespaces of one replica."""

    def __init__(self, store: Store, options: IndexOptions, clock_ms: Callable[[], int] = now_ms) -> None:
        self._options = options
        self.store_description = store.description
        self.serving = Serving(store.description)
        self.namespaces = Namespaces(store, options, self.serving)
        self.reader = LogReader(store, self.namespaces)
        self.mover = Mover(self.namespaces, self.reader, self.serving, options)
        self.verifier = Verifier(store, self.namespaces, self.serving)
        rates = LearningRates(options.limits, time.monotonic)
        self.learner = Learner(store, self.namespaces, self.reader, rates, self.serving, options.auto_create)
        self.upkeep = Upkeep(self.namespaces, options.limits, rates, clock_ms)
        self.reader.make_room = self.upkeep.make_room
        self.snapshots = SnapshotWriter(store, self.namespaces, self.serving, options.snapshots)

    @property
    def max_match_order(self) -> int:
        """Longest suffix that is matched."""
        return self._options.max_order

    def draft(self, query: DraftQuery) -> SourcedDraft:
        """Draft for one context, from memory.

        Raises NamespaceNotFoundError, FingerprintMismatchError, InvalidArgumentError, NotReadyError or
        UnsupportedFormatError.
        """
        memory = self.namespaces.memory_of(query.namespace)
        limits = query.limits(self._options.default_limits)
        shared = self._shared_memory(query, memory)
        own = memory.draft(query.context, limits)
        if shared is None:
            return SourcedDraft.of_own(own)
        return united(own, shared.draft(query.context, limits), limits.max_nodes)

    async def draft_all(self, queries: Sequence[DraftQuery]) -> list[SourcedDraft | TrieServiceError]:
        """Draft for many contexts; a query that fails harms no other. Others get a turn in between.

        Raises InvalidArgumentError where the queries ask for too many nodes together.
        """
        max_nodes = [query.max_nodes or self._options.default_limits.max_nodes for query in queries]
        if sum(max_nodes) > MAX_NODES_PER_MESSAGE:
            raise InvalidArgumentError(
                f"the max_nodes of the queries of a message sum up to {sum(max_nodes)}, "
                f"more than {MAX_NODES_PER_MESSAGE}"
            )
        answers: list[SourcedDraft | TrieServiceError] = []
        num_since_turn = 0
        for query, num_nodes in zip(queries, max_nodes, strict=True):
            if num_since_turn + num_nodes > NODES_BETWEEN_TURNS:
                num_since_turn = 0
                await asyncio.sleep(0)
            num_since_turn += num_nodes
            answers.append(self._answer(query))
        return answers

    def top_drafts(self, ref: NamespaceRef, limit: int) -> list[TopDraft]:
        """What is drafted most from a namespace, the most frequent first."""
        return self.namespaces.memory_of(ref).top_drafts(limit or DEFAULT_TOP_DRAFTS)

    def _answer(self, query: DraftQuery) -> SourcedDraft | TrieServiceError:
        try:
            return self.draft(query)
        except TrieServiceError as error:
            return error

    def _shared_memory(self, query: DraftQuery, own: NamespaceMemory) -> NamespaceMemory | None:
        if query.shared_namespace is None:
            return None
        shared = self.namespaces.memory_of(query.shared_namespace)
        if shared.record.fingerprint != own.record.fingerprint:
            raise FingerprintMismatchError(
                f"shared namespace {shared.record.name!r} has fingerprint {shared.record.fingerprint!r}, "
                f"and namespace {own.record.name!r} has {own.record.fingerprint!r}"
            )
        return shared
