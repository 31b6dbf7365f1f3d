"""Which suffixes of a text are in the trie: found token by token, all orders at once.

A suffix that occurs has all its own suffixes occur too, so a match is a run of orders: nodes for the shorter
suffixes, and beyond them, up to the longest match, one single occurrence in the ring.
"""

from __future__ import annotations

from trie_service.children import find_child, is_leaf, slot_of_leaf
from trie_service.compiled import compiled
from trie_service.ngrams import next_slot
from trie_service.trie_arrays import NONE, ROOT, TOKEN_MASK, Int32Array, TrieArrays

# Cells of a match: the node of each order from 0 (the root) on stands in cell FIRST_NODE + order.
NODE_ORDER = 0  # longest suffix that is a node
LEAF_ORDER = 1  # longest suffix that occurs once only, or 0
LEAF_SLOT = 2  # ring slot of that occurrence's last token
FIRST_NODE = 3


@compiled
def match_nothing(match: Int32Array) -> None:
    """Make ``match`` that of an empty text."""
    match[NODE_ORDER] = 0
    match[LEAF_ORDER] = 0
    match[FIRST_NODE] = ROOT


@compiled
def match_text(arrays: TrieArrays, text: Int32Array, max_order: int, match: Int32Array) -> None:
    """Match the suffixes of ``text`` of up to ``max_order`` tokens."""
    match_nothing(match)
    for token in text[-max_order:]:
        extend_match(arrays, match, token, max_order, match)


@compiled
def extend_match(
    arrays: TrieArrays, match: Int32Array, token: int, max_order: int, extended: Int32Array
) -> None:
    """Match the suffixes of the text with one token more. ``extended`` may be ``match`` itself."""
    leaf_order = 0
    leaf_slot = next_slot(arrays, match[LEAF_SLOT]) if match[LEAF_ORDER] > 0 else 0
    if match[LEAF_ORDER] > 0 and holds_token(arrays, leaf_slot, token):
        leaf_order = min(match[LEAF_ORDER] + 1, max_order)
    node_order = 0
    parent = match[FIRST_NODE]
    for order in range(1, min(match[NODE_ORDER] + 1, max_order) + 1):
        child = find_child(arrays, parent, token)
        if child == NONE:
            break
        parent = match[FIRST_NODE + order] if order <= match[NODE_ORDER] else NONE
        if is_leaf(arrays, child):
            leaf_order = max(leaf_order, order)
            leaf_slot = slot_of_leaf(arrays, child)
        else:
            node_order = order
            extended[FIRST_NODE + order] = child
    extended[FIRST_NODE] = ROOT
    extended[NODE_ORDER] = node_order
    extended[LEAF_ORDER] = leaf_order if leaf_order > node_order else 0
    extended[LEAF_SLOT] = leaf_slot


@compiled
def holds_token(arrays: TrieArrays, slot: int, token: int) -> bool:
    """Whether a ring slot holds ``token``, as text or as context."""
    word = arrays.ring[slot]
    return bool(word >= 0 and word & TOKEN_MASK == token)
