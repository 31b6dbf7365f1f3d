"""The invariants of a trie's arrays, asserted one by one for tests."""

from __future__ import annotations

from collections import Counter

from trie_service.children import find_child, find_hashed_child
from trie_service.followers import MANY, num_followers
from trie_service.ngram_table import hash_with
from trie_service.trie_arrays import (
    CHAIN,
    CHILD,
    CONTEXT_FLAG,
    COUNT,
    FOLLOWERS,
    FREE_ENTRY,
    FREE_NOTE,
    HEAD,
    LEAF_BASE,
    LINK,
    NEXT,
    NONE,
    NOTED,
    NUM_BUCKETS,
    NUM_ENTRIES,
    NUM_SEQUENCES,
    NUM_TOKENS,
    NUM_WORDS,
    PARENT,
    PEAK_ENTRIES,
    PEAK_NOTES,
    PREV,
    ROOT,
    SEPARATOR,
    TAIL,
    TOKEN,
    TOKEN_MASK,
    TOTAL,
    TrieArrays,
)

Ngram = tuple[int, ...]


def check_trie(arrays: TrieArrays, max_order: int) -> None:
    """Raise AssertionError unless the trie holds exactly the n-grams of its ring, in good order."""
    words = _words_in_ring(arrays)
    occurrences, counts = _count_ngrams(words, max_order)
    live = _check_entries(arrays, occurrences, counts, max_order)
    assert int(arrays.state[NUM_ENTRIES]) == len(live)
    _check_free_list(arrays, live)
    _check_notes(arrays, live)
    _check_buckets(arrays, live)
    assert int(arrays.state[NUM_SEQUENCES]) == words.count(SEPARATOR)
    assert int(arrays.state[NUM_TOKENS]) == sum(word >= 0 and not word & CONTEXT_FLAG for word in words)


def _words_in_ring(arrays: TrieArrays) -> list[int]:
    size = len(arrays.ring)
    tail, num_words = int(arrays.state[TAIL]), int(arrays.state[NUM_WORDS])
    assert 0 <= num_words <= size
    assert (tail + num_words) % size == int(arrays.state[HEAD])
    return [int(arrays.ring[(tail + i) % size]) for i in range(num_words)]


def _count_ngrams(words: list[int], max_order: int) -> tuple[Counter[Ngram], Counter[Ngram]]:
    """Occurrences of every n-gram, and those whose last token is not context."""
    occurrences: Counter[Ngram] = Counter()
    counts: Counter[Ngram] = Counter()
    for start in range(len(words)):
        ngram: Ngram = ()
        for word in words[start : start + max_order + 1]:
            if word < 0:
                break
            ngram += (word & TOKEN_MASK,)
            occurrences[ngram] += 1
            counts[ngram] += not word & CONTEXT_FLAG
    return occurrences, counts


def _check_entries(
    arrays: TrieArrays, occurrences: Counter[Ngram], counts: Counter[Ngram], max_order: int
) -> set[int]:
    """Walk down from the root; every n-gram is an entry, or is the only one that passes a leaf."""
    live: set[int] = set()
    covered = 0
    stack: list[tuple[int, Ngram]] = [(ROOT, ())]
    while stack:
        entry, ngram = stack.pop()
        assert entry not in live
        live.add(entry)
        children = _check_siblings(arrays, entry)
        if entry != ROOT:
            covered += 1
            assert int(arrays.entries[entry, COUNT]) == counts[ngram]
            assert occurrences[ngram] > 0
            assert len(ngram) <= max_order + 1
        if int(arrays.entries[entry, CHILD]) <= LEAF_BASE:
            covered += _check_leaf(arrays, entry, ngram, occurrences)
        else:
            counts_below = [int(arrays.entries[child, COUNT]) for child in children]
            assert int(arrays.entries[entry, TOTAL]) == sum(counts_below)
            assert num_followers(arrays, entry) == sum(count > 0 for count in counts_below)
        if entry != ROOT:
            _check_link(arrays, entry, ngram)
            _check_hash(arrays, entry, ngram)
        stack += [(child, (*ngram, int(arrays.entries[child, TOKEN]))) for child in children]
    assert covered == len(occurrences)
    return live


