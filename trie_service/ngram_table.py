"""The hash table over the entries of a trie, by their n-grams.

N-grams are hashed, not a parent and a token: wherever a text is known all of its n-grams can be fetched at
once, without waiting for one entry to lead to the next. The table is a linear hash (Litwin 1980): it grows by
one bucket an entry, so there is no rehashing pause.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trie_service.compiled import compiled
from trie_service.prefetch import prefetch_row
from trie_service.trie_arrays import (
    BUCKET_MASK,
    CHAIN,
    HASH,
    NONE,
    NUM_BUCKETS,
    NUM_ENTRIES,
    TOKEN_MASK,
    Int32Array,
    Int64Array,
    TrieArrays,
)

# The hash of a1 ... an is the sum of (ai + 1) * base^(n - i) modulo 2^32 (Karp and Rabin 1987). The base is odd,
# so n-grams that differ only in their first token have different hashes.
_BASE: Final = 0x2C1B3C6D
_MASK: Final = 0xFFFFFFFF


@compiled
def hash_with(ngram_hash: int, token: int) -> int:
    """The hash of an n-gram with one token more behind it; 0 is that of the empty one."""
    extended: int = (ngram_hash * _BASE + token + 1) & _MASK
    return extended


@compiled
def hash_suffixes(text: Int32Array, hashes: Int64Array) -> None:
    """Hash the suffixes of a text by their length, that of none included."""
    ngram_hash = np.int64(0)
    power = 1
    hashes[0] = 0
    for length in range(1, len(hashes)):
        ngram_hash = (ngram_hash + (np.int64(text[-length]) + 1) * power) & _MASK
        power = (power * _BASE) & _MASK
        hashes[length] = ngram_hash


@compiled
def hash_of(arrays: TrieArrays, entry: int) -> int:
    """The hash of an entry's n-gram."""
    return int(np.int64(arrays.lists[entry, HASH]) & _MASK)


@compiled
def first_with(arrays: TrieArrays, ngram_hash: int) -> int:
    """The first entry with that hash, or NONE."""
    entry: int = arrays.buckets[_bucket_of(arrays, ngram_hash)]
    while entry != NONE and hash_of(arrays, entry) != ngram_hash:
        entry = arrays.lists[entry, CHAIN]
    return entry


@compiled
def next_with(arrays: TrieArrays, entry: int, ngram_hash: int) -> int:
    """The next entry with that hash after ``entry``, or NONE."""
    entry = arrays.lists[entry, CHAIN]
    while entry != NONE and hash_of(arrays, entry) != ngram_hash:
        entry = arrays.lists[entry, CHAIN]
    return entry


@compiled
def prefetch_bucket(arrays: TrieArrays, ngram_hash: int) -> None:
    """Prepare for ``prefetch_entry``."""
    prefetch_row(arrays.buckets, _bucket_of(arrays, ngram_hash))


@compiled
def prefetch_entry(arrays: TrieArrays, ngram_hash: int) -> None:
    """Prepare to find the entry with that hash."""
    entry = arrays.buckets[_bucket_of(arrays, ngram_hash)]
    prefetch_row(arrays.lists, entry)
    prefetch_row(arrays.entries, entry)


@compiled
def prefetch_prefix_buckets(arrays: TrieArrays, words: Int32Array) -> None:
    """Prepare for ``prefetch_prefixes``."""
    ngram_hash = 0
    for word in words:
        ngram_hash = hash_with(ngram_hash, word & TOKEN_MASK)
        prefetch_bucket(arrays, ngram_hash)


@compiled
def prefetch_prefixes(arrays: TrieArrays, words: Int32Array) -> None:
    """Prepare to find the n-grams that begin where ``words`` do."""
    ngram_hash = 0
    for word in words:
        ngram_hash = hash_with(ngram_hash, word & TOKEN_MASK)
        prefetch_entry(arrays, ngram_hash)


@compiled
def add_to_table(arrays: TrieArrays, entry: int, ngram_hash: int) -> None:
    """Let a new entry be found, in a table that grows with it."""
    _grow(arrays)
    index_entry(arrays, entry, ngram_hash)


@compiled
def index_entry(arrays: TrieArrays, entry: int, ngram_hash: int) -> None:
    """Let an entry be found, in a table that has room for it."""
    arrays.lists[entry, HASH] = ngram_hash
    _link_into_bucket(arrays, entry)


@compiled
def remove_from_table(arrays: TrieArrays, entry: int) -> None:
    """Let an entry no longer be found."""
    lists = arrays.lists
    bucket = _bucket_of(arrays, hash_of(arrays, entry))
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
def set_num_buckets(arrays: TrieArrays, num_entries: int) -> None:
    """Make an empty hash table for so many entries."""
    state = arrays.state
    state[NUM_BUCKETS] = max(state[NUM_BUCKETS], num_entries)
    while state[BUCKET_MASK] < state[NUM_BUCKETS] - 1:
        state[BUCKET_MASK] = 2 * state[BUCKET_MASK] + 1
    arrays.buckets[: state[NUM_BUCKETS]] = NONE


@compiled
def _grow(arrays: TrieArrays) -> None:
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
        _link_into_bucket(arrays, entry)
        entry = following


@compiled
def _link_into_bucket(arrays: TrieArrays, entry: int) -> None:
    bucket = _bucket_of(arrays, hash_of(arrays, entry))
    arrays.lists[entry, CHAIN] = arrays.buckets[bucket]
    arrays.buckets[bucket] = entry


@compiled
def _bucket_of(arrays: TrieArrays, ngram_hash: int) -> np.int64:
    mixed = np.uint64(ngram_hash) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    mask = arrays.state[BUCKET_MASK]
    bucket: np.int64 = np.int64(mixed >> np.uint64(32)) & mask
    return bucket if bucket < arrays.state[NUM_BUCKETS] else bucket & (mask >> 1)
