"""Cutting sequences into pieces, checking foreign ones."""

from __future__ import annotations

import numpy as np
import pytest

from trie_service.errors import InvalidArgumentError
from trie_service.sequence import TokenSequence


@pytest.mark.parametrize("context_len", [0, 3, 50])
@pytest.mark.parametrize("num_tokens", [1, 10, 100, 101])
def test_pieces_teach_every_token_once_with_the_context_before_it(num_tokens: int, context_len: int) -> None:
    tokens = np.arange(context_len + num_tokens, dtype=np.int32)
    learned: list[int] = []
    for piece in TokenSequence("s", tokens, context_len).pieces(10, overlap=4):
        new = piece.tokens[piece.context_len :].tolist()
        before = piece.tokens[: piece.context_len].tolist()
        assert before == list(range(new[0]))[-4:]
        assert len(new) <= 10
        learned += new
    assert learned == list(range(context_len, context_len + num_tokens))


def test_a_foreign_sequence_is_narrowed() -> None:
    sequence = TokenSequence.checked("s", np.array([1, 2], dtype=np.int64), 1, vocab_size=3)
    assert sequence.tokens.dtype == np.int32
    assert sequence.num_learned == 1


def test_a_sequence_id_has_a_bound() -> None:
    with pytest.raises(InvalidArgumentError, match="sequence_id of 257"):
        TokenSequence.checked("x" * 257, np.array([1], dtype=np.int64), 0, vocab_size=3)
