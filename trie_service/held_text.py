"""The text that a namespace's memory holds: a trie, and the names and ages of what is in it.

Whatever takes long is a generator that yields the words it dealt with every millisecond or so, so that
others get a turn. Nothing else may change the text between two yields; drafts may read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trie_service.ledger import BYTES_PER_ROW, Int64Array, Ledger, Row, hash_of
from trie_service.sequence import TokenSequence
from trie_service.trie import Trie
from trie_service.trie_arrays import CONTEXT_FLAG, FORGOTTEN, TOKEN_MASK, Int32Array
from trie_service.trie_image import sequences_of

Arrays = Mapping[str, npt.NDArray[Any]]

PIECE_LEN: Final = 512  # words dealt with at one go, a millisecond or so
MIN_BYTES: Final = 1 << 20
ROWS_NAME: Final = "sequences"  # among the arrays, beside the trie's own

_LEDGER_SHARE: Final = 8  # one byte in so many is the ledger's


class HeldText:
    """Learns, forgets and lets expire; never takes more than ``max_bytes``."""

    def __init__(self, *, max_order: int, max_bytes: int) -> None:
        """Raise ValueError for fewer bytes than MIN_BYTES or an order that a trie refuses."""
        if max_bytes < MIN_BYTES:
            raise ValueError(f"max_bytes is {max_bytes}, but must be at least {MIN_BYTES}")
        self.max_order = max_order
        self.max_bytes = max_bytes
        self.trie = Trie(max_order=max_order, max_bytes=_trie_bytes(max_bytes))
        self._ledger = Ledger()
        self._end = 0  # words ever written to the ring
        self.num_learned_tokens = 0
        self.num_forgotten_tokens = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of memory taken."""
        return self.trie.num_bytes + len(self._ledger) * BYTES_PER_ROW

    @property
    def num_evicted_tokens(self) -> int:
        """Tokens that left because of the bound in bytes or their age."""
        return self.num_learned_tokens - self.num_forgotten_tokens - self.trie.num_tokens

    def holds(self, sequence_id: str) -> bool:
        """Whether something of the sequence of that name is held."""
        return self._ledger.find(sequence_id) is not None

    def num_tokens_of(self, sequence_id: str) -> int:
        """Tokens held of the sequence of that name, context not counted."""
        row = self._ledger.find(sequence_id)
        if row is None:
            return 0
        start = max(row.start, self._oldest)
        words = self.trie.words(start - self._oldest, row.end - start)
        return int(np.count_nonzero((words >= 0) & (words < CONTEXT_FLAG)))

    def insert(self, sequence: TokenSequence, appended_ms: int) -> Iterator[int]:
        """Learn a sequence, unless one of its name is held."""
        if self.holds(sequence.sequence_id):
            return
        start = self._end
        for piece in sequence.pieces(PIECE_LEN, overlap=self.max_order):
            self.trie.insert(piece.tokens, context_len=piece.context_len)
            self._end += len(piece.tokens) + 1
            self.num_learned_tokens += piece.num_learned
            yield len(piece.tokens)
        name_hash = hash_of(sequence.sequence_id)
        self._ledger.add(Row(name_hash, appended_ms, start, self._end - start, sequence.num_learned))
        yield from self._evict_unnamed()

    def forget(self, sequence_id: str) -> Iterator[int]:
        """Take back what the sequence of that name taught, as far as it is still held."""
        row = self._ledger.find(sequence_id)
        if row is None:
            return
        self._ledger.remove(row)
        at = max(row.start, self._oldest)
        while at < row.end:
            num_tokens = self.trie.num_tokens
            num_words = self.trie.forget_at(at - self._oldest)
            self.num_forgotten_tokens += num_tokens - self.trie.num_tokens
            at += num_words
            yield num_words

    def expire(self, before_ms: int) -> Iterator[int]:
        """Let go of what was learned before a moment."""
        while (row := self._ledger.oldest()) is not None and row.appended_ms < before_ms:
            yield self._evict(row)

    def digest(self) -> str:
        """Equal for equal text in equal order, whatever was forgotten in between and however it is stored."""
        words = self.trie.words(0, self.trie.num_words)
        digest = blake2b(words[words != FORGOTTEN].astype("<i4").tobytes(), digest_size=16)
        digest.update(self._ledger.to_array(self._end)[:, 0].astype("<i8").tobytes())
        return digest.hexdigest()

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Copy all of it. Only reads: drafts may go on in other threads, changes may not."""
        return {**self.trie.to_arrays(), ROWS_NAME: self._ledger.to_array(self._end)}

    @classmethod
    def from_arrays(cls, arrays: Arrays, *, max_order: int, max_bytes: int) -> HeldText:
        """What ``to_arrays`` copied, the newest of it that fits; ValueError for arrays that make no sense."""
        text = cls(max_order=max_order, max_bytes=max_bytes)
        text.trie = Trie.from_arrays(arrays, max_order=max_order, max_bytes=_trie_bytes(max_bytes))
        if ROWS_NAME not in arrays:
            raise ValueError(f"there is no array {ROWS_NAME!r}")
        rows, words = arrays[ROWS_NAME], arrays["words"]
        text._end = len(words)
        Ledger.from_array(rows, text._end)
        if text.trie.num_words != len(words):
            rows = _without_forgotten(rows, words)
        text._ledger = Ledger.from_array(rows, text._end)
        text.num_learned_tokens = text.trie.num_tokens
        for _ in text._evict_unnamed():
            pass
        return text

    def words(self) -> tuple[Int32Array, Int64Array]:
        """Copy the words held, tokens, flagged context and separators, and the rows of the ledger for them."""
        words = self.trie.words(0, self.trie.num_words)
        rows = _without_forgotten(self._ledger.to_array(self._end), words)
        return words[words != FORGOTTEN], rows

    @classmethod
    def from_words(cls, words: Int32Array, rows: Int64Array, *, max_order: int, max_bytes: int) -> HeldText:
        """What ``words`` gave, the newest of it that fits; ValueError where it makes no sense."""
        text = cls(max_order=max_order, max_bytes=max_bytes)
        text._end = len(words)
        text._ledger = Ledger.from_array(rows, text._end)
        for sequence in sequences_of(words):
            context_len = int(np.count_nonzero(sequence & CONTEXT_FLAG))
            text.trie.insert(sequence & TOKEN_MASK, context_len=context_len)
        text.num_learned_tokens = text.trie.num_tokens
        for _ in text._evict_unnamed():
            pass
        return text

    def resized(self, max_bytes: int) -> HeldText:
        """The same text, the newest of it that fits, under another bound."""
        text = HeldText.from_arrays(self.to_arrays(), max_order=self.max_order, max_bytes=max_bytes)
        text.num_learned_tokens = self.num_learned_tokens
        text.num_forgotten_tokens = self.num_forgotten_tokens
        return text

    @property
    def _oldest(self) -> int:
        return self._end - self.trie.num_words

    def _evict(self, row: Row) -> int:
        num_words = min(PIECE_LEN, row.end - self._oldest)
        self.trie.evict(num_words)
        self._ledger.drop_before(self._oldest)
        return max(1, num_words)

    def _evict_unnamed(self) -> Iterator[int]:
        """Keep the ledger in step with the ring, and within its share of the bytes."""
        self._ledger.drop_before(self._oldest)
        while len(self._ledger) > self.max_bytes // _LEDGER_SHARE // BYTES_PER_ROW:
            row = self._ledger.oldest()
            assert row is not None
            yield self._evict(row)


def _trie_bytes(max_bytes: int) -> int:
    return max_bytes - max_bytes // _LEDGER_SHARE


def _without_forgotten(rows: Int64Array, words: Int32Array) -> Int64Array:
    """Rows for a ring that was filled anew, without the words that had been forgotten."""
    kept = np.concatenate(([0], np.cumsum(words != FORGOTTEN)))  # [words + 1], kept before each word
    start = np.clip(len(words) - rows[:, 2], 0, len(words))
    end = np.clip(len(words) - rows[:, 2] + rows[:, 3], 0, len(words))
    moved = rows.copy()
    moved[:, 2] = kept[-1] - kept[start]
    moved[:, 3] = kept[end] - kept[start]
    return moved
