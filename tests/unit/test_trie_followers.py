"""Nodes with many followers have notes of them, which change nothing but the time a draft takes."""

from __future__ import annotations

import numpy as np
import pytest

from trie_service.children import find_child
from trie_service.drafting import DraftLimits, draft
from trie_service.followers import MANY, num_followers
from trie_service.trie import Trie
from trie_service.trie_arrays import CHILD, FOLLOWERS, NEXT, NONE, NOTED, PEAK_NOTES, ROOT

COMMON = 7  # a token with many followers


def array(*tokens: int) -> np.ndarray:
    return np.array(tokens, dtype=np.int32)


def trie_with(num_followers: int) -> Trie:
    """A trie in which so many tokens from 100 on followed ``COMMON``."""
    trie = Trie(max_order=4)
    for token in range(100, 100 + num_followers):
        trie.insert(array(COMMON, token))
    return trie


def noted(trie: Trie, node: int) -> list[int]:
    """The children that a node's note holds, or none without a note."""
    note = int(trie.arrays.entries[node, FOLLOWERS]) - NOTED
    return [] if note < 0 else trie.arrays.notes[note, 1:].tolist()


def children_of(trie: Trie, node: int) -> list[int]:
    children = []
    child = int(trie.arrays.entries[node, CHILD])
    while child != NONE:
        children.append(child)
        child = int(trie.arrays.entries[child, NEXT])
    return children


def test_a_node_with_many_followers_has_a_note_of_the_first() -> None:
    few, many = trie_with(MANY - 1), trie_with(MANY + 3)
    assert noted(few, find_child(few.arrays, ROOT, COMMON)) == []
    node = find_child(many.arrays, ROOT, COMMON)
    assert noted(many, node) == children_of(many, node)[1:MANY]
    assert num_followers(many.arrays, node) == MANY + 3


def test_a_follower_that_is_seen_again_is_noted_ahead_of_the_others() -> None:
    trie = trie_with(MANY + 3)
    trie.insert(array(COMMON, 100))
    trie.insert(array(COMMON, 100 + MANY + 2))
    node = find_child(trie.arrays, ROOT, COMMON)
    assert noted(trie, node) == children_of(trie, node)[1:MANY]
    assert noted(trie, node)[0] == find_child(trie.arrays, node, 100 + MANY + 2)


def test_the_first_follower_is_noted_once_it_is_overtaken() -> None:
    trie = trie_with(MANY)
    first = children_of(trie, find_child(trie.arrays, ROOT, COMMON))[0]
    for _ in range(2):
        trie.insert(array(COMMON, 100 + MANY - 1))
    node = find_child(trie.arrays, ROOT, COMMON)
    assert noted(trie, node)[0] == children_of(trie, node)[1] == first


def test_the_note_of_a_node_that_lost_its_followers_is_used_again() -> None:
    trie = trie_with(MANY)
    num_notes = int(trie.arrays.state[PEAK_NOTES])
    trie.forget(array(COMMON, 100))
    node = find_child(trie.arrays, ROOT, COMMON)
    assert noted(trie, node) == []
    assert num_followers(trie.arrays, node) == MANY - 1
    trie.check()
    trie.insert(array(COMMON, 100))
    assert noted(trie, node) == children_of(trie, node)[1:MANY]
    assert int(trie.arrays.state[PEAK_NOTES]) == num_notes
    trie.check()


@pytest.mark.parametrize("seed", range(5))
def test_random_text_with_many_followers_is_counted_exactly(seed: int) -> None:
    generator = np.random.default_rng(seed)
    trie = Trie(max_order=3, max_bytes=16_384)  # so few bytes that old text is evicted, and notes run out
    for _ in range(40):
        text = np.minimum(generator.geometric(0.1, 20), 30).astype(np.int32)
        trie.insert(text)
        if generator.random() < 0.3:
            trie.forget(text)
        trie.check()
    assert int(trie.arrays.state[PEAK_NOTES]) == len(trie.arrays.notes)


def test_drafts_are_the_same_where_there_is_no_room_for_notes() -> None:
    generator = np.random.default_rng(1)
    noting, plain = Trie(max_order=3), Trie(max_order=3)
    plain.arrays = plain.arrays._replace(notes=plain.arrays.notes[:0])
    for _ in range(50):
        text = np.minimum(generator.geometric(0.1, 50), 30).astype(np.int32)
        noting.insert(text)
        plain.insert(text)
    assert int(noting.arrays.state[PEAK_NOTES]) > int(plain.arrays.state[PEAK_NOTES]) == 0
    for token in range(1, 31):
        context = array(token)
        limits = DraftLimits(max_nodes=16)
        assert draft(noting, context, limits).rows.tolist() == draft(plain, context, limits).rows.tolist()