def _check_siblings(arrays: TrieArrays, parent: int) -> list[int]:
    """The children of ``parent``, whose links agree both ways and which the hash table finds."""
    children: list[int] = []
    child = max(int(arrays.entries[parent, CHILD]), NONE)
    while child != NONE:
        assert int(arrays.entries[child, PARENT]) == parent
        assert find_child(arrays, parent, int(arrays.entries[child, TOKEN])) == child
        if children:
            assert int(arrays.lists[child, PREV]) == children[-1]
        children.append(child)
        child = int(arrays.entries[child, NEXT])
    if children:
        assert int(arrays.lists[children[0], PREV]) == children[-1]
    return children


def _check_link(arrays: TrieArrays, entry: int, ngram: Ngram) -> None:
    """A suffix link leads to the n-gram without its oldest token, of a node to a node; a leaf may have none."""
    link = int(arrays.entries[entry, LINK])
    is_leaf = int(arrays.entries[entry, CHILD]) <= LEAF_BASE
    if is_leaf and link == NONE:
        return
    suffix = ROOT
    for token in ngram[1:]:
        suffix = find_child(arrays, suffix, token)
    assert link == suffix
    assert is_leaf or int(arrays.entries[link, CHILD]) > LEAF_BASE


def _check_hash(arrays: TrieArrays, entry: int, ngram: Ngram) -> None:
    """An entry is found by the hash of its n-gram."""
    ngram_hash = 0
    for token in ngram:
        ngram_hash = hash_with(ngram_hash, token)
    assert find_hashed_child(arrays, int(arrays.entries[entry, PARENT]), ngram[-1], ngram_hash) == entry


def _check_leaf(arrays: TrieArrays, leaf: int, ngram: Ngram, occurrences: Counter[Ngram]) -> int:
    """A leaf's slot holds its n-gram, seen once; return how many longer n-grams only it stands for."""
    size = len(arrays.ring)
    slot = LEAF_BASE - int(arrays.entries[leaf, CHILD])
    assert int(arrays.entries[leaf, TOTAL]) == 0
    assert occurrences[ngram] == 1
    held = tuple(int(arrays.ring[(slot - back) % size]) & TOKEN_MASK for back in range(len(ngram)))
    assert held[::-1] == ngram
    num_longer = 0
    slot = (slot + 1) % size
    while (word := int(arrays.ring[slot])) >= 0 and occurrences[(*ngram, word & TOKEN_MASK)]:
        ngram = (*ngram, word & TOKEN_MASK)
        assert occurrences[ngram] == 1
        num_longer += 1
        slot = (slot + 1) % size
    return num_longer


def _check_free_list(arrays: TrieArrays, live: set[int]) -> None:
    free: set[int] = set()
    entry = int(arrays.state[FREE_ENTRY])
    while entry != NONE:
        assert entry not in free
        free.add(entry)
        entry = int(arrays.lists[entry, CHAIN])
    assert not free & live
    assert len(free) + len(live) == int(arrays.state[PEAK_ENTRIES]) <= len(arrays.entries)


def _check_notes(arrays: TrieArrays, live: set[int]) -> None:
    """Every note belongs to one node, which has many followers, or is free."""
    notes: list[int] = []
    for entry in live:
        if int(arrays.entries[entry, FOLLOWERS]) >= NOTED:
            assert num_followers(arrays, entry) >= MANY
            notes.append(int(arrays.entries[entry, FOLLOWERS]) - NOTED)
    free = int(arrays.state[FREE_NOTE])
    while free != NONE:
        notes.append(free)
        free = int(arrays.notes[free, 0])
    assert sorted(notes) == list(range(int(arrays.state[PEAK_NOTES])))


def _check_buckets(arrays: TrieArrays, live: set[int]) -> None:
    held: list[int] = []
    for bucket in range(int(arrays.state[NUM_BUCKETS])):
        entry = int(arrays.buckets[bucket])
        while entry != NONE:
            held.append(entry)
            entry = int(arrays.lists[entry, CHAIN])
    assert len(held) == len(set(held))
    assert set(held) == live - {ROOT}
