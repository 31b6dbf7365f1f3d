"""Token sequences: what is learned and what is asked with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trie_service.errors import InvalidArgumentError

Int32Array = npt.NDArray[np.int32]
TokenArray = npt.NDArray[np.int64]  # token ids as they came from outside, not yet checked

MAX_SEQUENCE_LEN = 1 << 18
MAX_SEQUENCE_ID_LEN = 256


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A sequence to learn. The leading ``context_len`` tokens are matched but never drafted."""

    sequence_id: str
    tokens: Int32Array  # [len]
    context_len: int = 0

    @classmethod
    def checked(
        cls, sequence_id: str, tokens: TokenArray, context_len: int, vocab_size: int
    ) -> TokenSequence:
        """Build one from foreign values; raise InvalidArgumentError that names a wrong one."""
        if len(sequence_id) > MAX_SEQUENCE_ID_LEN:
            raise InvalidArgumentError(
                f"sequence_id of {len(sequence_id)} characters exceeds {MAX_SEQUENCE_ID_LEN}"
            )
        if len(tokens) == 0:
            raise InvalidArgumentError(f"sequence {sequence_id!r} has no tokens")
        if len(tokens) > MAX_SEQUENCE_LEN:
            raise InvalidArgumentError(
                f"sequence {sequence_id!r} has {len(tokens)} tokens, more than {MAX_SEQUENCE_LEN}: split it"
            )
        if context_len >= len(tokens):
            raise InvalidArgumentError(
                f"context_len {context_len} leaves nothing to learn of the {len(tokens)} tokens "
                f"of sequence {sequence_id!r}"
            )
        return cls(sequence_id, checked_tokens(tokens, vocab_size), context_len)

    @property
    def num_learned(self) -> int:
        """Tokens that can be drafted afterwards."""
        return len(self.tokens) - self.context_len

    def check_vocabulary(self, vocab_size: int) -> None:
        """Raise InvalidArgumentError naming the first token that is not below ``vocab_size``."""
        checked_tokens(self.tokens.astype(np.int64), vocab_size)

    def pieces(self, piece_len: int, overlap: int) -> Iterator[TokenSequence]:
        """Cut so that a piece learns at most ``piece_len`` tokens, ``overlap`` tokens before it its context.

        Learning all the pieces learns what the whole would have taught to matches of up to ``overlap``.
        """
        first = max(0, self.context_len - overlap)
        for start in range(self.context_len, len(self.tokens), piece_len):
            begin = max(first, start - overlap)
            yield TokenSequence(self.sequence_id, self.tokens[begin : start + piece_len], start - begin)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Takes back what the sequence of that name taught."""

    sequence_id: str


def checked_tokens(tokens: TokenArray, vocab_size: int) -> Int32Array:
    """Narrow token ids; raise InvalidArgumentError naming the first that is not below ``vocab_size``."""
    wrong = tokens.astype(np.uint64) >= vocab_size  # negative ones are huge then
    if np.count_nonzero(wrong):
        at = int(wrong.argmax())
        raise InvalidArgumentError(
            f"token id {tokens[at]} at index {at} is not below the namespace's vocabulary size {vocab_size}"
        )
    return tokens.astype(np.int32)
