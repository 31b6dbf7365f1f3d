"""What the mixer sees of the situation that a guess stands in, as seven views of it."""

from __future__ import annotations

from typing import Final

import numpy as np

from decoder_service.calibration import ORDER_CELLS
from decoder_service.compiled import compiled
from decoder_service.forest import Int32Array
from decoder_service.joined_tree import JoinedTree

NUM_ORDERS: Final = int(ORDER_CELLS[-1]) + 2  # 0: no match
NUM_ROLES: Final = 9  # of two sources
TOKEN_BITS: Final = 13
PAIR_BITS: Final = 16
NUM_VIEWS: Final = 7

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)  # of Fibonacci hashing


def view_sizes() -> tuple[int, ...]:
    """How many situations each view tells apart."""
    return NUM_ORDERS**2 * NUM_ROLES, NUM_ORDERS**2 * 4, 1 << TOKEN_BITS, *([1 << PAIR_BITS] * 4)


def situations_of(tree: JoinedTree) -> Int32Array:
    """The situation of each node in each view.  # [n, NUM_VIEWS]

    The longest match of each source and what each says of the node; the matches that speak for it, and whether
    they are the longest; the token before it; the token with what each source says of it; both tokens; the token
    before it with the first view; the token with the matches that speak for it.
    """
    return _situations(tree, ORDER_CELLS)


@compiled
def _hashed(number: int, bits: int) -> int:
    return int((np.uint64(number) * _GOLDEN) >> np.uint64(64 - bits))


@compiled
def _situations(tree: JoinedTree, cells: Int32Array) -> Int32Array:
    num_nodes = len(tree.parents)
    found = np.empty((num_nodes, NUM_VIEWS), np.int32)
    most = len(cells) - 1
    for node in range(num_nodes):
        longest = best = roles = is_longest = 0
        for column in range(2):
            length, order = tree.longest_orders[node, column], tree.orders[node, column]
            longest = longest * NUM_ORDERS + (cells[min(length, most)] + 1 if length > 0 else 0)
            best = best * NUM_ORDERS + (cells[min(order, most)] + 1 if order > 0 else 0)
            roles = roles * 3 + tree.roles[node, column]
            is_longest = is_longest * 2 + (order == length)
        parent, token = tree.parents[node], tree.tokens[node] + 1
        before = (tree.tokens[parent] if parent >= 0 else tree.newest) + 1
        found[node, 0] = longest * NUM_ROLES + roles
        found[node, 1] = best * 4 + is_longest
        found[node, 2] = _hashed(before, TOKEN_BITS)
        found[node, 3] = _hashed(token * NUM_ROLES + roles, PAIR_BITS)
        found[node, 4] = _hashed((token << 24) + before, PAIR_BITS)
        found[node, 5] = _hashed(before * NUM_ORDERS**2 * NUM_ROLES + found[node, 0], PAIR_BITS)
        found[node, 6] = _hashed(token * NUM_ORDERS**2 + best, PAIR_BITS)
    return found
