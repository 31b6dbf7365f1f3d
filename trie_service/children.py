"""Children of trie nodes: found by a hash table, listed as siblings roughly by falling count.

The table is a linear hash (Litwin 1980): it grows by one bucket an entry, so there is no rehashing
pause. Siblings are a list; a child that is seen again overtakes the less frequent one before it.
"""

from __future__ import annotations

import numpy as np

from trie_service.compiled import compiled
from trie_service.trie_arrays import (
    CHAIN,
    CHILD,
    COUNT,
    FREE_ENTRY,
    LEAF_BASE,
    NEXT,
    NONE,
    NUM_BUCKETS,
    NUM_ENTRIES,
    PARENT,
    PEAK_ENTRIES,
    PREV,
    ROOT,
    TOKEN,
    TOTAL,
    TrieArrays,
)


@compiled
def find_child(arrays: TrieArrays, parent: int, token: int) -> int:
    """The child of ``parent`` that holds ``token``, or NONE."""
    entries = arrays.entries
    entry: int = arrays.buckets[_bucket_of(parent, token, arrays.state[NUM_BUCKETS])]
    while entry != NONE and (entries[entry, TOKEN] != token or entries[entry, PARENT] != parent):
        entry = entries[entry, CHAIN]
    return entry


@compiled
def is_leaf(arrays: TrieArrays, entry: int) -> bool:
    """Whether the entry's n-gram was seen once only."""
    return bool(arrays.entries[entry, CHILD] <= LEAF_BASE)


@compiled
def slot_of_leaf(arrays: TrieArrays, leaf: int) -> int:
    """Ring slot of the last token of a leaf's n-gram."""
    slot: int = LEAF_BASE - arrays.entries[leaf, CHILD]
    return slot


@compiled
def add_leaf(arrays: TrieArrays, parent: int, token: int, slot: int, count: int) -> int:
    """Make a child for an n-gram whose last token is in ring slot ``slot``; return its entry."""
    entries = arrays.entries
    leaf = _take_free_entry(arrays)
    entries[leaf, TOKEN] = token
    entries[leaf, PARENT] = parent
    entries[leaf, COUNT] = count
    entries[leaf, TOTAL] = 0
    entries[leaf, CHILD] = LEAF_BASE - slot
    _link_last(entries, parent, leaf)
    _grow_buckets(arrays)
    index_entry(arrays, leaf)
    return leaf


@compiled
def index_entry(arrays: TrieArrays, entry: int) -> None:
    """Let ``find_child`` find an entry."""
    entries = arrays.entries
    bucket = _bucket_of(entries[entry, PARENT], entries[entry, TOKEN], arrays.state[NUM_BUCKETS])
    entries[entry, CHAIN] = arrays.buckets[bucket]
    arrays.buckets[bucket] = entry


@compiled
def set_num_buckets(arrays: TrieArrays, num_entries: int) -> None:
    """Make an empty hash table for so many entries."""
    num_buckets = max(arrays.state[NUM_BUCKETS], num_entries)
    arrays.buckets[:num_buckets] = NONE
    arrays.state[NUM_BUCKETS] = num_buckets


@compiled
def remove_child(arrays: TrieArrays, entry: int) -> None:
    """Take a childless entry out of the trie and free it."""
    _unlink_from_bucket(arrays, entry)
    _unlink_from_siblings(arrays.entries, entry)
    arrays.entries[entry, CHAIN] = arrays.state[FREE_ENTRY]
    arrays.state[FREE_ENTRY] = entry
    arrays.state[NUM_ENTRIES] -= 1


@compiled
def count_child(arrays: TrieArrays, entry: int, weight: int) -> None:
    """Add ``weight`` to the entry's count and let it overtake a less frequent sibling."""
    entries = arrays.entries
    entries[entry, COUNT] += weight
    parent = entries[entry, PARENT]
    first = entries[parent, CHILD]
    if parent == ROOT or entry == first:
        return
    before = entries[entry, PREV]
    if entries[before, COUNT] < entries[entry, COUNT]:
        _unlink_from_siblings(entries, entry)
        _link_before(entries, before, entry)


