from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from decoder_service.calibration import ORDER_FLOORS, Calibration
from decoder_service.draft import DraftAsk, DraftTree, Source
from decoder_service.drafts.prompt import FIRST_CAPACITY, MAX_DEPTH, OwnTextSource


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def draft(source: OwnTextSource, text: list[int], max_nodes: int = 16, request_id: int = 1) -> DraftTree:
    source.begin([DraftAsk(request_id, ints(text), max_nodes, "")])
    (tree,) = source.collect()
    return tree


def path_to(tree: DraftTree, node: int) -> list[int]:
    path: list[int] = []
    while node >= 0:
        path.append(int(tree.tokens[node]))
        node = int(tree.parents[node])
    return path[::-1]


def followers(text: list[int], suffix: list[int]) -> Counter[int]:
    """What followed each occurrence of the suffix in the text."""
    size = len(suffix)
    return Counter(text[i + size] for i in range(len(text) - size) if text[i : i + size] == suffix)


def best_evidence(
    calibration: Calibration, text: list[int], context: list[int]
) -> dict[int, tuple[float, int, int, int]]:
    """By token: the estimate, order, count and total of its best order; a longer order wins ties."""
    best: dict[int, tuple[float, int, int, int]] = {}
    for order in ORDER_FLOORS.tolist():
        counts = followers(text, context[-order:]) if order <= len(context) else Counter()
        for token, count in counts.items():
            evidence = (order, count, counts.total())
            estimate = float(calibration.probability(Source.OWN, *(ints([n]) for n in evidence))[0])
            if estimate >= best.get(token, (0.0,))[0]:
                best[token] = (estimate, *evidence)
    return best


def check(calibration: Calibration, text: list[int], tree: DraftTree) -> None:
    """Every node has the evidence that a naive count finds; the likeliest paths come first."""
    paths: list[float] = []
    for node in range(len(tree)):
        parent = int(tree.parents[node])
        assert parent < node
        context = text + path_to(tree, parent)
        evidence = best_evidence(calibration, text, context)[int(tree.tokens[node])]
        assert evidence[1:] == (tree.orders[node], tree.counts[node], tree.totals[node])
        paths.append(evidence[0] * (paths[parent] if parent >= 0 else 1.0))
    assert all(earlier >= later - 1e-6 for earlier, later in itertools.pairwise(paths))
    pairs = list(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("seed", range(6))
def test_drafts_have_the_evidence_of_a_naive_count_while_the_text_grows(seed: int) -> None:
    random = np.random.default_rng(seed)
    calibration = Calibration()
    source = OwnTextSource(calibration)
    text = random.integers(0, 4, size=5).tolist()
    for _ in range(12):
        tree = draft(source, text, max_nodes=24)
        check(calibration, text, tree)
        text += random.integers(0, 4, size=random.integers(1, 8)).tolist()
        if random.random() < 0.3:
            text += text[-12:]


def test_no_likelier_node_is_left_out() -> None:
    calibration = Calibration()
    text = [1, 2, 3, 1, 2, 4, 1, 2, 3, 9, 1, 2]
    tree = draft(OwnTextSource(calibration), text, max_nodes=1)
    evidence = best_evidence(calibration, text, text)
    assert tree.tokens.tolist() == [max(evidence, key=lambda token: evidence[token][0])]


def test_a_repeated_passage_is_drafted_in_depth() -> None:
    passage = list(range(100, 160))
    tree = draft(OwnTextSource(Calibration()), [*passage, 1, 2, *passage[:12]], max_nodes=64)
    deepest = path_to(tree, len(tree) - 1)
    assert deepest == passage[12 : 12 + len(deepest)]
    assert len(deepest) == MAX_DEPTH


def test_a_text_that_outgrows_its_index_is_drafted_from_as_if_new() -> None:
    random = np.random.default_rng(7)
    text = random.integers(0, 50, size=2 * FIRST_CAPACITY + 10).tolist()
    grown, fresh = OwnTextSource(Calibration()), OwnTextSource(Calibration())
    for size in range(FIRST_CAPACITY - 300, len(text), 97):
        tree = draft(grown, text[:size])
    expected = draft(fresh, text[:size])
    for column in ("tokens", "parents", "orders", "counts", "totals"):
        assert np.array_equal(getattr(tree, column), getattr(expected, column))


@pytest.mark.parametrize("text", [[5], [1, 2, 3], [1, 1, 2]])
def test_a_newest_token_without_an_earlier_one_has_no_draft(text: list[int]) -> None:
    assert len(draft(OwnTextSource(Calibration()), text)) == 0


def test_a_budget_of_no_nodes_gives_no_draft() -> None:
    assert len(draft(OwnTextSource(Calibration()), [1, 2, 1], max_nodes=0)) == 0


def test_requests_do_not_see_each_other_and_end_when_closed() -> None:
    source = OwnTextSource(Calibration())
    assert draft(source, [1, 2, 3, 1], request_id=1).tokens[0] == 2
    assert len(draft(source, [9, 1], request_id=2)) == 0
    source.close(1)
    source.close(3)
    assert draft(source, [1, 8, 1], request_id=1).tokens[0] == 8


def test_a_batch_is_answered_in_order() -> None:
    source = OwnTextSource(Calibration())
    source.begin([DraftAsk(1, ints([1, 2, 1]), 1, ""), DraftAsk(2, ints([1, 3, 1]), 1, "")])
    assert [tree.tokens.tolist() for tree in source.collect()] == [[2], [3]]
