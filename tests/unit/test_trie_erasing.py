"""Words of the ring that are let go by their place: evicted, or taken back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trie_service.trie import Trie
from trie_service.trie_arrays import CONTEXT_FLAG, FORGOTTEN

texts = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=12), min_size=1, max_size=8)


def trie_of(sequences: list[list[int]]) -> Trie:
    trie = Trie(max_order=3, max_bytes=1 << 20)
    for tokens in sequences:
        trie.insert(np.array(tokens, dtype=np.int32))
    return trie


@settings(max_examples=100, deadline=None, derandomize=True)
@given(texts, st.data())
def test_a_sequence_taken_back_by_its_place_leaves_no_trace(
    sequences: list[list[int]], data: st.DataObject
) -> None:
    trie = trie_of(sequences)
    chosen = data.draw(st.integers(0, len(sequences) - 1))
    offset = sum(len(tokens) + 1 for tokens in sequences[:chosen])
    assert trie.forget_at(offset) == len(sequences[chosen]) + 1
    trie.check()
    rest = sequences[:chosen] + sequences[chosen + 1 :]
    assert (trie.num_tokens, trie.num_sequences) == (sum(map(len, rest)), len(rest))
    words = trie.to_arrays()["words"]
    assert words[words != FORGOTTEN].tolist() == [word for tokens in rest for word in [*tokens, -1]]
    assert trie.forget_at(offset) == 1
    assert trie.num_sequences == len(rest)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(texts, st.integers(0, 120))
def test_the_oldest_words_leave(sequences: list[list[int]], num_words: int) -> None:
    trie = trie_of(sequences)
    words = trie.to_arrays()["words"].tolist()
    trie.evict(num_words)
    trie.check()
    assert trie.to_arrays()["words"].tolist() == words[num_words:]
    assert trie.num_words == len(words[num_words:])
    assert trie.words(0, trie.num_words).tolist() == words[num_words:]


def test_the_rest_of_a_cut_sequence_is_taken_back() -> None:
    trie = trie_of([[1, 2, 3], [4, 5]])
    trie.evict(2)
    assert trie.forget_at(0) == 2
    trie.check()
    assert trie.num_tokens == 2


def test_a_context_is_taken_back_with_its_text() -> None:
    trie = Trie(max_order=3, max_bytes=1 << 20)
    trie.insert(np.array([1, 2, 3], dtype=np.int32), context_len=2)
    assert trie.to_arrays()["words"][0] == 1 | CONTEXT_FLAG
    assert trie.forget_at(0) == 4
    assert (trie.num_tokens, trie.num_nodes) == (0, 0)


@pytest.mark.parametrize("offset", [-1, 4])
def test_a_place_that_holds_nothing_is_refused(offset: int) -> None:
    with pytest.raises(IndexError, match=f"offset {offset}"):
        trie_of([[1, 2, 3]]).forget_at(offset)
