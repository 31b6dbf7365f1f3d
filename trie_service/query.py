"""A question to the index: what may follow this context, at what cost?"""

from __future__ import annotations

from dataclasses import dataclass

from trie_service.drafting import DraftLimits
from trie_service.errors import InvalidArgumentError
from trie_service.namespace import NamespaceRef
from trie_service.sequence import TokenArray

MAX_DRAFT_NODES = 1024
MAX_DRAFT_DEPTH = 256


@dataclass(frozen=True, slots=True)
class DraftQuery:
    """One context to draft for. A limit of 0 means the server's default."""

    namespace: NamespaceRef
    context: TokenArray  # [len], the newest token last
    max_nodes: int = 0
    min_probability: float = 0.0
    max_depth: int = 0
    shared_namespace: NamespaceRef | None = None  # a second one to look in, of the same fingerprint

    def limits(self, defaults: DraftLimits) -> DraftLimits:
        """The limits to draft under; raise InvalidArgumentError for absurd ones."""
        if self.max_nodes > MAX_DRAFT_NODES:
            raise InvalidArgumentError(f"max_nodes {self.max_nodes} exceeds {MAX_DRAFT_NODES}")
        if self.max_depth > MAX_DRAFT_DEPTH:
            raise InvalidArgumentError(f"max_depth {self.max_depth} exceeds {MAX_DRAFT_DEPTH}")
        if not 0.0 <= self.min_probability <= 1.0:
            raise InvalidArgumentError(f"min_probability {self.min_probability} is not in 0 to 1")
        return DraftLimits(
            max_nodes=self.max_nodes or defaults.max_nodes,
            min_probability=self.min_probability or defaults.min_probability,
            max_depth=self.max_depth or defaults.max_depth,
        )
