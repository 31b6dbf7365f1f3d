"""The trie against a naive model, and what learning and forgetting promise."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trie_service.drafting import Draft, DraftLimits, draft
from trie_service.trie import Trie
from trie_service.trie_arrays import CONTEXT_FLAG, FORGOTTEN, NUM_WORDS, SEPARATOR, TAIL, TOKEN_MASK

MAX_ORDER = 4
SMALLEST = 4096  # bytes: about a hundred entries
NUM_LETTERS = 6  # fewer than the followers that a draft looks at, so drafts are exact


class NaiveIndex:
    """What a trie must know: the words that it holds, and every n-gram of them in a dictionary."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.is_cut = False  # whether the oldest sequence has lost its beginning

    def insert(self, tokens: list[int], context_len: int) -> None:
        if context_len < len(tokens):
            self.words += self.words_of(tokens, context_len)

    def words_of(self, tokens: list[int], context_len: int) -> list[int]:
        flagged = [token | CONTEXT_FLAG for token in tokens[:context_len]] + tokens[context_len:]
        return [*flagged[max(0, context_len - MAX_ORDER) :], SEPARATOR]

    def evict_down_to(self, num_words: int) -> None:
        num_evicted = len(self.words) - num_words
        if num_evicted > 0:
            self.is_cut = self.words[num_evicted - 1] != SEPARATOR
            del self.words[:num_evicted]

    def forget(self, tokens: list[int], context_len: int) -> bool:
        """Forget the oldest equal sequence; the oldest of all may be a mere rest of it."""
        wanted = self.words_of(tokens, context_len)
        start = 0
        while start < len(self.words):
            end = self.words.index(SEPARATOR, start) + 1
            held = self.words[start:end]
            is_rest = start == 0 and self.is_cut and len(held) > 1 and wanted[-len(held) :] == held
            if held == wanted or is_rest:
                del self.words[start:end]
                self.is_cut = self.is_cut and start > 0
                return True
            start = end
        return False

    def followers(self) -> dict[tuple[int, ...], Counter[int]]:
        """How often each token followed each suffix of up to MAX_ORDER tokens."""
        followers: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for end, word in enumerate(self.words):
            if word < 0 or word & CONTEXT_FLAG:
                continue
            for order in range(1, min(MAX_ORDER, end) + 1):
                suffix = self.words[end - order : end]
                if SEPARATOR in suffix:
                    break
                followers[tuple(w & TOKEN_MASK for w in suffix)][word] += 1
        return followers


def array(*tokens: int) -> np.ndarray:
    return np.array(tokens, dtype=np.int32)


def words_held(trie: Trie) -> list[int]:
    arrays = trie.arrays
    slots = (arrays.state[TAIL] + np.arange(arrays.state[NUM_WORDS])) % len(arrays.ring)
    return [int(word) for word in arrays.ring[slots] if word != FORGOTTEN]


def assert_evidence_is_true(found: Draft, context: list[int], model: NaiveIndex) -> None:
    followers = model.followers()
    paths: list[list[int]] = []
    for node in range(len(found)):
        parent, token, order = int(found.parents[node]), int(found.tokens[node]), int(found.orders[node])
        assert -1 <= parent < node
        text = context + (paths[parent] if parent >= 0 else [])
        longest = next(
            n for n in range(min(MAX_ORDER, len(text)), 0, -1) if followers[tuple(text[-n:])][token] > 0
        )
        assert order == longest
        assert found.counts[node] == followers[tuple(text[-order:])][token]
        assert found.totals[node] == followers[tuple(text[-order:])].total()
        paths.append([*(paths[parent] if parent >= 0 else []), token])
    assert len({tuple(path) for path in paths}) == len(paths)


