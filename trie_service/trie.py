"""The draft index of one namespace: a counted n-gram trie over a ring of learned tokens.

The trie grows lazily: an n-gram that was seen once is only a leaf, which points into the ring; it becomes a
node when it is seen again. So memory and the cost of learning follow what repeats. Counts are exact
for the text that the ring holds. Once the byte bound is reached, the oldest text leaves token by token.
Counts do not decay: the ring bounds their age, and decayed counts could not be taken back exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from trie_service.ngrams import evict_words, forget_at, forget_sequence, insert_sequence
from trie_service.trie_arrays import (
    CONTEXT_FLAG,
    NUM_ENTRIES,
    NUM_SEQUENCES,
    NUM_TOKENS,
    NUM_WORDS,
    TAIL,
    TOKEN_MASK,
    Int32Array,
    TrieArrays,
)
from trie_service.trie_check import check_trie
from trie_service.trie_image import Image, fits, image_of, load_image, max_order_of, sequences_of

DEFAULT_MAX_ORDER = 8
DEFAULT_MAX_BYTES = 256 * 2**20


class Trie:
    """Learns sequences of tokens and counts what followed every suffix of up to ``max_order`` tokens.

    Not thread-safe: callers hold a lock. The compiled code releases the interpreter lock meanwhile.
    """

    def __init__(self, *, max_order: int = DEFAULT_MAX_ORDER, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        """Raise ValueError for an order out of 1..32 or for too few bytes."""
        if not 1 <= max_order <= 32:
            raise ValueError(f"max_order is {max_order}, but must be 1 to 32")
        self.max_order = max_order
        self.arrays = TrieArrays.reserve(max_bytes)

    def insert(self, tokens: Int32Array, context_len: int = 0) -> None:
        """Learn one sequence, whose first ``context_len`` tokens are matched but never drafted.

        Takes about a microsecond a token. A long text can be learned in parts, with the last
        ``max_order`` tokens of one part as the context of the next: the counts are the same. Raises
        ValueError for tokens out of 0..2^30-1 or a context longer than the sequence.
        """
        words = self._words_of(tokens, context_len)
        if len(words) > 0:
            insert_sequence(self.arrays, words, self.max_order)

    def forget(self, tokens: Int32Array, context_len: int = 0) -> bool:
        """Take one earlier ``insert`` of the same arguments back; False if none is held any more.

        Takes microseconds a token. Only where all of its text occurs elsewhere too is the whole ring searched:
        a few milliseconds for a million tokens.
        """
        words = self._words_of(tokens, context_len)
        return len(words) > 0 and bool(forget_sequence(self.arrays, words, self.max_order))

    def forget_at(self, offset: int) -> int:
        """Take back the ``insert`` whose first word lies ``offset`` words after the oldest one of the ring.

        Returns the words of the ring that it took; 1 where it was taken back before. Raises IndexError for
        an offset past the newest word.
        """
        if not 0 <= offset < self.num_words:
            raise IndexError(f"offset {offset} is not within the {self.num_words} words held")
        return int(forget_at(self.arrays, offset, self.max_order))

    def evict(self, num_words: int) -> None:
        """Let the oldest ``num_words`` words of the ring go; about a microsecond each."""
        evict_words(self.arrays, num_words, self.max_order)

    def to_arrays(self) -> Image:
        """Copy all that the trie holds into plain arrays, 16 bytes an entry and 4 a token.

        About 0.2 s a million tokens. It only reads: drafts may go on in other threads, learning may not.
        """
        return image_of(self.arrays, self.max_order)

    @classmethod
    def from_arrays(
        cls,
        image: Mapping[str, npt.NDArray[Any]],
        *,
        max_order: int | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> Self:
        """The trie that ``to_arrays`` copied, about 0.2 s a million tokens.

        With another ``max_order``, or fewer bytes than it takes, its text is learned anew, the newest part
        that fits: about a second a million tokens. Raises ValueError, naming the array, for arrays that are
        no image of a trie; hostile ones included, none of them can make it read or write out of bounds.
        """
        image_order = max_order_of(image)
        trie = cls(max_order=image_order if max_order is None else max_order, max_bytes=max_bytes)
        if fits(image, trie.arrays, trie.max_order):
            load_image(image, trie.arrays, trie.max_order)
            return trie
        for words in sequences_of(image["words"]):
            insert_sequence(trie.arrays, words[-(len(trie.arrays.ring) - 1) :], trie.max_order)
        return trie

    def words(self, offset: int, num_words: int) -> Int32Array:
        """Copy words of the ring, ``offset`` words after the oldest one: tokens, flagged context, marks."""
        slots = (int(self.arrays.state[TAIL]) + offset + np.arange(num_words)) % len(self.arrays.ring)
        return self.arrays.ring[slots]

    @property
    def num_sequences(self) -> int:
        """Sequences held, one that is partly evicted included."""
        return int(self.arrays.state[NUM_SEQUENCES])

    @property
    def num_tokens(self) -> int:
        """Tokens held, context not counted."""
        return int(self.arrays.state[NUM_TOKENS])

    @property
    def num_words(self) -> int:
        """Words of the ring in use: tokens, context and one more for each ``insert``."""
        return int(self.arrays.state[NUM_WORDS])

    @property
    def num_nodes(self) -> int:
        """Nodes and leaves in use."""
        return int(self.arrays.state[NUM_ENTRIES]) - 1

    @property
    def num_bytes(self) -> int:
        """Bytes of memory taken; never more than ``max_bytes``."""
        return self.arrays.num_bytes

    def check(self) -> None:
        """Assert every invariant of the structure. Slow: for tests."""
        check_trie(self.arrays, self.max_order)

    def _words_of(self, tokens: Int32Array, context_len: int) -> Int32Array:
        """The ring's form of a sequence: context that no n-gram needs cut off, the rest of it flagged."""
        if not 0 <= context_len <= len(tokens):
            raise ValueError(f"context_len is {context_len}, but there are {len(tokens)} tokens")
        words = np.array(tokens, dtype=np.int32)
        if len(words) == context_len:
            return words[:0]
        if int(words.min()) < 0 or int(words.max()) > TOKEN_MASK:
            raise ValueError(f"tokens {words.min()}..{words.max()} are not all within 0..{TOKEN_MASK}")
        words[:context_len] |= CONTEXT_FLAG
        most = min(len(words) - context_len + self.max_order, len(self.arrays.ring) - 1)
        return np.array(words[-most:])
