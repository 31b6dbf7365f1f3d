"""Lookahead decoding's window and pool."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_service.draft import LookaheadShape
from decoder_service.drafts.lookahead import tree_of
from decoder_service.drafts.ngram_pool import NgramPool
from decoder_service.drafts.window import Window
from decoder_service.forest import Forest, Int32Array

VOCAB = 31

SHAPES = st.builds(LookaheadShape, st.integers(1, 7), st.integers(2, 5), st.integers(0, 4))


def bigram(token: int) -> int:
    """What follows a token, to a model that sees one token only."""
    return (7 * token + 3) % VOCAB


def guesses(seed: int) -> Callable[[tuple[int, ...]], Int32Array]:
    generator = np.random.default_rng(seed)
    return lambda shape: generator.integers(0, VOCAB, shape).astype(np.int32)


def said_after(window: Window, newest: int, model: Callable[[list[int]], int]) -> Int32Array:
    """The model's answers after the newest token and after each cell, each given its path from there."""
    forest = Forest.of(window.tokens, window.parents)
    paths = [
        [newest, *(int(window.tokens[node]) for node in forest.path_to(cell))] for cell in range(len(forest))
    ]
    return np.array([model([newest]), *(model(path) for path in paths)], dtype=np.int32)


@given(shape=SHAPES, seed=st.integers(0, 99), emitted=st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_ngrams_are_what_the_model_says(shape: LookaheadShape, seed: int, emitted: list[int]) -> None:
    window, newest = Window(shape, guesses(seed)), 5
    for num_emitted in emitted:
        said = said_after(window, newest, lambda path: bigram(path[-1]))
        ngrams = window.advance(newest, said, num_emitted)
        assert ngrams.shape[1] == shape.ngram_len
        for ngram in ngrams.tolist():
            begins = (
                1 if ngram[0] == newest else 0
            )  # x took the place of the guess that the next token followed
            assert all(bigram(a) == b for a, b in zip(ngram[begins:], ngram[begins + 1 :], strict=False))
        newest = bigram(newest)


@given(shape=SHAPES, seed=st.integers(0, 99))
def test_the_window_fills_by_a_level_a_step_and_then_stays(shape: LookaheadShape, seed: int) -> None:
    window = Window(shape, guesses(seed))
    for step in range(2 * shape.ngram_len):
        num_levels = min(step + 1, shape.num_levels)
        assert len(window.tokens) == shape.width * num_levels - 1
        ngrams = window.advance(1, said_after(window, 1, lambda path: sum(path) % VOCAB), 1)
        assert len(ngrams) <= (shape.width if step >= shape.num_levels - 1 else 0)
    assert len(window.tokens) == shape.num_rows
    assert len(ngrams) == shape.width


def test_a_cell_sees_its_level_0_column_and_the_cells_above_it() -> None:
    window = Window(LookaheadShape(3, 4, 0), lambda shape: np.full(shape, 9, dtype=np.int32))
    for step in range(2):
        window.advance(0, np.arange(3 * (step + 1)) + 10 * (step + 1), 1)
    forest = Forest.of(window.tokens, window.parents)
    depths = [forest.depths[cell] + 1 for cell in range(len(forest))]  # of positions after x
    assert depths == [1, 2, 1, 2, 3, 2, 3, 4]
    assert forest.path_to(7) == [0, 1, 4, 7]  # down level 0, then down its column


def test_jacobi_iteration_takes_what_the_model_said_as_its_next_guesses() -> None:
    window = Window(LookaheadShape(5, 2, 0), guesses(1))
    before = window.tokens.tolist()
    window.advance(5, said_after(window, 5, lambda path: bigram(path[-1])), 1)
    assert window.tokens.tolist() == [bigram(token) for token in before]  # for the positions one further on
    window.advance(5, said_after(window, 5, lambda path: bigram(path[-1])), 3)
    assert window.tokens.tolist()[:2] == [
        bigram(bigram(token)) for token in before[2:]
    ]  # two columns were passed


@pytest.mark.parametrize(
    ("numbers", "named"), [((0, 3, 1), "window 0"), ((3, 1, 1), "ngram 1"), ((3, 2, -1), "-1")]
)
def test_a_shape_that_makes_no_sense_is_refused(numbers: tuple[int, int, int], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        LookaheadShape(*numbers)


def test_the_pool_keeps_the_newest_of_each_token() -> None:
    pool = NgramPool(2)
    pool.add(np.array([[1, 2, 3], [1, 4, 5], [2, 2, 2], [1, 2, 3], [1, 6, 7]]))
    assert pool.after(1) == [(6, 7), (2, 3)]
    assert pool.after(2) == [(2, 2)]
    assert pool.after(3) == []


def test_a_pool_of_none_holds_none() -> None:
    pool = NgramPool(0)
    pool.add(np.array([[1, 2]]))
    assert pool.after(1) == []


def test_chains_that_begin_alike_share_their_nodes() -> None:
    tree = tree_of([(1, 2), (1, 3), (4, 2)], newest=8, max_nodes=9)
    assert tree.tokens.tolist() == [1, 2, 3, 4, 2]
    assert tree.parents.tolist() == [-1, 0, 0, -1, 3]
    assert tree.counts.tolist() == [2, 1, 1, 1, 1]
    assert tree.totals.tolist() == [3, 2, 2, 3, 1]
    assert len(tree_of([(1, 2), (1, 3), (4, 2)], newest=8, max_nodes=2)) == 2
