"""What a Learn call brings, and how it is gathered into few writes."""

from __future__ import annotations

from dataclasses import dataclass, field

from trie_service.namespace import NamespaceRecord, NamespaceRef
from trie_service.sequence import TokenArray, TokenSequence

MAX_BATCH_SEQUENCES = 256
MAX_BATCH_TOKENS = 1 << 18


@dataclass(frozen=True, slots=True)
class LearnItem:
    """One sequence as a caller sends it."""

    namespace: NamespaceRef
    sequence_id: str
    tokens: TokenArray  # [len]
    context_len: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is in the system of record now."""

    num_sequences: int = 0
    num_tokens: int = 0  # context not counted


@dataclass(slots=True)
class LearnBatch:
    """Sequences on their way to the store, by namespace."""

    sequences: dict[NamespaceRecord, list[TokenSequence]] = field(default_factory=dict)
    num_sequences: int = 0
    num_tokens: int = 0

    def add(self, record: NamespaceRecord, sequence: TokenSequence) -> None:
        """Take one more sequence."""
        self.sequences.setdefault(record, []).append(sequence)
        self.num_sequences += 1
        self.num_tokens += len(sequence.tokens)

    @property
    def is_full(self) -> bool:
        """Whether it should be written before more is taken."""
        return self.num_sequences >= MAX_BATCH_SEQUENCES or self.num_tokens >= MAX_BATCH_TOKENS
