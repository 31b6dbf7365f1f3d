"""The memory of one trie: flat arrays that the compiled code reads and writes.

All of a trie's bytes are reserved as address space when it is made, and become memory page by page as
they are first written. So nothing is ever copied in order to grow, and there is no pause for it.
"""

from __future__ import annotations

import mmap
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trie_service.compiled import compiled

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]

NONE: Final = -1
ROOT: Final = 0

# Columns of an entry, which is a node or a leaf of the trie: 32 bytes, half a cache line.
TOKEN: Final = 0
PARENT: Final = 1
COUNT: Final = 2  # how often the token was drafted text after the parent's n-gram
TOTAL: Final = 3  # sum of the children's counts; of a leaf always 0
CHILD: Final = 4  # first child or NONE; of a leaf LEAF_BASE - (ring slot of its token)
NEXT: Final = 5  # next sibling or NONE
LINK: Final = 6  # suffix link: the entry of the n-gram without its oldest token; of a leaf NONE if not known
FOLLOWERS: Final = 7  # children whose count is not 0; or NOTED + a note, which says how many
NUM_COLUMNS: Final = 8
LEAF_BASE: Final = -2
NOTED: Final = 1 << 30

# Columns of an entry's places in lists, which drafting seldom needs.
PREV: Final = 0  # previous sibling; of the first sibling the last one
CHAIN: Final = 1  # next entry of the same hash bucket, or of the free list, or NONE
HASH: Final = 2  # of the n-gram, 32 bits
NUM_LISTS: Final = 3

# Columns of a note: the number of followers, or the next free note or NONE; then children, NONE where unknown.
NOTE_COLUMNS: Final = 8

# Words of the token ring that are not tokens, and the mark of a context token.
SEPARATOR: Final = -1
FORGOTTEN: Final = -2
CONTEXT_FLAG: Final = 1 << 30
TOKEN_MASK: Final = CONTEXT_FLAG - 1

# Cells of the state array.
HEAD: Final = 0  # ring slot of the next word
TAIL: Final = 1  # ring slot of the oldest word
NUM_WORDS: Final = 2  # words between them
TAIL_IS_CUT: Final = 3  # 1 when the oldest sequence has lost its beginning
PEAK_WORDS: Final = 4  # ring slots ever written
FREE_ENTRY: Final = 5  # first entry of the free list, or NONE
NUM_ENTRIES: Final = 6  # entries in use, the root included
PEAK_ENTRIES: Final = 7  # entries ever used
NUM_BUCKETS: Final = 8
BUCKET_MASK: Final = 9  # the power of two above the last bucket's number, less one
NUM_SEQUENCES: Final = 10
NUM_TOKENS: Final = 11
FREE_NOTE: Final = 12  # first free note, or NONE
PEAK_NOTES: Final = 13  # notes ever used
NUM_CELLS: Final = 14

_BYTES_PER_WORD: Final = 4
_BYTES_PER_ENTRY: Final = 4 * (NUM_COLUMNS + NUM_LISTS)
_BYTES_PER_NOTE: Final = 4 * NOTE_COLUMNS
_ENTRIES_PER_NOTE: Final = 32  # traces have 100; without a note drafting is slower
_RING_SHARE: Final = 8  # one byte in so many is the ring's
_FIRST_BUCKETS: Final = 64
MIN_BYTES: Final = 4 * 2**10


class TrieArrays(NamedTuple):
    """Entries of the trie, the hash table over them, the ring of learned tokens, and counters."""

    entries: Int32Array  # [entry, column]
    lists: Int32Array  # [entry, column]
    notes: Int32Array  # [note, column], of nodes with many followers
    buckets: Int32Array  # [bucket], first entry of the bucket or NONE
    ring: Int32Array  # [slot], token, flagged token, SEPARATOR or FORGOTTEN
    state: Int64Array  # [cell]

    @classmethod
    def reserve(cls, max_bytes: int) -> TrieArrays:
        """An empty trie that will never take more than ``max_bytes``; ValueError if that is too few."""
        if max_bytes < MIN_BYTES:
            raise ValueError(f"max_bytes is {max_bytes}, but a trie needs at least {MIN_BYTES}")
        ring_bytes = max_bytes // _RING_SHARE
        bucket_and_note = _BYTES_PER_WORD + _BYTES_PER_NOTE // _ENTRIES_PER_NOTE
        num_entries = (max_bytes - ring_bytes) // (_BYTES_PER_ENTRY + bucket_and_note)
        num_notes = num_entries // _ENTRIES_PER_NOTE
        arrays = cls(
            entries=_reserve(num_entries * NUM_COLUMNS).reshape(num_entries, NUM_COLUMNS),
            lists=_reserve(num_entries * NUM_LISTS).reshape(num_entries, NUM_LISTS),
            notes=_reserve(num_notes * NOTE_COLUMNS).reshape(num_notes, NOTE_COLUMNS),
            buckets=_reserve(num_entries),
            ring=_reserve(ring_bytes // _BYTES_PER_WORD),
            state=np.zeros(NUM_CELLS, dtype=np.int64),
        )
        clear(arrays)
        return arrays

    @property
    def num_bytes(self) -> int:
        """Bytes that have been written at least once and so take memory."""
        words = int(self.state[PEAK_WORDS] + self.state[NUM_BUCKETS])
        note_bytes = _BYTES_PER_NOTE * int(self.state[PEAK_NOTES])
        return _BYTES_PER_WORD * words + _BYTES_PER_ENTRY * int(self.state[PEAK_ENTRIES]) + note_bytes


@compiled
def clear(arrays: TrieArrays) -> None:
    """Empty a trie."""
    arrays.state[:] = 0
    arrays.entries[ROOT, :] = NONE
    arrays.entries[ROOT, COUNT] = arrays.entries[ROOT, TOTAL] = arrays.entries[ROOT, FOLLOWERS] = 0
    arrays.lists[ROOT, :] = NONE
    arrays.lists[ROOT, HASH] = 0
    arrays.buckets[:_FIRST_BUCKETS] = NONE
    arrays.state[FREE_ENTRY] = arrays.state[FREE_NOTE] = NONE
    arrays.state[NUM_ENTRIES] = arrays.state[PEAK_ENTRIES] = 1
    arrays.state[NUM_BUCKETS] = _FIRST_BUCKETS
    arrays.state[BUCKET_MASK] = _FIRST_BUCKETS - 1


def _reserve(num_words: int) -> Int32Array:
    pages = mmap.mmap(-1, _BYTES_PER_WORD * num_words, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(pages, dtype=np.int32)
