"""What one replica holds of one namespace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trie_service.drafting import Draft, DraftLimits, draft
from trie_service.namespace import NamespaceRecord
from trie_service.sequence import TokenArray, TokenSequence, checked_tokens
from trie_service.store import START, LogEntry
from trie_service.trie import Trie

PIECE_LEN = 512  # tokens inserted at one go, a millisecond or so


@dataclass(frozen=True, slots=True)
class NamespaceStats:
    """What a replica holds of a namespace, and what it did with it."""

    num_sequences: int
    num_tokens: int
    num_nodes: int
    num_bytes: int
    num_lookups: int
    num_hits: int
    num_drafted_nodes: int
    num_pending: int


class NamespaceMemory:
    """A trie, the place in the log up to which it is complete, and counters."""

    def __init__(self, record: NamespaceRecord, *, max_order: int, max_bytes: int) -> None:
        self.record = record
        self.position = START
        self._trie = Trie(max_order=max_order, max_bytes=max_bytes)
        self._max_order = max_order
        self._applied = 0  # number of the newest applied entry
        self._head = 0  # number of the newest entry known to be in the log
        self._num_sequences = self._num_tokens = 0
        self._num_lookups = self._num_hits = self._num_drafted_nodes = 0

    def insert(self, sequence: TokenSequence) -> Iterator[int]:
        """Learn a sequence piece by piece; yield the tokens of each, so that others get a turn."""
        for piece in sequence.pieces(PIECE_LEN, overlap=self._max_order):
            self._trie.insert(piece.tokens, context_len=piece.context_len)
            yield len(piece.tokens)
        self._num_sequences += 1
        self._num_tokens += sequence.num_learned

    def advance(self, entry: LogEntry) -> None:
        """Memory is complete up to this entry of the log."""
        self.position = entry.position
        self._applied = max(self._applied, entry.number)
        self.note_head(entry.number)

    def rewind(self) -> None:
        """Read the log from its start: it is a new one."""
        self.position = START
        self._applied = self._head = 0

    def note_head(self, number: int) -> None:
        """Take note of the number of the log's newest entry."""
        self._head = max(self._head, number)

    def draft(self, context: TokenArray, limits: DraftLimits) -> Draft:
        """Draft what follows ``context``; raise InvalidArgumentError for a token not in the vocabulary."""
        tokens = checked_tokens(context[-self._max_order :], self.record.vocab_size)
        found = draft(self._trie, tokens, limits)
        self._num_lookups += 1
        self._num_hits += len(found.tokens) > 0
        self._num_drafted_nodes += len(found.tokens)
        return found

    def stats(self) -> NamespaceStats:
        """The figures as they are now."""
        return NamespaceStats(
            num_sequences=self._num_sequences,
            num_tokens=self._num_tokens,
            num_nodes=self._trie.num_nodes,
            num_bytes=self._trie.num_bytes,
            num_lookups=self._num_lookups,
            num_hits=self._num_hits,
            num_drafted_nodes=self._num_drafted_nodes,
            num_pending=self._head - self._applied,
        )
