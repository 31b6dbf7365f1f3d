"""Children of trie nodes, and nodes and leaves themselves: made, found, counted, removed.

Siblings are a list, roughly by falling count: a child that is seen again overtakes the less frequent one
before it.
"""

from __future__ import annotations

from trie_service.compiled import compiled
from trie_service.followers import add_followers, note_ahead
from trie_service.ngram_table import (
    add_to_table,
    first_with,
    hash_of,
    hash_with,
    next_with,
    remove_from_table,
)
from trie_service.trie_arrays import (
    CHAIN,
    CHILD,
    COUNT,
    FOLLOWERS,
    FREE_ENTRY,
    LEAF_BASE,
    LINK,
    NEXT,
    NONE,
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
    entry: int = arrays.entries[parent, CHILD]
    if parent != ROOT and entry >= 0 and arrays.entries[entry, TOKEN] == token:
        return entry
    return find_hashed_child(arrays, parent, token, hash_with(hash_of(arrays, parent), token))


@compiled
def find_hashed_child(arrays: TrieArrays, parent: int, token: int, ngram_hash: int) -> int:
    """The child of ``parent`` that holds ``token``, or NONE, where the hash of its n-gram is known."""
    entries = arrays.entries
    entry: int = first_with(arrays, ngram_hash)
    while entry != NONE and (entries[entry, PARENT] != parent or entries[entry, TOKEN] != token):
        entry = next_with(arrays, entry, ngram_hash)
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
def add_leaf(arrays: TrieArrays, parent: int, token: int, slot: int, count: int, ngram_hash: int) -> int:
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
    _link_last(arrays, parent, leaf)
    if count > 0:
        add_followers(arrays, parent, 1)
    add_to_table(arrays, leaf, ngram_hash)
    return leaf


@compiled
def remove_child(arrays: TrieArrays, entry: int) -> None:
    """Take a childless entry out of the trie and free it."""
    remove_from_table(arrays, entry)
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
        add_followers(arrays, parent, 1)
    if parent == ROOT or entry == entries[parent, CHILD]:
        return
    before = arrays.lists[entry, PREV]
    if entries[before, COUNT] < count:
        _unlink_from_siblings(arrays, entry)
        _link_before(arrays, before, entry)
        note_ahead(arrays, parent, before if entry == entries[parent, CHILD] else entry)


@compiled
def uncount_child(arrays: TrieArrays, entry: int, weight: int) -> None:
    """Take ``weight`` off the entry's count."""
    entries = arrays.entries
    entries[entry, COUNT] -= weight
    if weight > 0 and entries[entry, COUNT] == 0:
        add_followers(arrays, entries[entry, PARENT], -1)


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
    note_ahead(arrays, parent, entry)


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
