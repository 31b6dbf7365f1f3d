"""Grows a draft tree from the earlier occurrences of a text's newest tokens.

Every occurrence of every suffix votes for the token that followed it. A token's evidence is that of the
suffix length whose estimated acceptance is highest; the tree grows at its likeliest path first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from decoder_service.calibration import COUNT_CELLS, ORDER_CELLS, ORDER_FLOORS, Float32Array
from decoder_service.compiled import compiled
from decoder_service.draft import NUM_OPINIONS
from decoder_service.forest import NO_PARENT, Int32Array

ESCAPE: Final = 10.0
MAX_FOLLOWERS: Final = 64  # different next tokens that are told apart at a node


class OccurrenceIndex(NamedTuple):
    """Chains of the positions that hold the same token, newest first."""

    newest: Int32Array  # [power of two], by token modulo its length; -1: none
    older: Int32Array  # [capacity], the next position of the chain; -1: none


class Limits(NamedTuple):
    """What a draft may cost."""

    max_nodes: int
    max_depth: int
    max_occurrences: int  # the most recent ones of a token that are looked at
    min_probability: float  # of a path


class Tables(NamedTuple):
    """A source's estimates of acceptance, and the cells that evidence falls into."""

    estimates: Float32Array  # [orders, counts, shares]
    order_floors: Int32Array = ORDER_FLOORS
    order_cells: Int32Array = ORDER_CELLS
    count_cells: Int32Array = COUNT_CELLS


class Nodes(NamedTuple):
    """Nodes of the tree, or candidates to be."""

    tokens: Int32Array
    parents: Int32Array  # node of the tree, -1: child of the newest token
    depths: Int32Array  # 1 for a child of the newest token
    orders: Int32Array
    counts: Int32Array
    totals: Int32Array
    probabilities: Float32Array  # of the path
    opinions: Float32Array  # [n, NUM_OPINIONS], by the longest suffix, and by all of them blended


class _Followers(NamedTuple):
    """What followed the matches of one suffix."""

    suffix: Int32Array  # [longest order], newest token first
    tokens: Int32Array  # [MAX_FOLLOWERS]
    counts: Int32Array  # [MAX_FOLLOWERS + 1, orders], the last row is for tokens not told apart
    totals: Int32Array  # [orders]
    shares: Float32Array  # [orders], what a count of each order is worth in the blend


class _Growth(NamedTuple):
    text: Int32Array
    occurrences: OccurrenceIndex
    tables: Tables
    limits: Limits
    tree: Nodes
    frontier: Nodes
    followers: _Followers


@compiled
def link(index: OccurrenceIndex, text: Int32Array, start: int, end: int) -> None:
    """Enter the positions from ``start`` up to ``end``, each of which has a successor."""
    mask = len(index.newest) - 1
    for position in range(start, end):
        chain = text[position] & mask
        index.older[position] = index.newest[chain]
        index.newest[chain] = position


@compiled
def _empty_nodes(capacity: int) -> Nodes:
    return Nodes(
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.float32),
        np.empty((capacity, NUM_OPINIONS), np.float32),
    )


@compiled
def _fill_suffix(growth: _Growth, node: int) -> int:
    """Write the newest tokens of the path to ``node`` and of the text, newest first; return how many."""
    suffix = growth.followers.suffix
    length = 0
    while node >= 0 and length < len(suffix):
        suffix[length] = growth.tree.tokens[node]
        node = growth.tree.parents[node]
        length += 1
    from_text = min(len(suffix) - length, len(growth.text))
    for back in range(from_text):
        suffix[length + back] = growth.text[len(growth.text) - 1 - back]
    return length + from_text


@compiled
def _match_len(text: Int32Array, position: int, suffix: Int32Array, suffix_len: int) -> int:
    """How many tokens up to ``position`` equal the suffix."""
    most = min(position + 1, suffix_len)
    length = 0
    while length < most and text[position - length] == suffix[length]:
        length += 1
    return length


@compiled
def _row_of(tokens: Int32Array, num_tokens: int, token: int) -> int:
    row = 0
    while row < num_tokens and tokens[row] != token:
        row += 1
    return row


@compiled
def _count_followers(growth: _Growth, node: int) -> int:
    """Count what followed each match of the suffix at ``node``; return the number of tokens."""
    followers = growth.followers
    index = growth.occurrences
    suffix_len = _fill_suffix(growth, node)
    followers.counts[:] = 0
    num_tokens = 0
    position = index.newest[followers.suffix[0] & (len(index.newest) - 1)]
    for _ in range(growth.limits.max_occurrences):
        if position < 0:
            break
        length = _match_len(growth.text, position, followers.suffix, suffix_len)
        if length > 0:
            token = growth.text[position + 1]
            row = _row_of(followers.tokens, num_tokens, token)
            if row == num_tokens < MAX_FOLLOWERS:
                followers.tokens[row] = token
                num_tokens += 1
            followers.counts[row, growth.tables.order_cells[length]] += 1
        position = index.older[position]
    _accumulate(followers)
    _share_out(followers, growth.tables.order_floors)
    return num_tokens


