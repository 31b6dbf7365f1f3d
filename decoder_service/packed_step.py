"""All rows of a step, of all its requests, packed into flat arrays for one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder_service.attention_kernel import BLOCK, TILE_ROWS
from decoder_service.forest import NO_PARENT, Forest, Int32Array
from decoder_service.kv_cache import Slot


@dataclass(frozen=True, slots=True)
class SlotStep:
    """What one request puts into a step: a forest under the positions that its slot holds."""

    slot: Slot
    forest: Forest
    wanted: Sequence[int]  # nodes whose logits are asked for


@dataclass(frozen=True, slots=True)
class PackedStep:
    """The rows of a step. Rows past ``num_rows`` of the requests are padding: they see only themselves."""

    tokens: Int32Array  # [rows]
    positions: Int32Array  # [rows]
    context_lens: Int32Array  # [rows], cached positions that a row sees
    ancestors: (
        Int32Array  # [rows, max_ancestors], rows of the step that it sees, in logical order, itself last
    )
    num_ancestors: Int32Array  # [rows]
    tables: Int32Array  # [requests, max_blocks]
    tiles: Int32Array  # [tiles, 3], first row, last row + 1, request
    first_rows: list[int]  # [requests], where a request's nodes begin
    wanted: Int32Array  # [wanted], rows whose logits are asked for
    longest: int  # most positions that any row sees


def pack(steps: Sequence[SlotStep], num_rows: int) -> PackedStep:
    """Pack the forests one after another and pad to ``num_rows`` rows."""
    deepest = max((int(step.forest.depths.max(initial=0)) for step in steps), default=0)
    tokens, positions, context_lens = (np.zeros(num_rows, dtype=np.int32) for _ in range(3))
    ancestors = np.zeros((num_rows, deepest + 1), dtype=np.int32)
    num_ancestors = np.ones(num_rows, dtype=np.int32)
    tables = np.zeros(
        (max(len(steps), 1), max((len(s.slot.blocks) for s in steps), default=1) or 1), dtype=np.int32
    )
    tiles: list[tuple[int, int, int]] = []
    first_rows: list[int] = []
    wanted: list[int] = []
    end = 0
    for request, step in enumerate(steps):
        first, end = end, end + len(step.forest)
        first_rows.append(first)
        tokens[first:end] = step.forest.tokens
        positions[first:end] = step.slot.length + step.forest.depths
        context_lens[first:end] = step.slot.length
        num_ancestors[first:end] = step.forest.depths + 1
        _fill_ancestors(ancestors[first:end], step.forest, first)
        tables[request, : len(step.slot.blocks)] = step.slot.blocks
        tiles += [(row, min(row + TILE_ROWS, end), request) for row in range(first, end, TILE_ROWS)]
        wanted += [first + node for node in step.wanted]
    ancestors[end:, 0] = np.arange(end, num_rows)
    tiles += [(row, row + 1, 0) for row in range(end, num_rows)]
    return PackedStep(
        tokens,
        positions,
        context_lens,
        ancestors,
        num_ancestors,
        tables,
        np.array(tiles, dtype=np.int32),
        first_rows,
        np.array(wanted, dtype=np.int32),
        int((context_lens + num_ancestors).max(initial=1)),
    )


def _fill_ancestors(target: Int32Array, forest: Forest, first_row: int) -> None:
    """target[i] = the path to node i, as rows of the step."""
    depths, parents = forest.depths.tolist(), forest.parents.tolist()
    for node, parent in enumerate(parents):
        depth = depths[node]
        if parent != NO_PARENT:
            target[node, :depth] = target[parent, :depth]
        target[node, depth] = first_row + node


def num_blocks_for(length: int) -> int:
    """Blocks that hold ``length`` positions."""
    return -(-length // BLOCK)
