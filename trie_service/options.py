"""How an index drafts and what it may hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from trie_service.drafting import DraftLimits
from trie_service.limits import ServiceLimits
from trie_service.snapshot_policy import SnapshotPolicy


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The settings of one replica's index."""

    max_order: int  # longest suffix that is matched
    limits: ServiceLimits
    auto_create: bool  # create an unknown namespace on Learn
    default_limits: DraftLimits  # of queries that do not say
    snapshots: SnapshotPolicy = field(default_factory=SnapshotPolicy)