@compiled
def _accumulate(followers: _Followers) -> None:
    """Let a match of some length count for all shorter ones too."""
    counts = followers.counts
    for cell in range(counts.shape[1] - 2, -1, -1):
        counts[:, cell] += counts[:, cell + 1]
    followers.totals[:] = counts.sum(0)


@compiled
def _share_out(followers: _Followers, order_floors: Int32Array) -> None:
    """Share belief out among the orders, longest first, as the trie service does (PPM with escapes).

    An order takes total / (total + escape) of the belief that the longer ones left; its escape mass is
    ESCAPE / order for each different follower. An order that saw only what a longer one saw is passed over.
    """
    belief = 1.0
    seen = 0
    followers.shares[:] = 0.0
    for cell in range(len(order_floors) - 1, -1, -1):
        total = followers.totals[cell]
        if total == seen:
            continue
        seen = total
        escape = ESCAPE / order_floors[cell] * np.count_nonzero(followers.counts[:, cell])
        followers.shares[cell] = belief / (total + escape)
        belief *= escape / (total + escape)


@compiled
def _weigh(growth: _Growth, row: int, candidate: int) -> float:
    """Give a candidate its best evidence; return its estimated acceptance."""
    counts = growth.followers.counts
    tables = growth.tables
    best = estimate = blend = 0.0
    for cell in range(counts.shape[1]):
        count = counts[row, cell]
        if count == 0:
            break
        total = growth.followers.totals[cell]
        blend += growth.followers.shares[cell] * count
        count_cell = tables.count_cells[min(count, len(tables.count_cells) - 1)]
        share_cell = (tables.estimates.shape[2] - 1) * count // total
        estimate = tables.estimates[cell, count_cell, share_cell]
        if estimate >= best:
            best = estimate
            growth.frontier.orders[candidate] = tables.order_floors[cell]
            growth.frontier.counts[candidate] = count
            growth.frontier.totals[candidate] = total
    growth.frontier.opinions[candidate, 0] = estimate
    growth.frontier.opinions[candidate, 1] = blend
    return best


@compiled
def _expand(growth: _Growth, node: int, num_candidates: int) -> int:
    """Add what may follow ``node`` (-1: the newest token) to the frontier; return its new length."""
    depth = growth.tree.depths[node] if node >= 0 else 0
    if depth == growth.limits.max_depth:
        return num_candidates
    probability = growth.tree.probabilities[node] if node >= 0 else 1.0
    frontier = growth.frontier
    for row in range(_count_followers(growth, node)):
        path_probability = probability * _weigh(growth, row, num_candidates)
        if path_probability >= growth.limits.min_probability:
            frontier.tokens[num_candidates] = growth.followers.tokens[row]
            frontier.parents[num_candidates] = node
            frontier.depths[num_candidates] = depth + 1
            frontier.probabilities[num_candidates] = path_probability
            num_candidates += 1
    return num_candidates


@compiled
def _adopt(growth: _Growth, candidate: int, node: int) -> None:
    """Make a candidate a node of the tree."""
    tree, frontier = growth.tree, growth.frontier
    tree.tokens[node] = frontier.tokens[candidate]
    tree.parents[node] = frontier.parents[candidate]
    tree.depths[node] = frontier.depths[candidate]
    tree.orders[node] = frontier.orders[candidate]
    tree.counts[node] = frontier.counts[candidate]
    tree.totals[node] = frontier.totals[candidate]
    tree.opinions[node] = frontier.opinions[candidate]
    tree.probabilities[node] = frontier.probabilities[candidate]
    frontier.probabilities[candidate] = -1.0


@compiled
def grow(text: Int32Array, index: OccurrenceIndex, tables: Tables, limits: Limits) -> tuple[Nodes, int]:
    """The likeliest continuations of ``text`` as nodes, parents first, and the number of them."""
    growth = _Growth(
        text,
        index,
        tables,
        limits,
        _empty_nodes(limits.max_nodes),
        _empty_nodes(MAX_FOLLOWERS * (limits.max_nodes + 1) + 1),
        _Followers(
            np.empty(len(tables.order_cells) - 1, np.int32),
            np.empty(MAX_FOLLOWERS, np.int32),
            np.empty((MAX_FOLLOWERS + 1, len(tables.order_floors)), np.int32),
            np.empty(len(tables.order_floors), np.int32),
            np.empty(len(tables.order_floors), np.float32),
        ),
    )
    num_candidates = _expand(growth, NO_PARENT, 0)
    for node in range(limits.max_nodes):
        if num_candidates == 0:
            return growth.tree, node
        candidate = int(np.argmax(growth.frontier.probabilities[:num_candidates]))
        if growth.frontier.probabilities[candidate] < 0:
            return growth.tree, node
        _adopt(growth, candidate, node)
        num_candidates = _expand(growth, node, num_candidates)
    return growth.tree, limits.max_nodes
