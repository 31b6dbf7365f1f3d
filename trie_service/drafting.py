"""Draft trees: what may follow a context, according to a trie.

Best-first: of all nodes that could hang under the tree so far, the likeliest joins it, until the budget is
spent or no path is likely enough. A node's candidates come from every suffix of its path that matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trie_service.compiled import compiled, compiled_with_arrays
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

# Rows of a draft.
_TOKEN: Final = 0
PARENT_ROW: Final = 1
_ORDER: Final = 2
_COUNT: Final = 3
_TOTAL: Final = 4
_DEPTH: Final = 5
_PROBABILITY: Final = 6  # the bits of a float32
NUM_ROWS: Final = 7


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

    rows: Int32Array  # [row, n]

    def __len__(self) -> int:
        num_nodes: int = self.rows.shape[1]
        return num_nodes

    @property
    def tokens(self) -> Int32Array:  # [n]
        """The tokens."""
        return self._row(_TOKEN)

    @property
    def parents(self) -> Int32Array:  # [n]
        """The node above each; -1 for children of the context."""
        return self._row(PARENT_ROW)

    @property
    def orders(self) -> Int32Array:  # [n]
        """Length of the longest suffix that the token followed."""
        return self._row(_ORDER)

    @property
    def counts(self) -> Int32Array:  # [n]
        """How often the token followed it."""
        return self._row(_COUNT)

    @property
    def totals(self) -> Int32Array:  # [n]
        """How often anything followed it."""
        return self._row(_TOTAL)

    @property
    def probabilities(self) -> npt.NDArray[np.float32]:  # [n]
        """Estimates that the text takes the path down to the node."""
        return self._row(_PROBABILITY).view(np.float32)

    def _row(self, row: int) -> Int32Array:
        values: Int32Array = self.rows[row]
        return values


def draft(trie: Trie, context: Int32Array, limits: DraftLimits) -> Draft:
    """The likeliest continuations of ``context`` (oldest token first) that the trie has learned."""
    newest = np.ascontiguousarray(context[-trie.max_order :], dtype=np.int32)
    rows = np.empty((NUM_ROWS, limits.max_nodes), dtype=np.int32)
    size = _draft_into(
        *trie.arrays,
        newest,
        escape_strengths(trie.max_order),
        rows,
        limits.min_probability,
        limits.max_depth,
    )
    return Draft(rows[:, :size])


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
    rows = np.empty((NUM_ROWS, int(max_nodes.sum())), dtype=np.int32)
    text = np.concatenate(newest) if newest else np.empty(0)
    draft_ends = np.empty(len(newest), dtype=np.int64)
    _grow_drafts(
        trie.arrays,
        _Texts(text.astype(np.int32, copy=False), ends),
        escape_strengths(max_order),
        _Trees(rows, starts, draft_ends),
        (max_nodes, least, depths),
    )
    return [
        Draft(rows[:, start:end]) for start, end in zip(starts.tolist(), draft_ends.tolist(), strict=True)
    ]


class _Texts(NamedTuple):
    tokens: Int32Array  # [token], of one text after another
    ends: npt.NDArray[np.int64]  # [text]


class _Trees(NamedTuple):
    rows: Int32Array  # [row, node], of one tree after another
    starts: npt.NDArray[np.int64]  # [tree]
    ends: npt.NDArray[np.int64]  # [tree], to be filled in


@compiled
def _draft_into(  # noqa: PLR0913, PLR0917 - to pass plain arrays takes Numba half as long as a tuple of them
    entries: Int32Array,
    lists: Int32Array,
    notes: Int32Array,
    buckets: Int32Array,
    ring: Int32Array,
    state: Int64Array,
    context: Int32Array,
    strengths: Float64Array,
    rows: Int32Array,
    min_probability: float,
    max_depth: int,
) -> int:
    arrays = TrieArrays(entries, lists, notes, buckets, ring, state)
    return _grow_draft(arrays, context, strengths, rows, (min_probability, max_depth))


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
        rows = trees.rows[:, start : start + max_nodes[index]]
        text = texts.tokens[text_start : texts.ends[index]]
        one = (min_probabilities[index], max_depths[index])
        trees.ends[index] = start + _grow_draft(arrays, text, strengths, rows, one)
        text_start = texts.ends[index]


@compiled_with_arrays
def _grow_draft(
    arrays: TrieArrays,
    context: Int32Array,
    strengths: Float64Array,
    rows: Int32Array,
    limits: tuple[float, int],
) -> int:
    """Fill in the rows best-first and return its number of nodes."""
    min_probability, max_depth = limits
    max_nodes: int = rows.shape[1]
    probabilities = rows[_PROBABILITY].view(np.float32)
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
        if parent == NONE or rows[_DEPTH, parent] < max_depth:
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
        _add_node(rows, node, best)
        probabilities[node] = path_probability
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
def _add_node(rows: Int32Array, node: int, candidate: Int32Array) -> None:
    parent = candidate[CANDIDATE_PARENT]
    rows[_TOKEN, node] = candidate[CANDIDATE_TOKEN]
    rows[PARENT_ROW, node] = parent
    rows[_ORDER, node] = candidate[ORDER]
    rows[_COUNT, node] = candidate[FOLLOWED]
    rows[_TOTAL, node] = candidate[FOLLOWERS_TOTAL]
    rows[_DEPTH, node] = 1 if parent == NONE else rows[_DEPTH, parent] + 1
