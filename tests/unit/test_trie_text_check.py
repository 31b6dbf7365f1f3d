"""The fast check finds what is wrong, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trie_service.held_text import MIN_BYTES, HeldText
from trie_service.sequence import TokenSequence
from trie_service.text_check import problems_of

MAX_ORDER = 4


def text_of(texts: list[list[int]]) -> HeldText:
    text = HeldText(max_order=MAX_ORDER, max_bytes=MIN_BYTES)
    for number, tokens in enumerate(texts):
        sequence = TokenSequence(str(number), np.array(tokens, dtype=np.int32), len(tokens) // 3)
        assert sum(text.insert(sequence, number)) > 0
    return text


def problems(arrays: dict[str, np.ndarray]) -> list[str]:
    return problems_of(arrays, max_order=MAX_ORDER, max_bytes=MIN_BYTES)


texts = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=15), max_size=8)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(texts, st.sets(st.integers(0, 7)), st.integers(0, 60))
def test_sound_text_has_no_problems_whatever_was_forgotten_and_evicted(
    sequences: list[list[int]], forgotten: set[int], num_evicted: int
) -> None:
    text = text_of(sequences)
    for number in forgotten:
        list(text.forget(str(number)))
    text.trie.evict(num_evicted)
    assert problems(text.to_arrays()) == []


@pytest.mark.parametrize("name", ["counts", "tokens", "parents", "slots", "words", "sequences"])
def test_a_wrong_number_is_found(name: str) -> None:
    sequences = [[1, 2, 3, 1, 2, 3, 1, 2, 4], [1, 2, 3, 4, 5]]
    arrays = text_of(sequences).to_arrays()
    repeated = arrays["counts"] > 1
    at = int(np.flatnonzero(repeated)[0]) if len(arrays[name]) == len(repeated) else len(arrays[name]) // 2
    arrays[name][at] += 1000
    assert len(problems(arrays)) == 1


def test_a_single_count_that_is_off_by_one_is_found() -> None:
    arrays = text_of([[1, 2, 3, 1, 2, 3, 1, 2, 4]]).to_arrays()
    for at in np.flatnonzero(arrays["counts"] > 1):
        wrong = {**arrays, "counts": arrays["counts"].copy()}
        wrong["counts"][at] += 1
        assert problems(wrong) == ["the trie counts 1 n-grams otherwise than its text has them"]


def test_a_missing_array_is_named() -> None:
    arrays = text_of([[1, 2]]).to_arrays()
    del arrays["words"]
    (problem,) = problems(arrays)
    assert "'words'" in problem
