"""Draft trees: what may follow a context, according to a trie.

Best-first: of all nodes that could hang under the tree so far, the likeliest joins it, until the budget is
spent or no path is likely enough. A node's candidates come from every suffix of its path that matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trie_service.compiled import compiled
from trie_service.draft_prior import (
    CANDIDATE_TOKEN,
    FOLLOWED,
    FOLLOWERS,
    MAX_CANDIDATES,
    NUM_CANDIDATE_COLUMNS,
    ORDER,
    Candidates,
    Float64Array,
    escape_strengths,
    estimate_followers,
)
from trie_service.matching import FIRST_NODE, extend_match, match_text
from trie_service.trie import Trie
from trie_service.trie_arrays import NONE, Int32Array, TrieArrays

# Rows of a draft under construction.
_TOKEN = 0
_PARENT = 1
_ORDER = 2
_COUNT = 3
_TOTAL = 4
_DEPTH = 5
_NUM_ROWS = 6


@dataclass(frozen=True, slots=True)
class DraftLimits:
    """What a draft may cost. Raises ValueError for limits that make no sense."""

    max_nodes: int
    min_probability: float = 0.0  # least estimated probability of a node's path
    max_depth: int = 40  # 1: single tokens

    def __post_init__(self) -> None:
        if self.max_nodes < 0:
            raise ValueError(f"max_nodes is {self.max_nodes}, but must be at least 0")
        if not 0.0 <= self.min_probability <= 1.0:
            raise ValueError(f"min_probability is {self.min_probability}, but must be 0 to 1")
        if self.max_depth < 1:
            raise ValueError(f"max_depth is {self.max_depth}, but must be at least 1")


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft tree under a context, with each node's evidence. Parents come before children.

    The evidence is that of the longest suffix of context and path that the token followed.
    """

    tokens: Int32Array  # [n]
    parents: Int32Array  # [n], -1: child of the context
    orders: Int32Array  # [n], length of that suffix
    counts: Int32Array  # [n], how often the token followed it
    totals: Int32Array  # [n], how often anything followed it
    probabilities: npt.NDArray[np.float32]  # [n], estimate that the text takes the path down to the node

    def __len__(self) -> int:
        return len(self.tokens)


def draft(trie: Trie, context: Int32Array, limits: DraftLimits) -> Draft:
    """The likeliest continuations of ``context`` (oldest token first) that the trie has learned."""
    newest = np.array(context[-trie.max_order :], dtype=np.int32)
    tree = _Tree(
        nodes=np.empty((_NUM_ROWS, limits.max_nodes), dtype=np.int32),
        probabilities=np.empty(limits.max_nodes, dtype=np.float32),
    )
    strengths = escape_strengths(trie.max_order)
    size = _grow_tree(trie.arrays, newest, strengths, tree, (limits.min_probability, limits.max_depth))
    return Draft(
        tokens=tree.nodes[_TOKEN, :size],
        parents=tree.nodes[_PARENT, :size],
        orders=tree.nodes[_ORDER, :size],
        counts=tree.nodes[_COUNT, :size],
        totals=tree.nodes[_TOTAL, :size],
        probabilities=tree.probabilities[:size],
    )


class _Tree(NamedTuple):
    nodes: Int32Array  # [row, node]
    probabilities: npt.NDArray[np.float32]  # [node]


@compiled
def _grow_tree(
    arrays: TrieArrays,
    context: Int32Array,
    strengths: Float64Array,
    tree: _Tree,
    limits: tuple[float, int],
) -> int:
    """Fill in the tree best-first and return its number of nodes."""
    min_probability, max_depth = limits
    max_nodes: int = tree.nodes.shape[1]
    max_order = len(strengths) - 1
    matches = np.zeros((max_nodes + 1, FIRST_NODE + max_order + 1), dtype=np.int32)  # last: the context's
    evidence = np.empty(((max_nodes + 1) * MAX_CANDIDATES, NUM_CANDIDATE_COLUMNS), dtype=np.int32)
    likelihoods = np.empty(len(evidence), dtype=np.float64)
    parents = np.empty(len(evidence), dtype=np.int32)
    match_text(arrays, context, max_order, matches[NONE])
    heap = [(0.0, 0) for _ in range(0)]
    num_candidates = 0
    parent = NONE
    path_probability = 1.0
    for node in range(max_nodes):
        if parent == NONE or tree.nodes[_DEPTH, parent] < max_depth:
            fresh = Candidates(evidence[num_candidates:], likelihoods[num_candidates:])
            num_fresh = estimate_followers(arrays, matches[parent], strengths, fresh)
            for candidate in range(num_candidates, num_candidates + num_fresh):
                parents[candidate] = parent
                likelihood = path_probability * likelihoods[candidate]
                if likelihood >= min_probability:
                    heappush(heap, (-likelihood, candidate))
            num_candidates += num_fresh
        if len(heap) == 0:
            return node
        negated, best = heappop(heap)
        path_probability = -negated
        _add_node(tree, node, parents[best], evidence[best], path_probability)
        extend_match(arrays, matches[parents[best]], tree.nodes[_TOKEN, node], max_order, matches[node])
        parent = node
    return max_nodes


@compiled
def _add_node(tree: _Tree, node: int, parent: int, evidence: Int32Array, probability: float) -> None:
    tree.nodes[_TOKEN, node] = evidence[CANDIDATE_TOKEN]
    tree.nodes[_PARENT, node] = parent
    tree.nodes[_ORDER, node] = evidence[ORDER]
    tree.nodes[_COUNT, node] = evidence[FOLLOWED]
    tree.nodes[_TOTAL, node] = evidence[FOLLOWERS]
    tree.nodes[_DEPTH, node] = 1 if parent == NONE else tree.nodes[_DEPTH, parent] + 1
    tree.probabilities[node] = probability
