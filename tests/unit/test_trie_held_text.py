"""Text with names and ages against a naive model; copies of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trie_service.held_text import MIN_BYTES, PIECE_LEN, HeldText
from trie_service.sequence import TokenSequence

MAX_ORDER = 3


def held(max_bytes: int = MIN_BYTES) -> HeldText:
    return HeldText(max_order=MAX_ORDER, max_bytes=max_bytes)


def do(work: Iterator[int]) -> int:
    """Do all of it; the longest piece."""
    return max(work, default=0)


def learn(text: HeldText, name: str, tokens: list[int], context_len: int = 0, at_ms: int = 0) -> int:
    return do(text.insert(TokenSequence(name, np.array(tokens, dtype=np.int32), context_len), at_ms))


def entries_of(text: HeldText) -> dict[tuple[int, ...], int]:
    """Every n-gram that the trie counts more than once, with its count."""
    image = text.trie.to_arrays()
    paths: list[tuple[int, ...]] = [()]
    for parent, token in zip(image["parents"][1:], image["tokens"][1:], strict=True):
        paths.append((*paths[parent], int(token)))
    return {path: int(count) for path, count in zip(paths, image["counts"], strict=True) if count > 1}


names = st.integers(0, 6).map(str)
texts = st.lists(st.integers(0, 4), min_size=1, max_size=12)
learns = st.tuples(st.just("learn"), names, texts)
forgets = st.tuples(st.just("forget"), names, st.just([]))
expiries = st.tuples(st.just("expire"), st.integers(0, 12).map(str), st.just([]))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.one_of(learns, learns, forgets, expiries), max_size=20))
def test_it_holds_what_was_learned_and_neither_forgotten_nor_expired(
    operations: list[tuple[str, str, list[int]]],
) -> None:
    text = held()
    model: dict[str, tuple[int, list[int]]] = {}
    for now, (verb, argument, tokens) in enumerate(operations):
        if verb == "learn":
            learn(text, argument, tokens, at_ms=now)
            model.setdefault(argument, (now, tokens))
        elif verb == "forget":
            do(text.forget(argument))
            model.pop(argument, None)
        else:
            do(text.expire(int(argument)))
            model = {name: held for name, held in model.items() if held[0] >= int(argument)}
        text.trie.check()
        fresh = held()
        for name, (at_ms, known) in model.items():
            learn(fresh, name, known, at_ms=at_ms)
        assert text.digest() == fresh.digest()
        assert entries_of(text) == entries_of(fresh)
        assert text.trie.num_tokens == sum(len(known) for _, known in model.values())
        assert all(text.num_tokens_of(name) == len(known) for name, (_, known) in model.items())
    for restored in copies_of(text):
        assert restored.digest() == text.digest()
        for name in list(model):
            do(restored.forget(name))
            restored.trie.check()
        assert restored.trie.num_tokens == 0


def copies_of(text: HeldText) -> list[HeldText]:
    words, rows = text.words()
    return [
        HeldText.from_arrays(text.to_arrays(), max_order=MAX_ORDER, max_bytes=MIN_BYTES),
        HeldText.from_words(words, rows, max_order=MAX_ORDER, max_bytes=MIN_BYTES),
        text.resized(2 * MIN_BYTES),
    ]


def test_a_long_sequence_is_learned_forgotten_and_expired_in_small_pieces() -> None:
    tokens = np.random.default_rng(1).integers(0, 1000, 5000).tolist()
    text = held(8 * MIN_BYTES)
    assert learn(text, "a", tokens, context_len=100) <= PIECE_LEN + MAX_ORDER
    assert text.num_tokens_of("a") == text.trie.num_tokens == 4900
    assert do(text.forget("a")) <= PIECE_LEN + MAX_ORDER + 1
    assert (text.trie.num_tokens, text.trie.num_nodes, text.num_forgotten_tokens) == (0, 0, 4900)
    learn(text, "b", tokens)
    assert do(text.expire(1)) <= PIECE_LEN
    assert (text.trie.num_tokens, text.num_evicted_tokens) == (0, 5000)


def test_a_name_is_learned_once() -> None:
    text = held()
    learn(text, "a", [1, 2])
    learn(text, "a", [3, 4, 5])
    assert text.trie.num_tokens == 2


def test_the_bound_in_bytes_holds_and_the_oldest_leave_first() -> None:
    rng = np.random.default_rng(2)
    text = held()
    for number in range(400):
        learn(text, str(number), rng.integers(0, 5000, 200).tolist())
        assert text.num_bytes <= MIN_BYTES
    assert text.num_evicted_tokens > 0
    assert not text.holds("0")
    assert text.holds("399")
    assert text.num_tokens_of("399") == 200
    assert sum(text.num_tokens_of(str(number)) for number in range(400)) == text.trie.num_tokens
    smaller = text.resized(MIN_BYTES)
    assert smaller.holds("399")
    assert smaller.num_evicted_tokens >= text.num_evicted_tokens


def test_many_short_sequences_leave_before_their_names_take_too_many_bytes() -> None:
    text = held()
    for number in range(1000):
        learn(text, str(number), [number % 7, 1])
    assert text.num_bytes <= MIN_BYTES
    assert text.holds("999")
    assert sum(text.holds(str(number)) for number in range(1000)) < 1000
    assert sum(text.num_tokens_of(str(number)) for number in range(1000)) == text.trie.num_tokens


def test_the_rest_of_a_sequence_that_is_partly_evicted_can_be_forgotten() -> None:
    text = held()
    learn(text, "a", list(range(100)))
    learn(text, "b", [1, 2])
    text.trie.evict(40)
    assert text.num_tokens_of("a") == 60
    do(text.forget("a"))
    text.trie.check()
    assert text.trie.num_tokens == 2


def test_growing_and_shrinking_keeps_the_newest_text() -> None:
    rng = np.random.default_rng(3)
    text = held(4 * MIN_BYTES)
    for number in range(100):
        learn(text, str(number), rng.integers(0, 50_000, 500).tolist())
    do(text.forget("98"))
    small = text.resized(MIN_BYTES)
    assert small.num_bytes <= MIN_BYTES < text.num_bytes
    assert small.num_tokens_of("99") == 500
    assert not small.holds("98")
    do(small.forget("99"))
    small.trie.check()
    large = text.resized(8 * MIN_BYTES)
    assert large.digest() == text.digest()


def test_absurd_bounds_and_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="max_bytes is 1000"):
        held(1000)
    arrays = held().to_arrays()
    del arrays["sequences"]
    with pytest.raises(ValueError, match="'sequences'"):
        HeldText.from_arrays(arrays, max_order=MAX_ORDER, max_bytes=MIN_BYTES)
