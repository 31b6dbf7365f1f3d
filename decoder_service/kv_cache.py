"""Keys and values of the accepted tokens, in blocks of positions that requests are given as they grow."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import torch

from decoder_service.attention_kernel import BLOCK, Layers, store_rows
from decoder_service.forest import Int32Array
from decoder_service.prefix_blocks import PrefixBlocks


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
        self._num_holders = [0] * shape.num_blocks
        self._known = PrefixBlocks(BLOCK)
        self._idle: OrderedDict[int, None] = OrderedDict()  # known blocks that nobody holds, oldest first

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no request holds."""
        return len(self._free) + len(self._idle)

    @property
    def use(self) -> CacheUse:
        """How full the pool is. Any thread may ask."""
        num_blocks = self.shape.num_blocks
        return CacheUse(num_blocks * BLOCK, (num_blocks - self.num_free_blocks) * BLOCK)

    def reserve(self, slot: Slot, length: int) -> None:
        """Give the slot blocks for ``length`` positions, or raise CacheFullError and leave it as it was."""
        missing = -(-length // BLOCK) - len(slot.blocks)
        if missing > self.num_free_blocks:
            raise CacheFullError(
                f"{missing} blocks of {BLOCK} positions are needed, {self.num_free_blocks} are free"
            )
        for _ in range(missing):
            block = self._take()
            self._num_holders[block] = 1
            slot.blocks.append(block)

    def reuse(self, slot: Slot, text: Int32Array) -> None:
        """Let an empty slot begin with blocks that hold the beginning of ``text`` already, its last token not."""
        assert not slot.blocks
        slot.blocks = self._known.match(text[:-1])
        slot.length = BLOCK * len(slot.blocks)
        for block in slot.blocks:
            self._idle.pop(block, None)
            self._num_holders[block] += 1

    def remember(self, slot: Slot, text: Int32Array) -> None:
        """Let later slots whose text begins like this one's reuse its full blocks, while there is room."""
        self._known.remember(text, slot.blocks, slot.length)

    def release(self, slot: Slot) -> None:
        """Take all blocks back."""
        for block in reversed(slot.blocks):  # of an idle text the end goes first
            self._num_holders[block] -= 1
            if self._num_holders[block] > 0:
                continue
            if block in self._known:
                self._idle[block] = None
            else:
                self._free.append(block)
        slot.blocks.clear()
        slot.length = 0

    def _take(self) -> int:
        """A block of nobody's."""
        if not self._free:
            oldest = next(iter(self._idle))
            for block in self._known.forget(oldest):
                if block in self._idle:
                    del self._idle[block]
                    self._free.append(block)
        return self._free.pop()

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
