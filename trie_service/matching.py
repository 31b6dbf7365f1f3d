"""Which suffixes of a text are in the trie: found token by token, all orders at once.

A suffix that occurs has all its own suffixes occur too, so a match is a run of orders: nodes for the shorter
suffixes, and beyond them, up to the longest match, one single occurrence in the ring. Of the nodes only
the longest is kept: suffix links lead from it to the others.
"""

from __future__ import annotations

from typing import Final

from trie_service.children import find_child, is_leaf, prefetch_child, prefetch_pair, slot_of_leaf
from trie_service.compiled import compiled
from trie_service.ngrams import next_slot
from trie_service.trie_arrays import LINK, NONE, ROOT, TOKEN_MASK, Int32Array, TrieArrays

# Cells of a match.
NODE: Final = 0  # of the longest suffix that is a node, or the root
NODE_ORDER: Final = 1  # length of that suffix
LEAF_ORDER: Final = 2  # longest suffix that occurs once only, or 0
LEAF_SLOT: Final = 3  # ring slot of that occurrence's last token
NUM_MATCH_CELLS: Final = 4


@compiled
def match_nothing(match: Int32Array) -> None:
    """Make ``match`` that of an empty text."""
    match[NODE] = ROOT
    match[NODE_ORDER] = 0
    match[LEAF_ORDER] = 0
    match[LEAF_SLOT] = 0


@compiled
def match_text(arrays: TrieArrays, text: Int32Array, max_order: int, match: Int32Array) -> None:
    """Match the suffixes of ``text`` of up to ``max_order`` tokens."""
    match_nothing(match)
    newest = text[-max_order:]
    for token in newest:
        prefetch_child(arrays, ROOT, token)
    for index in range(len(newest) - 1):
        prefetch_pair(arrays, newest[index], newest[index + 1])
    for token in newest:
        extend_match(arrays, match, token, (match[NODE], match[NODE_ORDER], NONE), max_order, match)


@compiled
def extend_match(
    arrays: TrieArrays,
    match: Int32Array,
    token: int,
    place: tuple[int, int, int],
    max_order: int,
    extended: Int32Array,
) -> None:
    """Match the suffixes of the text with one token more. ``extended`` may be ``match`` itself.

    ``place`` is a node of the match, its order, and its child for the token, NONE if that is not known;
    the token followed none of the longer nodes.
    """
    node, order, child = place
    leaf_order = 0
    leaf_slot = 0
    if match[LEAF_ORDER] > 0:
        leaf_slot = next_slot(arrays, match[LEAF_SLOT])
        if holds_token(arrays, leaf_slot, token):
            leaf_order = min(match[LEAF_ORDER] + 1, max_order)
    if order == max_order:
        node, order, child = arrays.entries[node, LINK], order - 1, NONE
    while order >= 0:
        if child == NONE:
            child = find_child(arrays, node, token)
        if child != NONE and not is_leaf(arrays, child):
            break
        if child != NONE and order + 1 > leaf_order:
            leaf_order = order + 1
            leaf_slot = slot_of_leaf(arrays, child)
        node, order, child = arrays.entries[node, LINK], order - 1, NONE
    extended[NODE] = child if order >= 0 else ROOT
    extended[NODE_ORDER] = order + 1
    extended[LEAF_ORDER] = leaf_order if leaf_order > order + 1 else 0
    extended[LEAF_SLOT] = leaf_slot


@compiled
def holds_token(arrays: TrieArrays, slot: int, token: int) -> bool:
    """Whether a ring slot holds ``token``, as text or as context."""
    word = arrays.ring[slot]
    return bool(word >= 0 and word & TOKEN_MASK == token)
