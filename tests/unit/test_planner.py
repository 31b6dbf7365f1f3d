from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from decoder_service.calibration import Calibration
from decoder_service.draft import DraftTree, PlannedDraft, Source
from decoder_service.planner import Planner

STRONG = (16, 8, 8)
MIDDLING = (4, 2, 3)
WEAK = (1, 1, 8)


def tree(*nodes: tuple[int, int, tuple[int, int, int]]) -> DraftTree:
    """A draft of (token, parent, (order, count, total)) nodes."""
    columns = np.array([(token, parent, *evidence) for token, parent, evidence in nodes], dtype=np.int32)
    return DraftTree(*columns.T.copy()) if nodes else DraftTree.empty()


def planner() -> Planner:
    return Planner(Calibration())


def plan_one(drafts: Mapping[Source, DraftTree], budget: int = 64, least: float = 0.0) -> PlannedDraft:
    (planned,) = planner().plan([drafts], budget, least)
    return planned


def random_tree(random: np.random.Generator, size: int) -> DraftTree:
    nodes = []
    for node in range(size):
        total = int(random.integers(1, 20))
        evidence = (int(random.integers(1, 9)), int(random.integers(1, total + 1)), total)
        nodes.append((int(random.integers(0, 3)), int(random.integers(-1, node)), evidence))
    return tree(*nodes)


def test_a_path_that_two_sources_propose_is_one_path_of_the_better_evidence() -> None:
    own = tree((1, -1, WEAK), (2, 0, STRONG))
    index = tree((9, -1, MIDDLING), (1, -1, STRONG), (2, 1, WEAK), (3, 2, WEAK))
    planned = plan_one({Source.OWN: own, Source.INDEX: index})
    assert planned.tokens.tolist() == [1, 2, 9, 3]
    assert planned.parents.tolist() == [-1, 0, -1, 1]
    assert planned.sources.tolist() == [Source.INDEX, Source.OWN, Source.INDEX, Source.INDEX]


def test_without_drafts_there_is_an_empty_plan_a_request() -> None:
    assert planner().plan([], 10, 0.0) == []
    plans = planner().plan([{}, {Source.OWN: DraftTree.empty()}], 10, 0.0)
    assert [len(plan) for plan in plans] == [0, 0]


def test_the_budget_goes_to_the_likeliest_nodes_of_the_whole_batch() -> None:
    likely = tree((1, -1, STRONG), (2, 0, STRONG), (3, 1, STRONG))
    unlikely = tree((4, -1, WEAK), (5, 0, STRONG))
    plans = planner().plan([{Source.OWN: unlikely}, {Source.OWN: likely}], 3, 0.0)
    assert [plan.tokens.tolist() for plan in plans] == [[], [1, 2, 3]]
    plans = planner().plan([{Source.OWN: unlikely}, {Source.OWN: likely}], 4, 0.0)
    assert [plan.tokens.tolist() for plan in plans] == [[4], [1, 2, 3]]


def test_nodes_below_the_least_path_probability_are_left_out() -> None:
    chain = tree((1, -1, STRONG), (2, 0, WEAK), (3, 1, STRONG))
    assert plan_one({Source.OWN: chain}, least=0.5).tokens.tolist() == [1]
    assert len(plan_one({Source.OWN: chain}, least=1.0)) == 0


@pytest.mark.parametrize("seed", range(10))
def test_every_plan_is_a_tree_of_proposed_paths_within_the_budget(seed: int) -> None:
    random = np.random.default_rng(seed)
    drafts = [{Source.OWN: random_tree(random, 20), Source.INDEX: random_tree(random, 30)} for _ in range(4)]
    plans = planner().plan(drafts, 25, 0.0)
    assert sum(len(plan) for plan in plans) == 25
    for plan, trees in zip(plans, drafts, strict=True):
        assert (plan.parents < np.arange(len(plan))).all()
        planned = paths(plan.tokens, plan.parents)
        assert len(set(planned)) == len(planned)
        assert set(planned) <= {path for part in trees.values() for path in paths(part.tokens, part.parents)}


def paths(tokens: np.ndarray, parents: np.ndarray) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tokens.tolist(), parents.tolist(), strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


def test_equal_drafts_give_equal_plans() -> None:
    drafts = [{Source.OWN: random_tree(np.random.default_rng(3), 40)}]
    first, second = planner().plan(drafts, 10, 0.0)[0], planner().plan(drafts, 10, 0.0)[0]
    assert first.tokens.tolist() == second.tokens.tolist()
    assert first.parents.tolist() == second.parents.tolist()


def test_it_learns_which_of_two_kinds_of_evidence_to_trust() -> None:
    drafts = {Source.OWN: tree((1, -1, WEAK)), Source.INDEX: tree((2, -1, STRONG))}
    learner = planner()
    assert learner.plan([drafts], 1, 0.0)[0].tokens.tolist() == [2]
    for _ in range(200):
        learner.plan([drafts], 1, 0.0)
        learner.observe(0, [1])
    assert learner.plan([drafts], 1, 0.0)[0].tokens.tolist() == [1]


def test_only_nodes_whose_context_came_true_are_trials() -> None:
    calibration = Calibration()
    learner = Planner(calibration)
    below_a_miss, below_a_hit = (6, 3, 3), (8, 4, 4)
    draft = tree((1, -1, STRONG), (2, -1, MIDDLING), (3, 1, below_a_miss), (4, 0, below_a_hit))
    evidence = draft.orders, draft.counts, draft.totals
    before = calibration.probability(Source.OWN, *evidence)
    learner.plan([{Source.OWN: draft}], 0, 0.0)
    learner.observe(0, [1, 5])
    change = calibration.probability(Source.OWN, *evidence) - before
    assert np.sign(change).tolist() == [1, -1, 0, -1]


def test_probabilities_become_honest_for_tokens_that_both_sources_propose() -> None:
    random = np.random.default_rng(11)
    drafts = {Source.OWN: tree((1, -1, MIDDLING)), Source.INDEX: tree((1, -1, STRONG))}
    learner = planner()
    for _ in range(3000):
        learner.plan([drafts], 1, 0.0)
        learner.observe(0, [1 if random.random() < 0.4 else 5])
    assert [len(learner.plan([drafts], 1, least)[0]) for least in (0.3, 0.5)] == [1, 0]
