"""Two drafts of one context as one tree: the tenant's own, and one from a shared corpus.

A path that both hold keeps the evidence of the likelier one. Of all nodes the likeliest stay, and since no
node is likelier than its parent in any of the trees, parents stay with their children.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trie_service.drafting import NUM_ROWS, PARENT_ROW, Draft
from trie_service.sequence import Int32Array

OWN: Final = 0
SHARED: Final = 1
ROOT: Final = -1


@dataclass(frozen=True, slots=True)
class SourcedDraft:
    """A draft, and for each node where its evidence is from."""

    draft: Draft
    origins: Int32Array  # [n], OWN or SHARED

    @classmethod
    def of_own(cls, draft: Draft) -> SourcedDraft:
        """A draft of which all is the namespace's own."""
        return cls(draft, np.zeros(len(draft), dtype=np.int32))


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of one of the trees."""

    origin: int
    index: int
    probability: float


def united(own: Draft, shared: Draft, max_nodes: int) -> SourcedDraft:
    """The ``max_nodes`` likeliest nodes of both trees, parents before children."""
    best: dict[tuple[int, ...], _Node] = {}
    for origin, tree in ((OWN, own), (SHARED, shared)):
        for index, path in enumerate(_paths(tree)):
            node = _Node(origin, index, float(tree.probabilities[index]))
            if path not in best or best[path].probability < node.probability:
                best[path] = node
    chosen = sorted(best, key=lambda path: (-best[path].probability, len(path)))[:max_nodes]
    return _tree((own, shared), chosen, best)


def _paths(draft: Draft) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(draft.tokens.tolist(), draft.parents.tolist(), strict=True):
        paths.append((*(paths[parent] if parent != ROOT else ()), token))
    return paths


def _tree(
    trees: tuple[Draft, Draft], chosen: list[tuple[int, ...]], best: dict[tuple[int, ...], _Node]
) -> SourcedDraft:
    place = {path: index for index, path in enumerate(chosen)} | {(): ROOT}
    sources = [(trees[best[path].origin], best[path].index) for path in chosen]
    rows = np.empty((NUM_ROWS, len(chosen)), dtype=np.int32)
    for node, (tree, index) in enumerate(sources):
        rows[:, node] = tree.rows[:, index]
    rows[PARENT_ROW] = [place[path[:-1]] for path in chosen]
    origins = np.array([best[path].origin for path in chosen], dtype=np.int32)
    return SourcedDraft(Draft(rows), origins)
