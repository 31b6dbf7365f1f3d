from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from decoder_service.accept import Acceptance, follow
from decoder_service.forest import Forest

VOCAB = 4
NUM_TOKENS = 12
ROOT_TOKEN = 0

Rule = Callable[[Forest, int, Callable[[int], int], Callable[[int], bool]], Acceptance]


def model(prefix: Sequence[int]) -> int:
    """Some token that depends on the whole prefix."""
    return hash((17, *prefix)) % 1009 % VOCAB


def plain(num_tokens: int) -> list[int]:
    tokens: list[int] = []
    for _ in range(num_tokens):
        tokens.append(model([ROOT_TOKEN, *tokens]))
    return tokens


def random_tree(generator: np.random.Generator, newest: int, right: Sequence[int]) -> Forest:
    """The newest token, the right continuation up to some depth, adversarial nodes anywhere, copies too."""
    tokens, parents = [newest], [-1]
    tip = 0
    for token in right[: int(generator.integers(0, len(right) + 1))]:
        for _ in range(int(generator.integers(0, 4))):
            tokens.append(int(generator.integers(0, VOCAB)))
            parents.append(int(generator.integers(0, len(parents))))
        tokens.append(token)
        parents.append(tip)
        tip = len(tokens) - 1
    return Forest.of(tokens, parents)


def speculate(rule: Rule, seed: int) -> tuple[list[int], int]:
    """Decode with drafts by ``rule``; return the tokens and the number of steps."""
    generator = np.random.default_rng(seed)
    right, text, num_steps = plain(3 * NUM_TOKENS), [ROOT_TOKEN], 0
    while len(text) <= NUM_TOKENS:
        forest = random_tree(generator, text[-1], right[len(text) - 1 : len(text) + 5])

        def choose(node: int, forest: Forest = forest, above: Sequence[int] = tuple(text[:-1])) -> int:
            return model([*above, *forest.tokens[forest.path_to(node)].tolist()])

        text += rule(forest, 0, choose, lambda _: False).tokens
        num_steps += 1
    return text[1:], num_steps


def is_exact(rule: Rule, seed: int) -> bool:
    emitted, _ = speculate(rule, seed)
    return emitted == plain(len(emitted))


def without_bonus(
    forest: Forest, root: int, choose: Callable[[int], int], is_last: Callable[[int], bool]
) -> Acceptance:
    """After a match to a leaf, the leaf's own token is lost and its row's token is emitted twice."""
    right = follow(forest, root, choose, is_last)
    return Acceptance(right.nodes, [*right.tokens[:-1], right.tokens[max(len(right.tokens) - 2, 0)]])


def with_the_parents_row(
    forest: Forest, root: int, choose: Callable[[int], int], is_last: Callable[[int], bool]
) -> Acceptance:
    """The bonus token is read from the row above the last accepted node."""
    right = follow(forest, root, choose, is_last)
    above = max(int(forest.parents[right.nodes[-1]]), 0)
    return Acceptance(right.nodes, [*right.tokens[:-1], choose(above)])


def trusting_the_first_child(
    forest: Forest, root: int, choose: Callable[[int], int], is_last: Callable[[int], bool]
) -> Acceptance:
    """The first child is accepted unseen."""
    children = np.flatnonzero(forest.parents == root).tolist()
    if not children:
        return follow(forest, root, choose, is_last)
    return Acceptance([root, children[0]], [int(forest.tokens[children[0]]), choose(children[0])])


@pytest.mark.parametrize("seed", range(40))
def test_any_draft_gives_the_tokens_of_plain_decoding(seed: int) -> None:
    assert is_exact(follow, seed)


def test_right_drafts_save_steps() -> None:
    steps = [speculate(follow, seed)[1] for seed in range(40)]
    assert np.mean(steps) < NUM_TOKENS / 2


@pytest.mark.parametrize("bug", [without_bonus, with_the_parents_row, trusting_the_first_child])
def test_a_wrong_rule_is_noticed(bug: Rule) -> None:
    assert not all(is_exact(bug, seed) for seed in range(40))


def test_a_leaf_that_is_reached_gives_a_bonus_token() -> None:
    forest = Forest.chain([9, 1, 2])
    acceptance = follow(forest, 0, [1, 2, 3].__getitem__, lambda _: False)
    assert acceptance == Acceptance([0, 1, 2], [1, 2, 3])


def test_a_draft_that_fails_at_once_gives_one_token() -> None:
    assert follow(Forest.chain([9, 1, 2]), 0, [5, 2, 3].__getitem__, lambda _: False) == Acceptance([0], [5])


def test_the_walk_goes_on_from_all_children_that_hold_the_token() -> None:
    forest = Forest.of([9, 1, 1, 4], [-1, 0, 0, 2])
    acceptance = follow(forest, 0, [1, 4, 4, 7].__getitem__, lambda _: False)
    assert acceptance.tokens == [1, 4, 7]
    assert acceptance.nodes == [0, 1, 3]


def test_nothing_is_accepted_after_the_last_token() -> None:
    forest = Forest.chain([9, 1, 2, 3])
    acceptance = follow(forest, 0, [1, 2, 3, 4].__getitem__, lambda token: token == 2)
    assert acceptance == Acceptance([0, 1], [1, 2])


def test_each_node_is_asked_once_and_from_the_top_down() -> None:
    asked: list[int] = []

    def choose(node: int) -> int:
        asked.append(node)
        return [1, 4, 4, 7][node]

    follow(Forest.of([9, 1, 1, 4], [-1, 0, 0, 2]), 0, choose, lambda _: False)
    assert asked == [0, 1, 3]


def test_known_tokens_above_the_root_are_not_walked() -> None:
    forest = Forest.of([3, 9, 1, 2], [-1, 0, 1, 2])
    assert follow(forest, 1, [0, 1, 2, 6].__getitem__, lambda _: False) == Acceptance([1, 2, 3], [1, 2, 6])