@compiled
def move_ahead_of_leaves(arrays: TrieArrays, entry: int) -> None:
    """Make an entry, seen for the second time, its parent's second child."""
    entries = arrays.entries
    parent = entries[entry, PARENT]
    first = entries[parent, CHILD]
    if parent == ROOT or entry == first or entries[first, NEXT] == entry:
        return
    _unlink_from_siblings(entries, entry)
    _link_before(entries, entries[first, NEXT], entry)


@compiled
def _bucket_of(parent: int, token: int, num_buckets: int) -> np.int64:
    mixed = np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(token)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    size = 1
    while size < num_buckets:
        size *= 2
    bucket = np.int64(mixed >> np.uint64(32)) & np.int64(size - 1)
    return bucket if bucket < num_buckets else bucket - size // 2


@compiled
def _grow_buckets(arrays: TrieArrays) -> None:
    """Split one bucket when there are more entries than buckets."""
    num_buckets = arrays.state[NUM_BUCKETS]
    if arrays.state[NUM_ENTRIES] <= num_buckets or num_buckets >= len(arrays.buckets):
        return
    size = 1
    while size <= num_buckets:
        size *= 2
    old_bucket = num_buckets - size // 2
    arrays.state[NUM_BUCKETS] = num_buckets + 1
    entry = arrays.buckets[old_bucket]
    arrays.buckets[old_bucket] = NONE
    arrays.buckets[num_buckets] = NONE
    while entry != NONE:
        following = arrays.entries[entry, CHAIN]
        bucket = _bucket_of(arrays.entries[entry, PARENT], arrays.entries[entry, TOKEN], num_buckets + 1)
        arrays.entries[entry, CHAIN] = arrays.buckets[bucket]
        arrays.buckets[bucket] = entry
        entry = following


@compiled
def _take_free_entry(arrays: TrieArrays) -> int:
    state = arrays.state
    entry: int = state[FREE_ENTRY]
    if entry == NONE:
        entry = state[PEAK_ENTRIES]
        state[PEAK_ENTRIES] += 1
    else:
        state[FREE_ENTRY] = arrays.entries[entry, CHAIN]
    state[NUM_ENTRIES] += 1
    return entry


@compiled
def _unlink_from_bucket(arrays: TrieArrays, entry: int) -> None:
    entries = arrays.entries
    bucket = _bucket_of(entries[entry, PARENT], entries[entry, TOKEN], arrays.state[NUM_BUCKETS])
    before = NONE
    walker = arrays.buckets[bucket]
    while walker != entry:
        before = walker
        walker = entries[walker, CHAIN]
    if before == NONE:
        arrays.buckets[bucket] = entries[entry, CHAIN]
    else:
        entries[before, CHAIN] = entries[entry, CHAIN]


@compiled
def _link_last(entries: np.ndarray, parent: int, entry: int) -> None:
    first = entries[parent, CHILD]
    entries[entry, NEXT] = NONE
    if first == NONE:
        entries[parent, CHILD] = entry
        entries[entry, PREV] = entry
    else:
        last = entries[first, PREV]
        entries[last, NEXT] = entry
        entries[entry, PREV] = last
        entries[first, PREV] = entry


@compiled
def _link_before(entries: np.ndarray, sibling: int, entry: int) -> None:
    parent = entries[entry, PARENT]
    before = entries[sibling, PREV]
    entries[entry, NEXT] = sibling
    entries[entry, PREV] = before
    entries[sibling, PREV] = entry
    if entries[parent, CHILD] == sibling:
        entries[parent, CHILD] = entry
    else:
        entries[before, NEXT] = entry


@compiled
def _unlink_from_siblings(entries: np.ndarray, entry: int) -> None:
    parent = entries[entry, PARENT]
    first = entries[parent, CHILD]
    before = entries[entry, PREV]
    following = entries[entry, NEXT]
    if entry == first:
        entries[parent, CHILD] = following
    else:
        entries[before, NEXT] = following
    if following != NONE:
        entries[following, PREV] = before
    elif entry != first:
        entries[first, PREV] = before
