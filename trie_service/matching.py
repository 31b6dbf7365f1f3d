"""Which suffixes of a text are in the trie: all orders at once.

A suffix that occurs has all its own suffixes occur too, so a match is a run of orders: nodes for the shorter
suffixes, and beyond them, up to the longest match, one single occurrence in the ring. Of the nodes only
the longest is kept: suffix links lead from it to the others.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trie_service.children import find_child, find_hashed_child, is_leaf, slot_of_leaf
from trie_service.compiled import compiled, compiled_with_arrays
from trie_service.ngram_table import (
    first_with,
    hash_suffixes,
    hash_with,
    next_with,
    prefetch_bucket,
    prefetch_entry,
    prefetch_prefix_buckets,
    prefetch_prefixes,
)
from trie_service.ngrams import next_slot
from trie_service.trie_arrays import (
    LINK,
    NONE,
    ROOT,
    TAIL,
    TOKEN_MASK,
    Int32Array,
    TrieArrays,
)

# Cells of a match.
NODE: Final = 0  # of the longest suffix that is a node, or the root
NODE_ORDER: Final = 1  # length of that suffix
LEAF_ORDER: Final = 2  # longest suffix that occurs once only, or 0
LEAF_SLOT: Final = 3  # ring slot of that occurrence's last token
NUM_MATCH_CELLS: Final = 4


@compiled_with_arrays
def match_text(arrays: TrieArrays, text: Int32Array, max_order: int, match: Int32Array) -> None:
    """Match the suffixes of ``text`` of up to ``max_order`` tokens."""
    newest = text[-max_order:]
    hashes = np.empty(len(newest) + 1, dtype=np.int64)  # [order]
    hash_suffixes(newest, hashes)
    for ngram_hash in hashes[1:]:
        prefetch_bucket(arrays, ngram_hash)
    for ngram_hash in hashes[1:]:
        prefetch_entry(arrays, ngram_hash)
    node = ROOT
    order = 0
    while order < len(newest):
        longer = _entry_with(arrays, hashes[order + 1], node)
        if longer == NONE or is_leaf(arrays, longer):
            break
        node = longer
        order += 1
    match[NODE] = node
    match[NODE_ORDER] = order
    _match_leaf(arrays, newest, match)


@compiled
def _entry_with(arrays: TrieArrays, ngram_hash: int, suffix: int) -> int:
    """The entry with that hash whose suffix link leads to ``suffix``, or NONE.

    There is at most one: n-grams that differ only in their first token have different hashes.
    """
    entry: int = first_with(arrays, ngram_hash)
    while entry != NONE and arrays.entries[entry, LINK] != suffix:
        entry = next_with(arrays, entry, ngram_hash)
    return entry


@compiled
def _match_leaf(arrays: TrieArrays, text: Int32Array, match: Int32Array) -> None:
    """Match the suffixes of ``text`` that are longer than those that are nodes: they occur once, or not at all."""
    match[LEAF_ORDER] = match[LEAF_SLOT] = 0
    order = match[NODE_ORDER] + 1
    if order > len(text):
        return
    slot = _only_end(arrays, text[len(text) - order :])
    if slot == NONE:
        return
    num_held = (slot - arrays.state[TAIL]) % len(arrays.ring) + 1
    longest = min(len(text), num_held)
    while order < longest and holds_token(arrays, (slot - order) % len(arrays.ring), text[-order - 1]):
        order += 1
    match[LEAF_ORDER] = order
    match[LEAF_SLOT] = slot


@compiled
def _only_end(arrays: TrieArrays, text: Int32Array) -> int:
    """The ring slot of the last token of a text that is no node, or NONE if it does not occur."""
    prefetch_prefix_buckets(arrays, text)
    prefetch_prefixes(arrays, text)
    entry = ROOT
    ngram_hash = 0
    depth = 0
    while entry == ROOT or not is_leaf(arrays, entry):
        if depth == len(text):
            return NONE
        ngram_hash = hash_with(ngram_hash, text[depth])
        entry = find_hashed_child(arrays, entry, text[depth], ngram_hash)
        if entry == NONE:
            return NONE
        depth += 1
    slot = slot_of_leaf(arrays, entry)
    for token in text[depth:]:
        slot = next_slot(arrays, slot)
        if not holds_token(arrays, slot, token):
            return NONE
    return slot


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
        node, order, child = _shorter(arrays, node, order, child)
    while order >= 0:
        if child == NONE:
            child = find_child(arrays, node, token)
        if child != NONE and not is_leaf(arrays, child):
            break
        if child != NONE and order + 1 > leaf_order:
            leaf_order = order + 1
            leaf_slot = slot_of_leaf(arrays, child)
        node, order, child = _shorter(arrays, node, order, child)
    extended[NODE] = child if order >= 0 else ROOT
    extended[NODE_ORDER] = order + 1
    extended[LEAF_ORDER] = leaf_order if leaf_order > order + 1 else 0
    extended[LEAF_SLOT] = leaf_slot


@compiled
def _shorter(arrays: TrieArrays, node: int, order: int, child: int) -> tuple[int, int, int]:
    """A node, its order and its child, if that is known, all without their oldest token."""
    shorter_child = NONE if child == NONE else arrays.entries[child, LINK]
    return arrays.entries[node, LINK], order - 1, shorter_child


@compiled
def holds_token(arrays: TrieArrays, slot: int, token: int) -> bool:
    """Whether a ring slot holds ``token``, as text or as context."""
    word = arrays.ring[slot]
    return bool(word >= 0 and word & TOKEN_MASK == token)
