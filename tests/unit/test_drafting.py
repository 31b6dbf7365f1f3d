"""What a draft holds, and that it stays within its limits."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from trie_service.drafting import Draft, DraftLimits, draft, draft_batch
from trie_service.trie import Trie


def array(*tokens: int) -> np.ndarray:
    return np.array(tokens, dtype=np.int32)


def learned(*sequences: tuple[int, ...], context_len: int = 0) -> Trie:
    trie = Trie()
    for sequence in sequences:
        trie.insert(array(*sequence), context_len)
    return trie


def paths_of(found: Draft) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(found.tokens.tolist(), found.parents.tolist(), strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return paths


def test_a_sequence_seen_once_is_drafted_to_its_end() -> None:
    found = draft(learned(tuple(range(40))), array(3, 4, 5), DraftLimits(max_nodes=64))
    assert found.tokens.tolist() == list(range(6, 40))
    assert found.parents.tolist() == list(range(-1, 33))


def test_a_draft_ends_where_its_sequence_ends() -> None:
    trie = learned((1, 2, 3), (7, 8, 9))
    assert paths_of(draft(trie, array(2), DraftLimits(max_nodes=9))) == [(3,)]
    assert len(draft(trie, array(3), DraftLimits(max_nodes=9))) == 0


def test_context_tokens_are_matched_but_never_drafted() -> None:
    trie = learned((1, 2, 3, 4, 5), context_len=3)
    assert len(draft(trie, array(1), DraftLimits(max_nodes=9))) == 0
    found = draft(trie, array(1, 2, 3), DraftLimits(max_nodes=9))
    assert paths_of(found) == [(4,), (4, 5)]
    assert found.orders.tolist() == [3, 4]


def test_context_tokens_repeated_in_other_answers_are_still_not_drafted() -> None:
    trie = learned((1, 2, 3), (1, 2, 3), (1, 2, 4), context_len=2)
    assert len(draft(trie, array(1), DraftLimits(max_nodes=9))) == 0
    found = draft(trie, array(1, 2), DraftLimits(max_nodes=9))
    assert sorted(paths_of(found)) == [(3,), (4,)]
    assert found.totals.tolist() == [3, 3]


def test_branches_share_their_prefix_and_the_more_frequent_comes_first() -> None:
    trie = learned((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 5))
    found = draft(trie, array(1, 2), DraftLimits(max_nodes=9))
    assert paths_of(found) == [(3,), (3, 4), (3, 5)]
    assert found.counts.tolist() == [3, 2, 1]
    assert found.totals.tolist() == [3, 3, 3]


def test_a_longer_match_outweighs_a_shorter_one() -> None:
    trie = learned((1, 2, 3, 9), *[(8, 3, 7)] * 3)
    found = draft(trie, array(1, 2, 3), DraftLimits(max_nodes=9))
    assert found.tokens.tolist() == [9, 7]
    assert found.orders.tolist() == [3, 1]
    assert found.counts.tolist() == [1, 3]
    assert found.totals.tolist() == [1, 4]


def test_evidence_has_the_order_of_the_path_below_the_context() -> None:
    found = draft(learned((1, 2, 3, 4, 5, 6)), array(9, 2, 3), DraftLimits(max_nodes=9))
    assert found.tokens.tolist() == [4, 5, 6]
    assert found.orders.tolist() == [2, 3, 4]


def test_the_order_of_evidence_is_at_most_the_longest_match() -> None:
    trie = Trie(max_order=3)
    trie.insert(array(*range(20)))
    found = draft(trie, array(*range(10)), DraftLimits(max_nodes=9))
    assert found.tokens.tolist() == list(range(10, 19))
    assert set(found.orders.tolist()) == {3}


def test_depth_is_limited() -> None:
    found = draft(learned(tuple(range(40))), array(0), DraftLimits(max_nodes=64, max_depth=5))
    assert found.tokens.tolist() == [1, 2, 3, 4, 5]


def test_nodes_are_limited_and_a_smaller_budget_keeps_the_likeliest() -> None:
    text = np.random.default_rng(5).integers(0, 20, 3000, dtype=np.int32)
    trie = Trie()
    trie.insert(text)
    large = paths_of(draft(trie, text[100:110], DraftLimits(max_nodes=50)))
    assert len(large) == 50
    for budget in (0, 1, 7, 49):
        assert paths_of(draft(trie, text[100:110], DraftLimits(max_nodes=budget))) == large[:budget]


def test_no_path_is_less_likely_than_asked() -> None:
    text = np.random.default_rng(6).integers(0, 20, 3000, dtype=np.int32)
    trie = Trie()
    trie.insert(text)
    everything = draft(trie, text[100:110], DraftLimits(max_nodes=200))
    likely = draft(trie, text[100:110], DraftLimits(max_nodes=200, min_probability=0.05))
    assert 0 < len(likely) < len(everything)
    assert likely.probabilities.min() >= np.float32(0.05)
    assert len(likely) == int((everything.probabilities >= 0.05).sum())


def test_probabilities_fall_along_the_draft_and_siblings_share_at_most_their_parents() -> None:
    text = np.random.default_rng(8).integers(0, 6, 3000, dtype=np.int32)
    trie = Trie()
    trie.insert(text)
    for start in range(0, 500, 10):
        found = draft(trie, text[start : start + 10], DraftLimits(max_nodes=60))
        assert all(earlier >= later for earlier, later in pairwise(found.probabilities.tolist()))
        for parent in range(-1, len(found)):
            children = found.probabilities[found.parents == parent]
            assert children.sum() <= (1.0 if parent < 0 else found.probabilities[parent]) + 1e-5
        assert len(set(paths_of(found))) == len(found)


def test_nothing_is_drafted_for_unknown_or_missing_context() -> None:
    trie = learned((1, 2, 3))
    assert len(draft(trie, array(99), DraftLimits(max_nodes=9))) == 0
    assert len(draft(trie, array(), DraftLimits(max_nodes=9))) == 0
    assert len(draft(Trie(), array(1), DraftLimits(max_nodes=9))) == 0


def test_a_draft_is_flat_arrays_of_the_promised_types() -> None:
    found = draft(learned((1, 2, 3)), array(1), DraftLimits(max_nodes=9))
    columns = (found.tokens, found.parents, found.orders, found.counts, found.totals)
    assert all(column.dtype == np.int32 and column.shape == (2,) for column in columns)
    assert found.probabilities.dtype == np.float32


def test_a_batch_drafts_what_single_calls_do_each_under_its_own_limits() -> None:
    text = np.random.default_rng(9).integers(0, 20, 3000, dtype=np.int32)
    trie = Trie()
    trie.insert(text)
    contexts = [
        text[start : start + length] for start, length in ((0, 5), (40, 0), (80, 30), (99, 1), (7, 3))
    ]
    contexts.append(array(77))
    limits = [
        DraftLimits(max_nodes=16),
        DraftLimits(max_nodes=3),
        DraftLimits(max_nodes=30, min_probability=0.02),
        DraftLimits(max_nodes=0),
        DraftLimits(max_nodes=40, max_depth=2),
        DraftLimits(max_nodes=5),
    ]
    together = draft_batch(trie, contexts, limits)
    assert len(together) == len(contexts)
    for found, context, one in zip(together, contexts, limits, strict=True):
        alone = draft(trie, context, one)
        for name in ("tokens", "parents", "orders", "counts", "totals", "probabilities"):
            assert np.array_equal(getattr(found, name), getattr(alone, name))
    assert [len(found) for found in together][1::2] == [0, 0, 0]


def test_a_batch_may_be_empty_and_needs_limits_for_each_context() -> None:
    assert draft_batch(Trie(), [], []) == []
    with pytest.raises(ValueError, match="2 contexts, but 1 limits"):
        draft_batch(Trie(), [array(1), array(2)], [DraftLimits(max_nodes=1)])


def test_drafting_changes_nothing_in_the_trie() -> None:
    trie = learned((1, 2, 3, 4), (1, 2, 3, 5))
    before = [column.copy() for column in (trie.arrays.entries[:50], trie.arrays.state)]
    draft(trie, array(1, 2), DraftLimits(max_nodes=9))
    assert np.array_equal(before[0], trie.arrays.entries[:50])
    assert np.array_equal(before[1], trie.arrays.state)


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        ({"max_nodes": -1}, "max_nodes is -1"),
        ({"max_nodes": 1, "min_probability": 1.5}, "min_probability is 1.5"),
        ({"max_nodes": 1, "min_probability": float("nan")}, "min_probability is nan"),
        ({"max_nodes": 1, "max_depth": 0}, "max_depth is 0"),
    ],
)
def test_absurd_limits_are_refused_by_name(limits: dict, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        DraftLimits(**limits)
