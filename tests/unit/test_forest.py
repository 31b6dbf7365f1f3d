from __future__ import annotations

import numpy as np
import pytest

from decoder_service.forest import NO_PARENT, Forest

TREE = Forest.of([5, 6, 7, 6, 6, 8], [-1, 0, 0, 1, 0, 3])


def test_depths_follow_from_parents() -> None:
    assert TREE.depths.tolist() == [0, 1, 1, 2, 1, 3]


def test_a_chain_hangs_each_token_under_the_one_before() -> None:
    chain, same = Forest.chain([4, 9, 2]), Forest.of([4, 9, 2], [-1, 0, 1])
    assert chain.parents.tolist() == same.parents.tolist()
    assert chain.depths.tolist() == same.depths.tolist() == [0, 1, 2]


def test_a_forest_may_be_empty_or_have_several_roots() -> None:
    assert len(Forest.of([], [])) == len(Forest.chain([])) == 0
    assert Forest.of([1, 2], [-1, -1]).depths.tolist() == [0, 0]


def test_path_runs_from_the_root_to_the_node() -> None:
    assert TREE.path_to(5) == [0, 1, 3, 5]
    assert TREE.path_to(0) == [0]


def test_children_are_found_by_parent_and_token() -> None:
    assert TREE.children_of(0, 6) == [1, 4]
    assert TREE.children_of(0, 5) == []
    assert TREE.children_of(NO_PARENT, 5) == [0]


@pytest.mark.parametrize(
    ("tokens", "parents"),
    [([1, 2], [-1]), ([[1]], [[-1]]), ([1], [0]), ([1, 2], [1, -1]), ([1], [-2])],
    ids=["lengths", "two dimensions", "own parent", "child before parent", "below -1"],
)
def test_arrays_that_are_no_forest_are_refused(tokens: list[int], parents: list[int]) -> None:
    with pytest.raises(ValueError, match=r"differ in shape|parents come before|\(1, 1\)"):
        Forest.of(tokens, parents)


@pytest.mark.parametrize("seed", range(20))
def test_in_random_forests_depth_is_the_length_of_the_path_above(seed: int) -> None:
    generator = np.random.default_rng(seed)
    size = int(generator.integers(1, 40))
    parents = [int(generator.integers(-1, node)) for node in range(size)]
    forest = Forest.of(generator.integers(0, 9, size), parents)
    for node in range(size):
        path = forest.path_to(node)
        assert len(path) == forest.depths[node] + 1
        assert [int(forest.parents[each]) for each in path] == [NO_PARENT, *path[:-1]]
