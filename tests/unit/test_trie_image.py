"""A trie survives being copied into plain arrays, and arrays that are no trie are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trie_service.drafting import Draft, DraftLimits, draft
from trie_service.trie import Trie

MAX_ORDER = 4
COLUMNS = ("parents", "tokens", "counts", "slots")

texts = st.lists(st.integers(0, 5), min_size=2, max_size=60)


def array(*tokens: int) -> npt.NDArray[np.int32]:
    return np.array(tokens, dtype=np.int32)


def learned(num_tokens: int = 300, max_bytes: int = 2**20) -> Trie:
    trie = Trie(max_order=MAX_ORDER, max_bytes=max_bytes)
    rng = np.random.default_rng(11)
    for _ in range(num_tokens // 30):
        trie.insert(rng.integers(0, 6, 32, dtype=np.int32), context_len=2)
    return trie


def same(left: Draft, right: Draft) -> bool:
    return all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("tokens", "parents", "orders", "counts", "totals", "probabilities")
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(texts, st.integers(0, 9), st.booleans()), min_size=1, max_size=12), texts)
def test_a_copied_trie_drafts_learns_and_forgets_as_the_first_did(operations: list, context: list) -> None:
    first = Trie(max_order=MAX_ORDER, max_bytes=4096)
    for tokens, context_len, is_forgotten in operations:
        first.insert(array(*tokens), min(context_len, len(tokens)))
        if is_forgotten:
            first.forget(array(*tokens), min(context_len, len(tokens)))
    second = Trie.from_arrays(first.to_arrays(), max_bytes=8192)
    second.check()
    limits = DraftLimits(max_nodes=20)
    assert (second.num_tokens, second.num_sequences) == (first.num_tokens, first.num_sequences)
    assert same(draft(first, array(*context), limits), draft(second, array(*context), limits))
    for tokens, context_len, _ in operations:
        assert first.forget(array(*tokens), min(context_len, len(tokens))) == second.forget(
            array(*tokens), min(context_len, len(tokens))
        )
    second.insert(array(*context))
    second.check()


def test_the_copy_shares_nothing_with_the_trie() -> None:
    trie = learned()
    image = trie.to_arrays()
    trie.insert(array(1, 2, 3))
    restored = Trie.from_arrays(image, max_bytes=2**20)
    assert restored.num_tokens == trie.num_tokens - 3
    restored.check()


def test_an_empty_trie_is_copied_too() -> None:
    restored = Trie.from_arrays(Trie(max_order=3).to_arrays())
    restored.check()
    assert (restored.max_order, restored.num_tokens) == (3, 0)


@pytest.mark.parametrize(("max_order", "max_bytes"), [(2, 2**20), (9, 2**20), (MAX_ORDER, 4096)])
def test_with_other_settings_the_text_is_learned_anew(max_order: int, max_bytes: int) -> None:
    trie = learned()
    restored = Trie.from_arrays(trie.to_arrays(), max_order=max_order, max_bytes=max_bytes)
    restored.check()
    assert restored.max_order == max_order
    assert restored.num_bytes <= max_bytes
    assert 0 < restored.num_tokens <= trie.num_tokens
    assert (restored.num_tokens == trie.num_tokens) == (max_bytes == 2**20)


@pytest.mark.parametrize("name", ["header", "words", *COLUMNS])
def test_a_missing_or_misshapen_array_is_named(name: str) -> None:
    image = learned().to_arrays()
    for wrong in (image[name].astype(np.int16), image[name].reshape(1, -1)):
        with pytest.raises(ValueError, match=name):
            Trie.from_arrays(image | {name: wrong})
    del image[name]
    with pytest.raises(ValueError, match=name):
        Trie.from_arrays(image)


def test_columns_of_different_length_are_refused() -> None:
    image = learned().to_arrays()
    with pytest.raises(ValueError, match="differ in length"):
        Trie.from_arrays(image | {"counts": image["counts"][:-1]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("parents", -1),
        ("parents", 10**9),
        ("parents", 20),
        ("tokens", -1),
        ("tokens", 1 << 30),
        ("counts", -1),
        ("slots", -2),
        ("slots", 10**9),
        ("slots", 299),
    ],
)
def test_an_entry_out_of_bounds_is_named(name: str, value: int) -> None:
    image = learned().to_arrays()
    image[name][20] = value
    with pytest.raises(ValueError, match=r"entry \d+ is not part of a trie"):
        Trie.from_arrays(image)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from((*COLUMNS, "words")), st.integers(0, 10**6), st.integers(-3, 400)),
        min_size=1,
        max_size=8,
    )
)
def test_a_damaged_image_is_refused_or_gives_a_trie_that_still_works(damage: list) -> None:
    image: dict[str, npt.NDArray[Any]] = learned().to_arrays()
    for name, place, value in damage:
        image[name][place % len(image[name])] = value
    try:
        trie = Trie.from_arrays(image, max_bytes=24 * 2**10)
    except ValueError:
        return
    rng = np.random.default_rng(1)
    for _ in range(60):
        trie.insert(rng.integers(0, 6, 50, dtype=np.int32))
        draft(trie, rng.integers(0, 6, 8, dtype=np.int32), DraftLimits(max_nodes=30))
    assert trie.num_bytes <= 24 * 2**10
