"""Counting the n-grams of sequences into the trie, and out of it again.

Each token of the ring starts one occurrence of an n-gram of every length up to ``max_order + 1``. An
occurrence follows the nodes that it shares with others and ends in a leaf of its own, at the first
token by which it differs from all of them.

A sequence is counted from its end to its beginning, so that at any moment, evictions in between included,
the suffixes of whatever is counted are counted too: a node's suffix link always has its node.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trie_service.children import (
    add_leaf,
    count_child,
    find_child,
    find_hashed_child,
    is_leaf,
    move_ahead_of_leaves,
    remove_child,
    slot_of_leaf,
    uncount_child,
)
from trie_service.compiled import compiled, compiled_with_arrays
from trie_service.ngram_table import hash_with, prefetch_prefix_buckets, prefetch_prefixes
from trie_service.trie_arrays import (
    CHILD,
    CONTEXT_FLAG,
    COUNT,
    FORGOTTEN,
    HEAD,
    LINK,
    NONE,
    NUM_ENTRIES,
    NUM_SEQUENCES,
    NUM_TOKENS,
    NUM_WORDS,
    PARENT,
    PEAK_WORDS,
    ROOT,
    SEPARATOR,
    TAIL,
    TAIL_IS_CUT,
    TOKEN_MASK,
    TOTAL,
    Int32Array,
    TrieArrays,
    clear,
)

_AHEAD: Final = 4  # tokens
_LIKELY_DEPTH: Final = 4  # of the n-grams of a token
_NOWHERE: Final = -1
_SEVERAL: Final = -2


@compiled_with_arrays
def insert_sequence(arrays: TrieArrays, words: Int32Array, max_order: int) -> None:
    """Append ``words`` (tokens, context flagged) to the ring and count their n-grams.

    Evicts the oldest text a token at a time, as far as there is no room.
    """
    state = arrays.state
    while state[NUM_WORDS] + len(words) + 1 > len(arrays.ring):
        evict_oldest(arrays, max_order)
    first = state[HEAD]
    _append_to_ring(arrays, words)
    state[NUM_SEQUENCES] += 1
    paths = np.full((2, max_order + 2), NONE, dtype=np.int32)  # of this token's occurrence, of the next one's
    paths[:, 0] = ROOT
    depth = 1
    slot = state[HEAD]
    for index in range(len(words) - 1, -1, -1):
        slot = (first + index) % len(arrays.ring)
        while len(arrays.entries) - state[NUM_ENTRIES] < max_order + 2:
            if state[TAIL] == first:
                _give_up(arrays, index + 1, len(words))
                return
            evict_oldest(arrays, max_order)
        _prefetch_earlier(arrays, words, index, depth + 1)
        depth = _add_occurrence(arrays, slot, paths[index % 2], paths[1 - index % 2])
        state[NUM_TOKENS] += _weight_of(words[index])


@compiled
def _prefetch_earlier(arrays: TrieArrays, words: Int32Array, index: int, depth: int) -> None:
    """Prepare for the tokens that are counted a little later: their n-grams of up to ``depth`` tokens."""
    if index >= 2 * _AHEAD:
        first = index - 2 * _AHEAD
        prefetch_prefix_buckets(arrays, words[first : first + depth])
    if index >= _AHEAD:
        first = index - _AHEAD
        prefetch_prefixes(arrays, words[first : first + depth])


@compiled
def _give_up(arrays: TrieArrays, num_uncounted: int, num_words: int) -> None:
    """Only one sequence is left, and no room for the rest of it, its beginning."""
    state = arrays.state
    if num_uncounted == num_words:
        clear(arrays)  # entries without text: a restored image had wrong counts
        return
    state[TAIL] = (state[TAIL] + num_uncounted) % len(arrays.ring)
    state[NUM_WORDS] -= num_uncounted
    state[TAIL_IS_CUT] = 1


@compiled
def evict_oldest(arrays: TrieArrays, max_order: int) -> None:
    """Take the oldest word out of the ring and its n-grams out of the trie."""
    state = arrays.state
    slot = state[TAIL]
    word = arrays.ring[slot]
    if word >= 0:
        _prefetch_later(arrays, slot)
        _remove_occurrence(arrays, slot, max_order)
        state[NUM_TOKENS] -= _weight_of(word)
    elif word == SEPARATOR:
        state[NUM_SEQUENCES] -= 1
    state[TAIL] = next_slot(arrays, slot)
    state[TAIL_IS_CUT] = word >= 0
    state[NUM_WORDS] -= 1


@compiled
def _prefetch_later(arrays: TrieArrays, slot: int) -> None:
    """Prepare for the removal of tokens a little after ``slot``."""
    first = slot + 2 * _AHEAD
    prefetch_prefix_buckets(arrays, arrays.ring[first : first + _LIKELY_DEPTH])
    first = slot + _AHEAD
    prefetch_prefixes(arrays, arrays.ring[first : first + _LIKELY_DEPTH])


@compiled
def forget_sequence(arrays: TrieArrays, words: Int32Array, max_order: int) -> bool:
    """Take one sequence equal to ``words`` out of the trie; False if there is none.

    The oldest sequence may have lost its beginning to eviction: then its rest is taken. An n-gram of the
    sequence that was seen once only tells its place at once; else the ring is searched.
    """
    state = arrays.state
    if state[TAIL_IS_CUT] == 1:
        length = _sequence_len(arrays, state[TAIL], state[NUM_WORDS])
        rest = words[max(0, len(words) - length) :]
        if 0 < length == len(rest) and _holds(arrays, state[TAIL], rest):
            _erase(arrays, state[TAIL], length, max_order)
            return True
    slot = _only_slot_of(arrays, words, max_order)
    if slot == _SEVERAL:
        slot = _search_ring(arrays, words)
    if slot < 0 or not _is_sequence(arrays, slot, words):
        return False
    _erase(arrays, slot, len(words), max_order)
    return True


@compiled
def _only_slot_of(arrays: TrieArrays, words: Int32Array, max_order: int) -> int:
    """The slot where ``words`` begin if they are held; NOWHERE if they cannot be, SEVERAL for several slots."""
    for start in range(len(words) - 1, -1, -1):
        entry = ROOT
        for end in range(start, min(start + max_order + 1, len(words))):
            entry = find_child(arrays, entry, words[end] & TOKEN_MASK)
            if entry == NONE:
                return _NOWHERE
            if is_leaf(arrays, entry):
                slot: int = (slot_of_leaf(arrays, entry) - end) % len(arrays.ring)
                return slot
    return _SEVERAL


@compiled
def _search_ring(arrays: TrieArrays, words: Int32Array) -> int:
    """The slot of the oldest whole sequence that equals ``words``, or NOWHERE."""
    slot: int = arrays.state[TAIL]
    num_left = arrays.state[NUM_WORDS]
    while num_left > 0:
        if _is_sequence(arrays, slot, words):
            return slot
        length = _sequence_len(arrays, slot, num_left)
        slot = (slot + length + 1) % len(arrays.ring)
        num_left -= length + 1
    return _NOWHERE


@compiled
def _is_sequence(arrays: TrieArrays, slot: int, words: Int32Array) -> bool:
    """Whether ``words`` are a whole sequence, which begins in ``slot``."""
    state = arrays.state
    offset = (slot - state[TAIL]) % len(arrays.ring)
    if offset + len(words) >= state[NUM_WORDS] or not _holds(arrays, slot, words):
        return False
    begins = state[TAIL_IS_CUT] == 0 if offset == 0 else arrays.ring[slot - 1] < 0
    return bool(begins and arrays.ring[(slot + len(words)) % len(arrays.ring)] < 0)


@compiled
def evict_words(arrays: TrieArrays, num_words: int, max_order: int) -> None:
    """Take so many of the oldest words out, fewer where there are fewer."""
    for _ in range(min(num_words, arrays.state[NUM_WORDS])):
        evict_oldest(arrays, max_order)


@compiled
def forget_at(arrays: TrieArrays, offset: int, max_order: int) -> int:
    """Take the sequence out whose first word is ``offset`` words after the oldest one.

    Returns the words that it takes in the ring, its separator included; 1 where it was forgotten before.
    """
    slot = (arrays.state[TAIL] + offset) % len(arrays.ring)
    length = _sequence_len(arrays, slot, arrays.state[NUM_WORDS] - offset)
    if arrays.ring[(slot + length) % len(arrays.ring)] == SEPARATOR:
        _erase(arrays, slot, length, max_order)
    return length + 1


@compiled
def next_slot(arrays: TrieArrays, slot: int) -> int:
    """The ring slot after ``slot``."""
    return slot + 1 if slot + 1 < len(arrays.ring) else 0


@compiled
def _append_to_ring(arrays: TrieArrays, words: Int32Array) -> None:
    state = arrays.state
    slot = state[HEAD]
    for word in words:
        arrays.ring[slot] = word
        slot = next_slot(arrays, slot)
    arrays.ring[slot] = SEPARATOR
    state[PEAK_WORDS] = min(len(arrays.ring), max(state[PEAK_WORDS], state[HEAD] + len(words) + 1))
    state[HEAD] = next_slot(arrays, slot)
    state[NUM_WORDS] += len(words) + 1


@compiled
def _weight_of(word: int) -> int:
    return 0 if word & CONTEXT_FLAG else 1


@compiled
def _add_occurrence(arrays: TrieArrays, slot: int, path: Int32Array, path_of_next: Int32Array) -> int:
    """Count the n-grams that start in ``slot``; return the length of the longest that is an entry.

    Paths are the entries passed, by depth, then NONE.
    """
    entries = arrays.entries
    path[1:] = NONE
    node = ROOT
    ngram_hash = 0
    for depth in range(1, len(path)):
        word = arrays.ring[slot]
        if word < 0:
            return depth - 1
        weight = _weight_of(word)
        token = word & TOKEN_MASK
        ngram_hash = hash_with(ngram_hash, token)
        entries[node, TOTAL] += weight
        child = find_hashed_child(arrays, node, token, ngram_hash)
        if child == NONE:
            leaf = path[depth] = add_leaf(arrays, node, token, slot, weight, ngram_hash)
            entries[leaf, LINK] = path_of_next[depth - 1]
            return depth
        if is_leaf(arrays, child):
            _make_node(arrays, child, ngram_hash, depth < len(path) - 1)
            entries[child, LINK] = path_of_next[depth - 1]
        count_child(arrays, child, weight)
        node = path[depth] = child
        slot = next_slot(arrays, slot)
    return len(path) - 1


@compiled
def _make_node(arrays: TrieArrays, leaf: int, ngram_hash: int, may_have_children: bool) -> None:
    """Turn a leaf into a node, whose one child is the leaf's next token."""
    slot = next_slot(arrays, slot_of_leaf(arrays, leaf))
    arrays.entries[leaf, CHILD] = NONE
    word = arrays.ring[slot]
    if may_have_children and word >= 0:
        token = word & TOKEN_MASK
        add_leaf(arrays, leaf, token, slot, _weight_of(word), hash_with(ngram_hash, token))
        arrays.entries[leaf, TOTAL] = _weight_of(word)
    move_ahead_of_leaves(arrays, leaf)


