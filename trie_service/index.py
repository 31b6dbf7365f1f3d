"""The index of one replica: what it is made of. Used from one event loop.

Drafts come from memory alone. What is learned goes to the store; memory changes only by ``follow.py``
reading it back, the same way at every replica.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from trie_service.drafter import Drafter
from trie_service.learning import Learner
from trie_service.limits import LearningRates
from trie_service.log_reader import LogReader, now_ms
from trie_service.moving import Mover
from trie_service.namespace import NamespaceRef
from trie_service.namespaces import Namespaces
from trie_service.options import IndexOptions
from trie_service.serving import Serving
from trie_service.snapshot_writer import SnapshotWriter
from trie_service.store import Store
from trie_service.top_drafts import TopDraft
from trie_service.upkeep import Upkeep
from trie_service.verifying import Verifier

DEFAULT_TOP_DRAFTS: Final = 20


class DraftIndex:
    """All namespaces of one replica."""

    def __init__(self, store: Store, options: IndexOptions, clock_ms: Callable[[], int] = now_ms) -> None:
        self._options = options
        self.store_description = store.description
        self.serving = Serving(store.description)
        self.namespaces = Namespaces(store, options, self.serving)
        self.drafter = Drafter(self.namespaces, options.default_limits)
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

    def top_drafts(self, ref: NamespaceRef, limit: int) -> list[TopDraft]:
        """What is drafted most from a namespace, the most frequent first."""
        return self.namespaces.memory_of(ref).top_drafts(limit or DEFAULT_TOP_DRAFTS)
