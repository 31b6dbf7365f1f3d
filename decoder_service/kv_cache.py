"""Keys and values of the accepted tokens, in blocks of positions that requests are given as they grow."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from decoder_service.attention_kernel import BLOCK, Layers, store_rows
from decoder_service.forest import Int32Array


class CacheFullError(Exception):
    """The pool has no block left."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What the pool holds a position, and how much it may hold."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    num_blocks: int
    max_rows: int  # of a step
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class CacheUse:
    """How full the pool is."""

    num_positions: int
    num_used: int  # given to requests


@dataclass(slots=True)
class Slot:
    """One request's part of the pool: the blocks of its positions 0 up to ``length``."""

    blocks: list[int] = field(default_factory=list)
    length: int = 0


class KvCache:
    """The pool of blocks and the rows of the current step.

    Rows enter the step buffers when a layer computes them, and the pool only when they are committed, so the
    pool never holds a draft that was not accepted.
    """

    def __init__(self, shape: CacheShape) -> None:
        self.shape = shape
        block = (shape.num_layers, shape.num_blocks, shape.num_kv_heads)
        step = (shape.num_layers, shape.max_rows, shape.num_kv_heads, shape.head_dim)
        self.keys = torch.empty(*block, shape.head_dim, BLOCK, dtype=shape.dtype, device=shape.device)
        self.values = torch.empty(*block, BLOCK, shape.head_dim, dtype=shape.dtype, device=shape.device)
        self.step_keys = torch.zeros(step, dtype=shape.dtype, device=shape.device)
        self.step_values = torch.zeros(step, dtype=shape.dtype, device=shape.device)
        self._free = list(range(shape.num_blocks - 1, -1, -1))

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no request holds."""
        return len(self._free)

    @property
    def use(self) -> CacheUse:
        """How full the pool is. Any thread may ask."""
        num_used = self.shape.num_blocks - len(self._free)
        return CacheUse(self.shape.num_blocks * BLOCK, num_used * BLOCK)

    def reserve(self, slot: Slot, length: int) -> None:
        """Give the slot blocks for ``length`` positions, or raise CacheFullError and leave it as it was."""
        missing = -(-length // BLOCK) - len(slot.blocks)
        if missing > len(self._free):
            raise CacheFullError(
                f"{missing} blocks of {BLOCK} positions are needed, {len(self._free)} are free"
            )
        for _ in range(missing):
            slot.blocks.append(self._free.pop())

    def release(self, slot: Slot) -> None:
        """Take all blocks back."""
        self._free.extend(slot.blocks)
        slot.blocks.clear()
        slot.length = 0

    def commit(self, slots_rows: list[tuple[Slot, list[int]]]) -> None:
        """Append rows of the current step to their slots, in the order given; blocks must be reserved."""
        rows: list[int] = []
        blocks: list[int] = []
        offsets: list[int] = []
        for slot, slot_rows in slots_rows:
            for position, row in enumerate(slot_rows, slot.length):
                rows.append(row)
                blocks.append(slot.blocks[position // BLOCK])
                offsets.append(position % BLOCK)
            slot.length += len(slot_rows)
        if rows:
            self._store(*(np.array(each, dtype=np.int32) for each in (rows, blocks, offsets)))

    def read(self, slot: Slot) -> tuple[torch.Tensor, torch.Tensor]:
        """Copies of the slot's keys and values, each [layers, length, kv_heads, head_dim]."""
        keys = self.keys[:, slot.blocks].permute(0, 1, 4, 2, 3).flatten(1, 2)
        values = self.values[:, slot.blocks].permute(0, 1, 3, 2, 4).flatten(1, 2)
        return keys[:, : slot.length].clone(), values[:, : slot.length].clone()

    def _store(self, rows: Int32Array, blocks: Int32Array, offsets: Int32Array) -> None:
        bits = _BITS.get(self.shape.dtype)
        if self.shape.device.type == "cpu" and bits is not None:
            tensors = (self.keys, self.values, self.step_keys, self.step_values)
            store_rows(Layers(*(tensor.view(bits).numpy() for tensor in tensors)), rows, blocks, offsets)
            return
        row_index, block_index, offset_index = (
            torch.from_numpy(each).long().to(self.shape.device) for each in (rows, blocks, offsets)
        )
        keys, values = (
            self.step_keys[:, row_index],
            self.step_values[:, row_index],
        )  # [layers, n, kv_heads, head_dim]
        self.keys.permute(1, 4, 0, 2, 3)[block_index, offset_index] = keys.transpose(0, 1)
        self.values.permute(1, 3, 0, 2, 4)[block_index, offset_index] = values.transpose(0, 1)


_BITS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}