@compiled
def _remove_occurrence(arrays: TrieArrays, slot: int, max_order: int) -> None:
    entries = arrays.entries
    node = ROOT
    for _ in range(max_order + 1):
        word = arrays.ring[slot]
        if word < 0:
            break
        child = find_child(arrays, node, word & TOKEN_MASK)
        if child == NONE:
            break  # only where a restored image had wrong counts
        entries[node, TOTAL] -= _weight_of(word)
        uncount_child(arrays, child, _weight_of(word))
        node = child
        if is_leaf(arrays, node):
            entries[node, CHILD] = NONE
            break
        slot = next_slot(arrays, slot)
    while node != ROOT and entries[node, COUNT] == 0 and entries[node, CHILD] == NONE:
        parent = entries[node, PARENT]
        remove_child(arrays, node)
        node = parent


@compiled
def _sequence_len(arrays: TrieArrays, slot: int, num_left: int) -> int:
    """Words from ``slot`` up to the next separator or forgotten word."""
    length = 0
    while length < num_left and arrays.ring[(slot + length) % len(arrays.ring)] >= 0:
        length += 1
    return length


@compiled
def _holds(arrays: TrieArrays, slot: int, words: Int32Array) -> bool:
    for word in words:
        if arrays.ring[slot] != word:
            return False
        slot = next_slot(arrays, slot)
    return True


@compiled
def _erase(arrays: TrieArrays, slot: int, length: int, max_order: int) -> None:
    first = slot
    for _ in range(length):
        _remove_occurrence(arrays, slot, max_order)
        arrays.state[NUM_TOKENS] -= _weight_of(arrays.ring[slot])
        slot = next_slot(arrays, slot)
    slot = first
    for _ in range(length + 1):
        arrays.ring[slot] = FORGOTTEN
        slot = next_slot(arrays, slot)
    arrays.state[NUM_SEQUENCES] -= 1
