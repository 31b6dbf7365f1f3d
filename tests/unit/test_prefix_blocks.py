"""Blocks of the cache that several requests share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder_service.attention_kernel import BLOCK
from decoder_service.forest import Int32Array
from decoder_service.kv_cache import CacheFullError, CacheShape, KvCache, Slot
from decoder_service.prefix_blocks import PrefixBlocks


def text(*parts: int, tail: int = 0) -> Int32Array:
    """Blocks that hold one number each, then a few tokens more."""
    return np.array([part for part in parts for _ in range(BLOCK)] + [99] * tail, dtype=np.int32)


def cache(num_blocks: int) -> KvCache:
    return KvCache(CacheShape(1, 1, 2, num_blocks, 4, torch.float32, torch.device("cpu")))


def test_a_block_is_known_by_all_tokens_up_to_its_end() -> None:
    known = PrefixBlocks(BLOCK)
    known.remember(text(1, 2, 3, tail=5), [10, 11, 12, 13], 3 * BLOCK + 5)
    assert known.match(text(1, 2, 3, 4)) == [10, 11, 12]
    assert known.match(text(1, 2, tail=9)) == [10, 11]
    assert known.match(text(2, 2, 3)) == []
    assert known.match(text(1, 3)) == [10]
    assert 13 not in known


def test_texts_that_part_share_what_they_have_in_common() -> None:
    known = PrefixBlocks(BLOCK)
    known.remember(text(1, 2), [10, 11], 2 * BLOCK)
    known.remember(text(1, 5), [20, 21], 2 * BLOCK)  # computed block 20 again, at the same time
    assert known.match(text(1, 5)) == [10, 21]
    assert sorted(known.forget(10)) == [10, 11, 21]
    assert known.match(text(1, 5)) == []


def test_only_filled_positions_are_known() -> None:
    known = PrefixBlocks(BLOCK)
    known.remember(text(1, 2, 3), [10, 11, 12], 2 * BLOCK + 1)
    assert known.match(text(1, 2, 3)) == [10, 11]
    known.remember(text(7), [13], 9 * BLOCK)  # a stop string cut the text, not the rows
    assert known.match(text(7, 7)) == [13]


def test_the_newest_token_is_always_left_to_compute() -> None:
    pool, slot, again = cache(4), Slot(), Slot()
    pool.reserve(slot, 2 * BLOCK)
    slot.length = 2 * BLOCK
    pool.remember(slot, text(1, 2))
    pool.reuse(again, text(1, 2))
    assert (again.blocks, again.length) == (slot.blocks[:1], BLOCK)


def test_idle_blocks_go_oldest_first_and_the_end_of_a_text_before_its_beginning() -> None:
    pool = cache(4)
    for number in (1, 2):
        slot = Slot()
        pool.reserve(slot, 2 * BLOCK)
        slot.length = 2 * BLOCK
        pool.remember(slot, text(number, 9))
        pool.release(slot)
    assert pool.num_free_blocks == 4
    wanting, first, second = Slot(), Slot(), Slot()
    pool.reserve(wanting, BLOCK)
    pool.reuse(first, text(1, 9, tail=1))
    pool.reuse(second, text(2, 9, tail=1))
    assert (first.length, second.length) == (BLOCK, 2 * BLOCK)
    with pytest.raises(CacheFullError):
        pool.reserve(Slot(), BLOCK)


TEXTS = st.lists(st.integers(0, 2), min_size=1, max_size=4)
STEPS = st.lists(st.one_of(TEXTS, st.integers(0, 3)), max_size=25)  # a text that comes, or which one leaves


@settings(max_examples=200)
@given(steps=STEPS, num_blocks=st.integers(4, 9))
def test_a_reused_block_holds_what_its_text_says(steps: list[list[int] | int], num_blocks: int) -> None:
    pool = cache(num_blocks)
    content: dict[
        int, tuple[int, ...]
    ] = {}  # what was written into each block: the blocks of text up to its end
    running: list[tuple[Slot, list[int]]] = []
    for step in steps:
        if isinstance(step, int):
            if step < len(running):
                slot, _ = running.pop(step)
                pool.release(slot)
            continue
        slot, tokens = Slot(), text(*step, tail=1)
        pool.reuse(slot, tokens)
        num_reused = len(slot.blocks)
        for place, block in enumerate(slot.blocks):
            assert content[block] == tuple(step[: place + 1])
        try:
            pool.reserve(slot, len(tokens))
        except CacheFullError:
            pool.release(slot)
            continue
        for place in range(num_reused, len(step)):
            content[slot.blocks[place]] = tuple(step[: place + 1])
        content[slot.blocks[-1]] = ()
        slot.length = len(tokens)
        running.append((slot, step))
        pool.remember(slot, tokens)
        for other, held in running:  # nobody's blocks were given away
            for place, block in enumerate(other.blocks[:-1]):
                assert content[block] == tuple(held[: place + 1])
    for slot, _ in running:
        pool.release(slot)
    assert pool.num_free_blocks == num_blocks
