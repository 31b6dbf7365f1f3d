"""Two drafts as one tree, and what is drafted most."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trie_service.draft_union import OWN, SHARED, united
from trie_service.drafting import Draft, DraftLimits, draft
from trie_service.top_drafts import SAMPLING, TopDraft, TopDrafts, follows, likeliest_path
from trie_service.trie import Trie

texts = st.lists(st.integers(0, 4), min_size=2, max_size=30)


def draft_of(text: list[int], context: list[int], max_nodes: int) -> Draft:
    trie = Trie(max_order=4, max_bytes=1 << 20)
    trie.insert(np.array(text, dtype=np.int32))
    return draft(trie, np.array(context, dtype=np.int32), DraftLimits(max_nodes))


def paths_of(tree: Draft) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True):
        assert -1 <= parent < len(paths)
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return paths


@settings(max_examples=200, deadline=None, derandomize=True)
@given(texts, texts, st.lists(st.integers(0, 4), max_size=5), st.integers(1, 20))
def test_the_union_is_the_likeliest_of_both_as_one_tree(
    own_text: list[int], shared_text: list[int], context: list[int], max_nodes: int
) -> None:
    trees = (draft_of(own_text, context, max_nodes), draft_of(shared_text, context, max_nodes))
    found = united(*trees, max_nodes)
    paths = paths_of(found.draft)
    assert len(set(paths)) == len(paths) <= max_nodes
    offered = [dict(zip(paths_of(tree), tree.probabilities.tolist(), strict=True)) for tree in trees]
    best = {path: max(tree.get(path, 0.0) for tree in offered) for path in {**offered[0], **offered[1]}}
    assert found.draft.probabilities.tolist() == sorted(best.values(), reverse=True)[:max_nodes]
    for node, (path, origin) in enumerate(zip(paths, found.origins.tolist(), strict=True)):
        assert offered[origin][path] == best[path]
        source = paths_of(trees[origin]).index(path)
        for name in ("orders", "counts", "totals"):
            assert getattr(found.draft, name)[node] == getattr(trees[origin], name)[source]


def test_origins_say_where_a_node_is_from() -> None:
    own, shared = draft_of([1, 2, 3], [1], 8), draft_of([1, 2, 9, 1, 7], [1], 8)
    found = united(own, shared, 8)
    origins = dict(zip(paths_of(found.draft), found.origins.tolist(), strict=True))
    assert origins[2, 3] == OWN
    assert origins[7,] == SHARED
    assert origins[2,] == OWN  # of one kind in the namespace, of two in the shared one


def test_a_union_with_nothing_is_the_other_draft() -> None:
    own, nothing = draft_of([1, 2, 3], [1], 8), draft_of([5, 6], [1], 8)
    assert paths_of(united(own, nothing, 8).draft) == paths_of(own)
    assert set(united(nothing, own, 8).origins.tolist()) == {SHARED}
    assert len(united(nothing, nothing, 8).draft) == 0


def test_what_is_drafted_most_comes_first_with_its_likeliest_path() -> None:
    often, seldom = draft_of([1, 2, 3], [9, 1], 8), draft_of([4, 5], [4], 8)
    top = TopDrafts()
    for _ in range(10 * SAMPLING):
        top.note(np.array([9, 1], dtype=np.int32), often)
    for _ in range(SAMPLING):
        top.note(np.array([4], dtype=np.int32), seldom)
    assert top.most() == [
        TopDraft((1,), (2, 3), 10 * SAMPLING),
        TopDraft((4,), (5,), SAMPLING),
    ]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=300))
def test_counts_are_too_high_by_no_more_than_the_rarest(asked: list[int]) -> None:
    top = TopDrafts(capacity=8)
    for number in asked:
        top.count((number,), (number,), 1)
    found = {entry.context[0]: entry.num_drafts for entry in top.most()}
    assert len(found) == min(8, len(set(asked)))
    assert all(
        asked.count(number) <= count <= asked.count(number) + min(found.values())
        for number, count in found.items()
    )
    assert all(number in found for number in set(asked) if asked.count(number) > len(asked) / 8)


def test_the_likeliest_path_and_how_far_a_draft_follows_it() -> None:
    tree = draft_of([1, 2, 3, 4, 1, 2, 3, 5], [1], 8)
    path = likeliest_path(tree)
    assert path[:2] == (2, 3)
    assert follows(tree, path) == len(path)
    assert follows(tree, (2, 3, 9)) == 2
    assert follows(tree, (9,)) == 0
