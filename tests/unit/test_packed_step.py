from __future__ import annotations

import numpy as np
import pytest

from decoder_service.forest import Forest
from decoder_service.kv_cache import Slot
from decoder_service.packed_step import PackedStep, SlotStep, num_blocks_for, pack


def seen_by(step: PackedStep, row: int) -> list[int]:
    """Rows of the step that a row sees."""
    return step.ancestors[row, : step.num_ancestors[row]].tolist()


def random_steps(generator: np.random.Generator) -> list[SlotStep]:
    steps = []
    for _ in range(int(generator.integers(1, 5))):
        size = int(generator.integers(1, 30))
        parents = [int(generator.integers(max(-1, node - 4), node)) for node in range(size)]
        forest = Forest.of(generator.integers(0, 99, size), parents)
        length = int(generator.integers(0, 300))
        blocks = generator.permutation(50)[: num_blocks_for(length + size)].tolist()
        wanted = sorted(generator.permutation(size)[: int(generator.integers(0, size + 1))].tolist())
        steps.append(SlotStep(Slot(blocks, length), forest, wanted))
    return steps


@pytest.mark.parametrize("seed", range(30))
def test_every_row_sees_its_context_its_ancestors_and_itself(seed: int) -> None:
    generator = np.random.default_rng(seed)
    steps = random_steps(generator)
    num_rows = sum(len(each.forest) for each in steps)
    packed = pack(steps, num_rows + int(generator.integers(0, 4)))
    assert packed.first_rows == np.cumsum([0, *[len(each.forest) for each in steps[:-1]]]).tolist()
    for request, (first, each) in enumerate(zip(packed.first_rows, steps, strict=True)):
        for node in range(len(each.forest)):
            row, depth = first + node, int(each.forest.depths[node])
            assert packed.tokens[row] == each.forest.tokens[node]
            assert packed.positions[row] == each.slot.length + depth
            assert packed.context_lens[row] == each.slot.length
            assert seen_by(packed, row) == [first + above for above in each.forest.path_to(node)]
        assert packed.tables[request, : len(each.slot.blocks)].tolist() == each.slot.blocks
    assert packed.longest == max(each.slot.length + int(each.forest.depths.max()) + 1 for each in steps)


@pytest.mark.parametrize("seed", range(30))
def test_tiles_cover_every_row_once_and_hold_rows_of_one_request(seed: int) -> None:
    generator = np.random.default_rng(seed)
    steps = random_steps(generator)
    num_rows = sum(len(each.forest) for each in steps)
    packed = pack(steps, num_rows + 3)
    rows = [row for first, last, _ in packed.tiles.tolist() for row in range(first, last)]
    assert rows == list(range(num_rows + 3))
    owner = np.repeat(np.arange(len(steps)), [len(each.forest) for each in steps])
    for first, last, request in packed.tiles.tolist():
        assert all(owner[row] == request for row in range(first, min(last, num_rows)))


def test_wanted_rows_come_in_the_order_of_the_requests() -> None:
    first = SlotStep(Slot([3], 4), Forest.chain([7, 8, 9]), [2])
    second = SlotStep(Slot([5], 0), Forest.chain([1, 2]), [0, 1])
    nothing = SlotStep(Slot([6], 2), Forest.chain([4]), [])
    assert pack([first, nothing, second], 6).wanted.tolist() == [2, 4, 5]


def test_padding_rows_see_only_themselves() -> None:
    packed = pack([SlotStep(Slot([3], 60), Forest.chain([7]), [0])], 4)
    assert packed.context_lens.tolist() == [60, 0, 0, 0]
    assert [seen_by(packed, row) for row in range(4)] == [[0], [1], [2], [3]]


@pytest.mark.parametrize(("length", "blocks"), [(0, 0), (1, 1), (64, 1), (65, 2), (128, 2)])
def test_blocks_hold_64_positions(length: int, blocks: int) -> None:
    assert num_blocks_for(length) == blocks