def assert_nothing_likely_is_missing(found: Draft, context: list[int], model: NaiveIndex) -> None:
    """Without a budget to spend, every token that followed the longest suffix often enough is drafted."""
    followers = model.followers()
    for order in range(min(MAX_ORDER, len(context)), 0, -1):
        after = followers[tuple(context[-order:])]
        if after.total() > 0:
            drafted = set(found.tokens[found.parents < 0].tolist())
            likely = {token for token, count in after.items() if count >= 0.2 * after.total()}
            assert likely <= drafted
            return
    assert len(found) == 0


letters = st.integers(0, NUM_LETTERS - 1)
texts = st.lists(letters, min_size=2, max_size=40)
long_texts = st.tuples(st.lists(letters, min_size=1, max_size=5), st.integers(1, 40)).map(
    lambda t: t[0] * t[1]
)
# Eviction needs no verb: the bound is so small that most inserts evict.
inserts = st.tuples(st.just("insert"), st.one_of(texts, long_texts), st.integers(0, 12))
forgets = st.tuples(st.just("forget"), st.integers(0, 30), st.just(0))
drafts = st.tuples(st.just("draft"), texts, st.integers(0, 20))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.one_of(inserts, inserts, forgets, drafts), min_size=10, max_size=30))
def test_trie_agrees_with_a_naive_model_after_every_operation(operations: list) -> None:
    trie, model = Trie(max_order=MAX_ORDER, max_bytes=SMALLEST), NaiveIndex()
    inserted: list[tuple[list[int], int]] = [([0, 1], 0)]
    for name, argument, number in operations:
        if name == "insert":
            inserted.append((argument, min(number, len(argument))))
            trie.insert(array(*argument), inserted[-1][1])
            model.insert(*inserted[-1])
            model.evict_down_to(len(words_held(trie)))
        elif name == "forget":
            tokens, context_len = inserted[argument % len(inserted)]
            assert trie.forget(array(*tokens), context_len) == model.forget(tokens, context_len)
        else:
            found = draft(trie, array(*argument), DraftLimits(max_nodes=number))
            assert_evidence_is_true(found, argument, model)
            if number >= NUM_LETTERS:
                single = draft(trie, array(*argument), DraftLimits(max_nodes=number, max_depth=1))
                assert_nothing_likely_is_missing(single, argument, model)
        assert words_held(trie) == model.words
        assert trie.num_tokens == sum(0 <= word < CONTEXT_FLAG for word in model.words)
        assert trie.num_sequences == model.words.count(SEPARATOR)
        assert trie.num_bytes <= SMALLEST
        trie.check()


def test_an_ngram_seen_once_takes_one_leaf_a_start() -> None:
    trie = Trie(max_order=8)
    trie.insert(array(*range(100)))
    assert trie.num_nodes == 100


def test_only_repeated_ngrams_become_nodes() -> None:
    trie = Trie(max_order=3)
    trie.insert(array(1, 2, 3))
    trie.insert(array(1, 2, 4))
    trie.check()
    # 1, 12, 123, 124; 2, 23, 24; 3; 4
    assert trie.num_nodes == 9


def test_context_is_not_counted_as_tokens() -> None:
    trie = Trie()
    trie.insert(array(1, 2, 3, 4, 5), context_len=3)
    assert (trie.num_sequences, trie.num_tokens) == (1, 2)


def test_a_sequence_of_context_alone_teaches_nothing() -> None:
    trie = Trie()
    trie.insert(array(1, 2, 3), context_len=3)
    trie.insert(array())
    assert (trie.num_sequences, trie.num_tokens, trie.num_nodes) == (0, 0, 0)


def test_the_oldest_text_leaves_first_and_the_bytes_stay_bounded() -> None:
    trie = Trie(max_order=MAX_ORDER, max_bytes=SMALLEST)
    rng = np.random.default_rng(7)
    for _ in range(50):
        trie.insert(rng.integers(0, 1000, 30, dtype=np.int32))
        assert trie.num_bytes <= SMALLEST
        trie.check()
    trie.insert(array(2001, 2002, 2003))
    newest = draft(trie, array(2001), DraftLimits(max_nodes=2))
    assert newest.tokens.tolist() == [2002, 2003]
    assert 30 <= trie.num_tokens < 1500


