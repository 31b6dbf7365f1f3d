from __future__ import annotations

import numpy as np

from decoder_service.draft import DraftTree
from decoder_service.forest import Int32Array
from decoder_service.joined_tree import below, join
from decoder_service.situation import NUM_VIEWS, situations_of, view_sizes


def ints(*values: int) -> Int32Array:
    return np.array(values, dtype=np.int32)


def situations(own: DraftTree, index: DraftTree) -> Int32Array:
    trees = [(0, own), (1, index)]
    return situations_of(join(trees, [np.full(len(tree), 0.5, np.float32) for _, tree in trees], 2))


def test_every_situation_is_one_of_its_view() -> None:
    random = np.random.default_rng(9)
    for size in range(40):
        numbers = random.integers(0, 2**24, size=(4, size)).astype(np.int32)
        parents = np.array([random.integers(-1, node) for node in range(size)], dtype=np.int32).reshape(-1)
        tree = DraftTree(numbers[0], parents, numbers[1] % 50, numbers[2], numbers[3], newest=2**24 - 1)
        found = situations(tree, DraftTree.empty() if size % 2 else tree)
        assert found.shape[1] == NUM_VIEWS == len(view_sizes())
        assert (found >= 0).all()
        assert (found < np.array(view_sizes())).all()


def test_the_token_before_a_node_is_its_parents_or_the_newest() -> None:
    chain = DraftTree(ints(5, 6), ints(-1, 0), ints(1, 1), ints(1, 1), ints(1, 1), newest=6)
    again = DraftTree(ints(5, 6), ints(-1, 0), ints(1, 1), ints(1, 1), ints(1, 1), newest=7)
    first, second = situations(chain, DraftTree.empty()), situations(again, DraftTree.empty())
    before = 2
    assert first[0, before] != second[0, before]
    assert first[1].tolist() == second[1].tolist()


def test_what_the_index_says_is_seen() -> None:
    own = DraftTree(ints(5), ints(-1), ints(4), ints(1), ints(1), newest=1)
    rival = DraftTree(ints(9), ints(-1), ints(8), ints(1), ints(1), newest=1)
    found = {tuple(situations(own, other)[0]) for other in (DraftTree.empty(), rival, own)}
    assert len(found) == 3


def test_the_matches_that_speak_for_a_token_are_seen_with_it() -> None:
    short = DraftTree(ints(5), ints(-1), ints(1), ints(1), ints(1), newest=1)
    long = DraftTree(ints(5), ints(-1), ints(8), ints(1), ints(1), newest=1)
    other = DraftTree(ints(6), ints(-1), ints(8), ints(1), ints(1), newest=1)
    views = [situations(own, DraftTree.empty())[0] for own in (short, long, other)]
    with_before, with_token = 5, 6
    assert views[0][with_before] != views[1][with_before] == views[2][with_before]
    assert len({view[with_token] for view in views}) == 3


def test_a_node_lies_below_its_ancestors_alone() -> None:
    parents = ints(-1, 0, -1, 1, 2, 3)
    assert below(parents, 0).tolist() == [False, True, False, True, False, True]
    assert below(parents, 4).tolist() == [False] * 6
