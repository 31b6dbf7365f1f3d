"""The drafts of all sources for one request as one tree: a path that two sources propose is one path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from decoder_service.calibration import Float32Array
from decoder_service.compiled import compiled
from decoder_service.draft import NO_OPINION, NUM_OPINIONS, UNKNOWN_TOKEN, DraftTree
from decoder_service.forest import Int32Array

BoolArray = npt.NDArray[np.bool_]

SILENT: Final = 0
RIVAL: Final = 1
PROPOSES: Final = 2

LEAST_ESTIMATE: Final = 1e-4


class JoinedTree(NamedTuple):
    """Siblings hold different tokens; parents come before children; one column a source."""

    tokens: Int32Array  # [n]
    parents: Int32Array  # [n], -1 or an earlier node
    orders: Int32Array  # [n, sources], match that speaks for the node; 0 where a source does not propose it
    longest_orders: Int32Array  # [n, sources], longest such match of the node and its siblings
    estimates: Float32Array  # [n, sources], acceptance; 0 where a source does not propose the node
    logits: Float32Array  # [n, sources * (1 + opinions)], of estimates and opinions; 0 where there are none
    newest: int  # the token that the tree hangs under, or UNKNOWN_TOKEN
    roles: Int32Array  # [n, sources], SILENT, RIVAL (proposes a sibling only) or PROPOSES


class _Entries(NamedTuple):
    """The nodes of all drafts, one draft after the other."""

    tokens: Int32Array
    parents: Int32Array  # -1 or an earlier entry
    orders: Int32Array
    columns: Int32Array  # of the entry's source
    estimates: Float32Array  # [n, 1 + opinions], by the evidence, then the source's own


def join(
    drafts: Sequence[tuple[int, DraftTree]], estimates: Sequence[Float32Array], num_columns: int
) -> JoinedTree:
    """Join drafts, each given with its column and the estimated acceptance of its nodes."""
    entries = _entries(drafts, estimates)
    nodes_of, tokens, parents = _merge(entries)
    joined = JoinedTree(
        tokens,
        parents,
        orders=np.zeros((len(tokens), num_columns), dtype=np.int32),
        longest_orders=np.zeros((len(tokens), num_columns), dtype=np.int32),
        estimates=np.zeros((len(tokens), num_columns), dtype=np.float32),
        logits=np.zeros((len(tokens), num_columns * (1 + NUM_OPINIONS)), dtype=np.float32),
        newest=max((tree.newest for _, tree in drafts), default=UNKNOWN_TOKEN),
        roles=np.zeros((len(tokens), num_columns), dtype=np.int32),
    )
    _fill(joined, entries, nodes_of)
    return joined


def _entries(drafts: Sequence[tuple[int, DraftTree]], estimates: Sequence[Float32Array]) -> _Entries:
    if not drafts:
        none = np.empty(0, dtype=np.int32)
        return _Entries(none, none, none, none, np.empty((0, 1 + NUM_OPINIONS), dtype=np.float32))
    sizes = [len(tree) for _, tree in drafts]
    starts = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes).astype(np.int32)
    parents = np.concatenate([tree.parents for _, tree in drafts])
    return _Entries(
        tokens=np.concatenate([tree.tokens for _, tree in drafts]),
        parents=np.where(parents < 0, parents, parents + starts),
        orders=np.concatenate([tree.orders for _, tree in drafts]),
        columns=np.repeat(np.array([column for column, _ in drafts], dtype=np.int32), sizes),
        estimates=np.column_stack(
            [np.concatenate(estimates), np.concatenate([_opinions(tree) for _, tree in drafts])]
        ),
    )


def _opinions(tree: DraftTree) -> Float32Array:
    if len(tree.opinions) == len(tree):
        return tree.opinions
    return np.full((len(tree), NUM_OPINIONS), NO_OPINION, dtype=np.float32)


@compiled
def _merge(entries: _Entries) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Give entries of one path one node; return each entry's node, the nodes' tokens and parents."""
    num_entries = len(entries.tokens)
    nodes_of = np.empty(num_entries, np.int32)
    tokens = np.empty(num_entries, np.int32)
    parents = np.empty(num_entries, np.int32)
    num_nodes = 0
    for entry in range(num_entries):
        token = entries.tokens[entry]
        parent = entries.parents[entry]
        if parent >= 0:
            parent = nodes_of[parent]
        node = 0
        while node < num_nodes and (parents[node] != parent or tokens[node] != token):
            node += 1
        if node == num_nodes:
            tokens[node] = token
            parents[node] = parent
            num_nodes += 1
        nodes_of[entry] = node
    return nodes_of, tokens[:num_nodes], parents[:num_nodes]


@compiled
def _fill(joined: JoinedTree, entries: _Entries, nodes_of: Int32Array) -> None:
    num_nodes, num_columns = joined.roles.shape
    num_kinds = entries.estimates.shape[1]
    longest = np.zeros((num_nodes + 1, num_columns), np.int32)  # by parent; the last row is the context's
    proposes = np.zeros((num_nodes + 1, num_columns), np.bool_)  # by parent: any child
    for entry in range(len(nodes_of)):
        node = nodes_of[entry]
        column = entries.columns[entry]
        parent = joined.parents[node]
        for kind in range(num_kinds):
            estimate = min(max(entries.estimates[entry, kind], LEAST_ESTIMATE), 1 - LEAST_ESTIMATE)
            joined.logits[node, column * num_kinds + kind] = np.log(estimate / (1 - estimate))
        joined.estimates[node, column] = max(entries.estimates[entry, 0], LEAST_ESTIMATE)
        joined.orders[node, column] = entries.orders[entry]
        longest[parent, column] = max(longest[parent, column], entries.orders[entry])
        proposes[parent, column] = True
        joined.roles[node, column] = PROPOSES
    for node in range(num_nodes):
        parent = joined.parents[node]
        for column in range(num_columns):
            joined.longest_orders[node, column] = longest[parent, column]
            if joined.roles[node, column] == SILENT and proposes[parent, column]:
                joined.roles[node, column] = RIVAL


@compiled
def along_paths(parents: Int32Array, probabilities: Float32Array) -> Float32Array:
    """The product of each node's probability and its ancestors'.  # all [n]"""
    paths = probabilities.copy()
    for node in range(len(parents)):
        if parents[node] >= 0:
            paths[node] *= paths[parents[node]]
    return paths


@compiled
def below(parents: Int32Array, top: int) -> BoolArray:
    """Which nodes lie under the node ``top``.  # [n]"""
    found = np.zeros(len(parents), np.bool_)
    for node in range(top + 1, len(parents)):
        found[node] = parents[node] == top or (parents[node] >= 0 and found[parents[node]])
    return found


@compiled
def tried(tokens: Int32Array, parents: Int32Array, true_tokens: Int32Array) -> tuple[Int32Array, BoolArray]:
    """Nodes whose context came true, ascending by depth, and whether they came true themselves.

    ``true_tokens`` is what followed the newest token.  # tokens, parents [n], results [tried]
    """
    nodes = np.empty(len(tokens), np.int32)
    hits = np.empty(len(tokens), np.bool_)
    num_tried = 0
    visited = -1
    for true_token in true_tokens:
        came_true = -1
        for node in range(visited + 1, len(tokens)):
            if parents[node] == visited:
                nodes[num_tried] = node
                hits[num_tried] = tokens[node] == true_token
                num_tried += 1
                if tokens[node] == true_token:
                    came_true = node
        if came_true < 0:
            break
        visited = came_true
    return nodes[:num_tried], hits[:num_tried]
