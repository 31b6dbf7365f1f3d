"""How an index drafts and what it may hold."""

from __future__ import annotations

from dataclasses import dataclass

from trie_service.drafting import DraftLimits
from trie_service.limits import ServiceLimits


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The settings of one replica's index."""

    max_order: int  # longest suffix that is matched
    limits: ServiceLimits
    auto_create: bool  # create an unknown namespace on Learn
    default_limits: DraftLimits  # of queries that do not say
