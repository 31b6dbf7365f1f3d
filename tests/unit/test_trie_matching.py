"""All suffixes of a text matched at once are those that are matched token by token."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from trie_service.matching import (
    LEAF_ORDER,
    LEAF_SLOT,
    NODE,
    NODE_ORDER,
    NUM_MATCH_CELLS,
    extend_match,
    match_text,
)
from trie_service.ngram_table import hash_suffixes, hash_with
from trie_service.trie import Trie
from trie_service.trie_arrays import NONE, ROOT

MAX_ORDER = 5
texts = st.lists(st.integers(0, 4), min_size=1, max_size=50)


def array(tokens: list[int]) -> npt.NDArray[np.int32]:
    return np.array(tokens, dtype=np.int32)


def matched_token_by_token(trie: Trie, text: list[int]) -> npt.NDArray[np.int32]:
    match = np.zeros(NUM_MATCH_CELLS, dtype=np.int32)
    match[NODE] = ROOT
    for token in text[-trie.max_order :]:
        place = (int(match[NODE]), int(match[NODE_ORDER]), NONE)
        extend_match(trie.arrays, match, token, place, trie.max_order, match)
    return match


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(texts, st.integers(0, 8)), max_size=12), st.lists(texts, min_size=1, max_size=10))
def test_matching_at_once_is_matching_token_by_token(learned: list, asked: list) -> None:
    trie = Trie(max_order=MAX_ORDER, max_bytes=4096)  # so few bytes that old text is evicted
    for tokens, context_len in learned:
        trie.insert(array(tokens), min(context_len, len(tokens)))
    for text in [*asked, *(tokens for tokens, _ in learned)]:
        expected = matched_token_by_token(trie, text)
        found = np.zeros(NUM_MATCH_CELLS, dtype=np.int32)
        match_text(trie.arrays, array(text), MAX_ORDER, found)
        cells = [NODE, NODE_ORDER, LEAF_ORDER] + [LEAF_SLOT] * int(expected[LEAF_ORDER] > 0)
        assert found[cells].tolist() == expected[cells].tolist()


def test_text_that_was_evicted_lengthens_no_match() -> None:
    trie = Trie(max_order=MAX_ORDER)
    trie.insert(array([1, 2, 3, 4, 5, 6]))
    trie.evict(2)
    match = np.zeros(NUM_MATCH_CELLS, dtype=np.int32)
    match_text(trie.arrays, array([1, 2, 3, 4, 5]), MAX_ORDER, match)
    assert match[LEAF_ORDER] == 3


def test_tokens_that_no_trie_can_hold_are_not_matched() -> None:
    trie = Trie(max_order=MAX_ORDER)
    trie.insert(array([1, 2, 3]))
    match = np.zeros(NUM_MATCH_CELLS, dtype=np.int32)
    match_text(trie.arrays, array([-1, 2**31 - 1, -(2**31), 1 << 30]), MAX_ORDER, match)
    assert match[[NODE, NODE_ORDER, LEAF_ORDER]].tolist() == [ROOT, 0, 0]


def test_hashes_of_suffixes_are_those_of_the_same_ngrams() -> None:
    text = np.random.default_rng(4).integers(0, 1 << 30, 17, dtype=np.int32)
    hashes = np.empty(len(text) + 1, dtype=np.int64)
    hash_suffixes(text, hashes)
    for length in range(len(text) + 1):
        expected = 0
        for token in text[len(text) - length :].tolist():
            expected = hash_with(expected, token)
        assert hashes[length] == expected