def test_a_sequence_longer_than_the_bound_keeps_its_end() -> None:
    trie = Trie(max_order=MAX_ORDER, max_bytes=SMALLEST)
    trie.insert(np.arange(100_000, dtype=np.int32))
    trie.check()
    assert draft(trie, array(99_998), DraftLimits(max_nodes=1)).tokens.tolist() == [99_999]
    assert len(draft(trie, array(50_000), DraftLimits(max_nodes=1))) == 0


def test_text_learned_in_parts_counts_as_text_learned_whole() -> None:
    text = np.random.default_rng(3).integers(0, 3, 200, dtype=np.int32)
    whole, parts = Trie(max_order=MAX_ORDER), Trie(max_order=MAX_ORDER)
    whole.insert(text)
    parts.insert(text[:100])
    parts.insert(text[100 - MAX_ORDER :], context_len=MAX_ORDER)
    parts.check()
    for start in range(150):
        context = text[start : start + 10]
        expected = draft(whole, context, DraftLimits(max_nodes=20))
        found = draft(parts, context, DraftLimits(max_nodes=20))
        assert set(zip(expected.tokens, expected.counts, expected.totals, strict=True)) == set(
            zip(found.tokens, found.counts, found.totals, strict=True)
        )


def test_forgetting_takes_back_exactly_one_contribution() -> None:
    trie = Trie()
    trie.insert(array(1, 2, 3), context_len=1)
    trie.insert(array(1, 2, 3), context_len=1)
    assert trie.forget(array(1, 2, 3), context_len=1)
    trie.check()
    assert draft(trie, array(1), DraftLimits(max_nodes=1)).counts.tolist() == [1]
    assert trie.forget(array(1, 2, 3), context_len=1)
    assert not trie.forget(array(1, 2, 3), context_len=1)
    trie.check()
    assert (trie.num_sequences, trie.num_tokens, trie.num_nodes) == (0, 0, 0)


def test_what_was_learned_with_other_context_is_not_forgotten() -> None:
    trie = Trie()
    trie.insert(array(1, 2, 3), context_len=1)
    assert not trie.forget(array(1, 2, 3), context_len=0)
    assert trie.num_tokens == 2


def test_a_small_trie_takes_few_bytes() -> None:
    trie = Trie()
    trie.insert(np.arange(100, dtype=np.int32))
    assert trie.num_bytes < 10_000


def test_read_only_and_strided_and_64_bit_tokens_are_taken() -> None:
    trie = Trie()
    read_only = np.frombuffer(np.arange(8, dtype=np.int32).tobytes(), dtype=np.int32)
    trie.insert(read_only)
    trie.insert(np.arange(8, dtype=np.int64)[::2])  # type: ignore[arg-type]
    assert draft(trie, read_only[:1], DraftLimits(max_nodes=9)).counts[0] == 1
    assert trie.num_tokens == 12


@pytest.mark.parametrize("context_len", [-1, 4])
def test_a_context_longer_than_the_sequence_is_refused(context_len: int) -> None:
    with pytest.raises(ValueError, match=f"context_len is {context_len}"):
        Trie().insert(array(1, 2, 3), context_len)


def test_tokens_out_of_range_are_refused_and_nothing_is_learned() -> None:
    trie = Trie()
    with pytest.raises(ValueError, match="tokens -1"):
        trie.insert(array(1, -1))
    with pytest.raises(ValueError, match=str(1 << 30)):
        trie.insert(array(1 << 30))
    assert trie.num_tokens == 0


def test_absurd_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="max_order is 0"):
        Trie(max_order=0)
    with pytest.raises(ValueError, match="max_bytes is 100"):
        Trie(max_bytes=100)
