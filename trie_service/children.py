"""Children of trie nodes: found by a hash table, listed as siblings roughly by falling count.

The table is a linear hash (Litwin 1980): it grows by one bucket an entry, so there is no rehashing
pause. Siblings are a list; a child that is seen again overtakes the less frequent one before it.
"""

from __future__ import annotations

import numpy as np

from trie_service.compiled import compiled
from trie_service.prefetch import prefetch_row
from trie_service.trie_arrays import (
    BUCKET_MASK,
    CHAIN,
    CHILD,
    COUNT,
    FOLLOWERS,
    FREE_ENTRY,
    LEAF_BASE,
    LINK,
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
    entry: int = entries[parent, CHILD]
    if parent != ROOT and entry >= 0 and entries[entry, TOKEN] == token:
        return entry
    entry = arrays.buckets[_bucket_of(arrays, parent, token)]
    while entry != NONE and (entries[entry, TOKEN] != token or entries[entry, PARENT] != parent):
        entry = arrays.lists[entry, CHAIN]
    return entry


@compiled
def prefetch_child(arrays: TrieArrays, parent: int, token: int) -> None:
    """Prepare for ``find_child``."""
    prefetch_row(arrays.buckets, _bucket_of(arrays, parent, token))


@compiled
def prefetch_pair(arrays: TrieArrays, first: int, second: int) -> None:
    """Prepare to find ``first`` below the root and ``second`` below that."""
    child = find_child(arrays, ROOT, first)
    if child != NONE and not is_leaf(arrays, child):
        prefetch_row(arrays.entries, arrays.entries[child, CHILD])
        prefetch_child(arrays, child, second)


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
    entries[leaf, LINK] = NONE
    entries[leaf, FOLLOWERS] = 0
    entries[parent, FOLLOWERS] += count
    _link_last(arrays, parent, leaf)
    _grow_buckets(arrays)
    index_entry(arrays, leaf)
    return leaf


@compiled
def index_entry(arrays: TrieArrays, entry: int) -> None:
    """Let ``find_child`` find an entry."""
    bucket = _bucket_of(arrays, arrays.entries[entry, PARENT], arrays.entries[entry, TOKEN])
    arrays.lists[entry, CHAIN] = arrays.buckets[bucket]
    arrays.buckets[bucket] = entry


@compiled
def set_num_buckets(arrays: TrieArrays, num_entries: int) -> None:
    """Make an empty hash table for so many entries."""
    state = arrays.state
    state[NUM_BUCKETS] = max(state[NUM_BUCKETS], num_entries)
    while state[BUCKET_MASK] < state[NUM_BUCKETS] - 1:
        state[BUCKET_MASK] = 2 * state[BUCKET_MASK] + 1
    arrays.buckets[: state[NUM_BUCKETS]] = NONE


@compiled
def remove_child(arrays: TrieArrays, entry: int) -> None:
    """Take a childless entry out of the trie and free it."""
    _unlink_from_bucket(arrays, entry)
    _unlink_from_siblings(arrays, entry)
    arrays.lists[entry, CHAIN] = arrays.state[FREE_ENTRY]
    arrays.state[FREE_ENTRY] = entry
    arrays.state[NUM_ENTRIES] -= 1


@compiled
def count_child(arrays: TrieArrays, entry: int, weight: int) -> None:
    """Add ``weight`` to the entry's count and let it overtake a less frequent sibling."""
    entries = arrays.entries
    count = entries[entry, COUNT] + weight
    entries[entry, COUNT] = count
    parent = entries[entry, PARENT]
    if weight > 0 and count == weight:
        entries[parent, FOLLOWERS] += 1
    if parent == ROOT or entry == entries[parent, CHILD]:
        return
    before = arrays.lists[entry, PREV]
    if entries[before, COUNT] < count:
        _unlink_from_siblings(arrays, entry)
        _link_before(arrays, before, entry)


@compiled
def uncount_child(arrays: TrieArrays, entry: int, weight: int) -> None:
    """Take ``weight`` off the entry's count."""
    entries = arrays.entries
    entries[entry, COUNT] -= weight
    if weight > 0 and entries[entry, COUNT] == 0:
        entries[entries[entry, PARENT], FOLLOWERS] -= 1


@compiled
def move_ahead_of_leaves(arrays: TrieArrays, entry: int) -> None:
    """Make an entry, seen for the second time, its parent's second child."""
    entries = arrays.entries
    parent = entries[entry, PARENT]
    first = entries[parent, CHILD]
    if parent == ROOT or entry == first or entries[first, NEXT] == entry:
        return
    _unlink_from_siblings(arrays, entry)
    _link_before(arrays, entries[first, NEXT], entry)


@compiled
def _bucket_of(arrays: TrieArrays, parent: int, token: int) -> np.int64:
    mixed = np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(token)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    mask = arrays.state[BUCKET_MASK]
    bucket: np.int64 = np.int64(mixed >> np.uint64(32)) & mask
    return bucket if bucket < arrays.state[NUM_BUCKETS] else bucket & (mask >> 1)


@compiled
def _grow_buckets(arrays: TrieArrays) -> None:
    """Split one bucket when there are more entries than buckets."""
    state = arrays.state
    num_buckets = state[NUM_BUCKETS]
    if state[NUM_ENTRIES] <= num_buckets or num_buckets >= len(arrays.buckets):
        return
    if num_buckets > state[BUCKET_MASK]:
        state[BUCKET_MASK] = 2 * state[BUCKET_MASK] + 1
    state[NUM_BUCKETS] = num_buckets + 1
    old_bucket = num_buckets & (state[BUCKET_MASK] >> 1)
    entry = arrays.buckets[old_bucket]
    arrays.buckets[old_bucket] = NONE
    arrays.buckets[num_buckets] = NONE
    while entry != NONE:
        following = arrays.lists[entry, CHAIN]
        index_entry(arrays, entry)
        entry = following


@compiled
def _take_free_entry(arrays: TrieArrays) -> int:
    state = arrays.state
    entry: int = state[FREE_ENTRY]
    if entry == NONE:
        entry = state[PEAK_ENTRIES]
        state[PEAK_ENTRIES] += 1
    else:
        state[FREE_ENTRY] = arrays.lists[entry, CHAIN]
    state[NUM_ENTRIES] += 1
    return entry


@compiled
def _unlink_from_bucket(arrays: TrieArrays, entry: int) -> None:
    lists = arrays.lists
    bucket = _bucket_of(arrays, arrays.entries[entry, PARENT], arrays.entries[entry, TOKEN])
    before = NONE
    walker = arrays.buckets[bucket]
    while walker != entry:
        before = walker
        walker = lists[walker, CHAIN]
    if before == NONE:
        arrays.buckets[bucket] = lists[entry, CHAIN]
    else:
        lists[before, CHAIN] = lists[entry, CHAIN]


@compiled
def _link_last(arrays: TrieArrays, parent: int, entry: int) -> None:
    entries, lists = arrays.entries, arrays.lists
    first = entries[parent, CHILD]
    entries[entry, NEXT] = NONE
    if first == NONE:
        entries[parent, CHILD] = entry
        lists[entry, PREV] = entry
    else:
        last = lists[first, PREV]
        entries[last, NEXT] = entry
        lists[entry, PREV] = last
        lists[first, PREV] = entry


@compiled
def _link_before(arrays: TrieArrays, sibling: int, entry: int) -> None:
    entries, lists = arrays.entries, arrays.lists
    parent = entries[entry, PARENT]
    before = lists[sibling, PREV]
    entries[entry, NEXT] = sibling
    lists[entry, PREV] = before
    lists[sibling, PREV] = entry
    if entries[parent, CHILD] == sibling:
        entries[parent, CHILD] = entry
    else:
        entries[before, NEXT] = entry


@compiled
def _unlink_from_siblings(arrays: TrieArrays, entry: int) -> None:
    entries, lists = arrays.entries, arrays.lists
    parent = entries[entry, PARENT]
    first = entries[parent, CHILD]
    before = lists[entry, PREV]
    following = entries[entry, NEXT]
    if entry == first:
        entries[parent, CHILD] = following
    else:
        entries[before, NEXT] = following
    if following != NONE:
        lists[following, PREV] = before
    elif entry != first:
        lists[first, PREV] = before
