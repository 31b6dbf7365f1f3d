"""Draft trees: what may follow a context, according to a trie.

Best-first: of all nodes that could hang under the tree so far, the likeliest joins it, until the budget is
spent or no path is likely enough. A node's candidates come from every suffix of its path that matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trie_service.compiled import compiled
from trie_service.draft_prior import (
    CANDIDATE_PARENT,
    CANDIDATE_TOKEN,
    FOLLOWED,
    FOLLOWERS_TOTAL,
    MAX_CANDIDATES,
    NUM_CANDIDATE_COLUMNS,
    ORDER,
    PLACE_CHILD,
    PLACE_NODE,
    PLACE_ORDER,
    Candidates,
    Float64Array,
    escape_strengths,
    estimate_followers,
)
from trie_service.frontier import Frontier, offer
from trie_service.matching import NODE, NODE_ORDER, NUM_MATCH_CELLS, extend_match, match_text
from trie_service.trie import Trie
from trie_service.trie_arrays import NONE, Int32Array, Int64Array, TrieArrays

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
    newest = np.ascontiguousarray(context[-trie.max_order :], dtype=np.int32)
    nodes = np.empty((_NUM_ROWS, limits.max_nodes), dtype=np.int32)
    probabilities = np.empty(limits.max_nodes, dtype=np.float32)
    size = _draft_into(
        *trie.arrays,
        newest,
        escape_strengths(trie.max_order),
        nodes,
        probabilities,
        limits.min_probability,
        limits.max_depth,
    )
    return _draft_of(nodes[:, :size], probabilities[:size])


def draft_batch(trie: Trie, contexts: Sequence[Int32Array], limits: Sequence[DraftLimits]) -> list[Draft]:
    """A draft for each context under its own limits, in one call of compiled code.

    Raises ValueError unless there are as many limits as contexts.
    """
    if len(contexts) != len(limits):
        raise ValueError(f"there are {len(contexts)} contexts, but {len(limits)} limits")
    max_order = trie.max_order
    newest = [context[-max_order:] for context in contexts]
    ends = np.cumsum([len(context) for context in newest])
    max_nodes = np.array([one.max_nodes for one in limits], dtype=np.int64)
    least = np.array([one.min_probability for one in limits], dtype=np.float64)
    depths = np.array([one.max_depth for one in limits], dtype=np.int64)
    starts = np.cumsum(max_nodes) - max_nodes
    nodes = np.empty((_NUM_ROWS, int(max_nodes.sum())), dtype=np.int32)
    probabilities = np.empty(nodes.shape[1], dtype=np.float32)
    text = np.concatenate(newest) if newest else np.empty(0)
    sizes = np.empty(len(newest), dtype=np.int64)
    _grow_drafts(
        trie.arrays,
        _Texts(text.astype(np.int32, copy=False), ends),
        escape_strengths(max_order),
        _Trees(nodes, probabilities, starts, sizes),
        (max_nodes, least, depths),
    )
    return [
        _draft_of(nodes[:, start : start + size], probabilities[start : start + size])
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
    ]


def _draft_of(nodes: Int32Array, probabilities: npt.NDArray[np.float32]) -> Draft:
    tokens, parents, orders, counts, totals, _ = nodes
    return Draft(tokens, parents, orders, counts, totals, probabilities)


class _Texts(NamedTuple):
    tokens: Int32Array  # [token], of one text after another
    ends: npt.NDArray[np.int64]  # [text]


class _Tree(NamedTuple):
    nodes: Int32Array  # [row, node]
    probabilities: npt.NDArray[np.float32]  # [node]


class _Trees(NamedTuple):
    nodes: Int32Array  # [row, node], of one tree after another
    probabilities: npt.NDArray[np.float32]  # [node]
    starts: npt.NDArray[np.int64]  # [tree]
    sizes: npt.NDArray[np.int64]  # [tree], to be filled in


@compiled
def _draft_into(  # noqa: PLR0913, PLR0917 - to pass plain arrays takes Numba half as long as a tuple of them
    entries: Int32Array,
    lists: Int32Array,
    buckets: Int32Array,
    ring: Int32Array,
    state: Int64Array,
    context: Int32Array,
    strengths: Float64Array,
    nodes: Int32Array,
    probabilities: npt.NDArray[np.float32],
    min_probability: float,
    max_depth: int,
) -> int:
    arrays = TrieArrays(entries, lists, buckets, ring, state)
    return _grow_draft(arrays, context, strengths, _Tree(nodes, probabilities), (min_probability, max_depth))


@compiled
def _grow_drafts(
    arrays: TrieArrays,
    texts: _Texts,
    strengths: Float64Array,
    trees: _Trees,
    limits: tuple[npt.NDArray[np.int64], Float64Array, npt.NDArray[np.int64]],
) -> None:
    max_nodes, min_probabilities, max_depths = limits
    text_start = 0
    for index in range(len(trees.starts)):
        start = trees.starts[index]
        end = start + max_nodes[index]
        tree = _Tree(trees.nodes[:, start:end], trees.probabilities[start:end])
        text = texts.tokens[text_start : texts.ends[index]]
        one = (min_probabilities[index], max_depths[index])
        trees.sizes[index] = _grow_draft(arrays, text, strengths, tree, one)
        text_start = texts.ends[index]


@compiled
def _grow_draft(
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
    matches = np.empty((max_nodes + 1, NUM_MATCH_CELLS), dtype=np.int32)  # last: the context's
    num_rows = (max_nodes + 1) * MAX_CANDIDATES
    columns = np.empty((num_rows, NUM_CANDIDATE_COLUMNS), dtype=np.int32)
    shares = np.empty(num_rows, dtype=np.float64)
    frontier = Frontier(np.empty(max_nodes, dtype=np.float64), np.empty(max_nodes, dtype=np.int32))
    match_text(arrays, context, max_order, matches[NONE])
    num_waiting = 0
    num_candidates = 0
    parent = NONE
    path_probability = 1.0
    for node in range(max_nodes):
        if parent == NONE or tree.nodes[_DEPTH, parent] < max_depth:
            fresh = Candidates(columns[num_candidates:], shares[num_candidates:])
            is_full = num_waiting == max_nodes - node
            least = frontier.likelihoods[0] if is_full else 0.0
            num_fresh = estimate_followers(
                arrays, matches[parent], strengths, least / path_probability, fresh
            )
            for candidate in range(num_candidates, num_candidates + num_fresh):
                likelihood = path_probability * shares[candidate]
                if likelihood >= min_probability:
                    columns[candidate, CANDIDATE_PARENT] = parent
                    num_waiting = offer(frontier, num_waiting, max_nodes - node, likelihood, candidate)
            num_candidates += num_fresh
        if num_waiting == 0:
            return node
        num_waiting -= 1
        path_probability = frontier.likelihoods[num_waiting]
        best = columns[frontier.candidates[num_waiting]]
        parent = best[CANDIDATE_PARENT]
        _add_node(tree, node, best, path_probability)
        if node + 1 < max_nodes:
            _match_candidate(arrays, matches[parent], best, max_order, matches[node])
        parent = node
    return max_nodes


@compiled
def _match_candidate(
    arrays: TrieArrays, match: Int32Array, candidate: Int32Array, max_order: int, extended: Int32Array
) -> None:
    node, order, child = candidate[PLACE_NODE], candidate[PLACE_ORDER], candidate[PLACE_CHILD]
    if node == NONE:
        node, order = match[NODE], match[NODE_ORDER]
    extend_match(arrays, match, candidate[CANDIDATE_TOKEN], (node, order, child), max_order, extended)


@compiled
def _add_node(tree: _Tree, node: int, candidate: Int32Array, probability: float) -> None:
    parent = candidate[CANDIDATE_PARENT]
    tree.nodes[_TOKEN, node] = candidate[CANDIDATE_TOKEN]
    tree.nodes[_PARENT, node] = parent
    tree.nodes[_ORDER, node] = candidate[ORDER]
    tree.nodes[_COUNT, node] = candidate[FOLLOWED]
    tree.nodes[_TOTAL, node] = candidate[FOLLOWERS_TOTAL]
    tree.nodes[_DEPTH, node] = 1 if parent == NONE else tree.nodes[_DEPTH, parent] + 1
    tree.probabilities[node] = probability
