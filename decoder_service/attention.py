"""The attention that every layer calls: each row over its own visible keys, in logical order.

transformers' models call :class:`ForestAttention` in place of their own attention function. On CPUs the compiled
kernel does the work; elsewhere, and in float64, the same reduction is written in torch operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from decoder_service import attention_job as slots
from decoder_service.attention_kernel import BLOCK
from decoder_service.kv_cache import KvCache
from decoder_service.packed_step import PackedStep, num_blocks_for
from decoder_service.thread_team import run_on_team

_KERNELS = {torch.bfloat16: slots.attend_bfloat16, torch.float32: slots.attend_float32}


class UnsupportedModelError(Exception):
    """The model's attention asks for something that would not be honoured."""


class ForestAttention:
    """Attends for the rows of the step that was begun last.

    An instance is registered with transformers as an attention function. It keeps each layer's keys and values
    in the cache's step buffers, from which accepted rows are committed.
    """

    def __init__(self, cache: KvCache, num_heads: int) -> None:
        self._cache = cache
        self._num_heads = num_heads
        self._step: PackedStep | None = None
        self._layers_seen = 0
        shape = cache.shape
        self._kernel = _KERNELS.get(shape.dtype) if shape.device.type == "cpu" else None
        buffer = (shape.max_rows, num_heads, shape.head_dim)
        self._query = torch.empty(buffer, dtype=torch.float32)
        self._out = torch.empty(buffer, dtype=torch.float32)
        self._job = np.zeros(slots.JOB_LEN, dtype=np.int64)
        self._gathered: GatheredRows | None = None

    @property
    def layers_seen(self) -> int:
        """Layers that attended since the step began."""
        return self._layers_seen

    def begin(self, step: PackedStep) -> None:
        """Attend for this step's rows from now on."""
        self._step = step
        self._layers_seen = 0
        if self._kernel is None:
            self._gathered = GatheredRows(step, self._cache.shape.device)
        else:
            self._fill_job(step)

    def __call__(  # noqa: PLR0913, PLR0917 - transformers' signature
        self,
        module: torch.nn.Module,
        query: torch.Tensor,  # [1, heads, rows, head_dim]
        key: torch.Tensor,  # [1, kv_heads, rows, head_dim]
        value: torch.Tensor,  # [1, kv_heads, rows, head_dim]
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        sliding_window: int | None = None,
        softcap: float | None = None,
        **options: Any,  # noqa: ANN401 - whatever a model passes
    ) -> tuple[torch.Tensor, None]:
        """Return [1, rows, heads, head_dim]; raise UnsupportedModelError for options that are not honoured."""
        del attention_mask
        if options.get("s_aux") is not None or options.get("position_bias") is not None:
            raise UnsupportedModelError("attention sinks and position biases are not supported")
        layer, rows = int(module.layer_idx), query.shape[2]  # type: ignore[arg-type]
        self._layers_seen += 1
        self._cache.step_keys[layer, :rows] = key[0].transpose(0, 1)
        self._cache.step_values[layer, :rows] = value[0].transpose(0, 1)
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        attend = self._attend_compiled if self._kernel is not None else self._attend_in_torch
        return attend(layer, query[0], scale, sliding_window or 0, softcap or 0.0).unsqueeze(0), None

    def _fill_job(self, step: PackedStep) -> None:
        shape, job = self._cache.shape, self._job
        job[slots.NUM_TILES], job[slots.NUM_ROWS] = len(step.tiles), len(step.tokens)
        job[slots.NUM_HEADS], job[slots.NUM_KV_HEADS] = self._num_heads, shape.num_kv_heads
        job[slots.HEAD_DIM], job[slots.NUM_BLOCKS] = shape.head_dim, shape.num_blocks
        job[slots.NUM_REQUESTS], job[slots.TABLE_LEN] = step.tables.shape
        job[slots.MAX_ANCESTORS] = step.ancestors.shape[1]
        job[slots.QUERY], job[slots.OUT] = self._query.data_ptr(), self._out.data_ptr()
        job[slots.TILES], job[slots.TABLES] = step.tiles.ctypes.data, step.tables.ctypes.data
        job[slots.CONTEXT_LENS] = step.context_lens.ctypes.data
        job[slots.ANCESTORS] = step.ancestors.ctypes.data
        job[slots.NUM_ANCESTORS] = step.num_ancestors.ctypes.data

    def _attend_compiled(
        self, layer: int, query: torch.Tensor, scaling: float, window: int, softcap: float
    ) -> torch.Tensor:
        """[rows, heads, head_dim] by the compiled kernel."""
        assert self._kernel is not None
        cache, job, rows = self._cache, self._job, query.shape[1]
        self._query[:rows] = query.transpose(0, 1)
        job[slots.NEXT_ITEM], job[slots.WINDOW] = 0, window
        job[slots.SCALING_BITS], job[slots.SOFTCAP_BITS] = np.array([scaling, softcap], np.float32).view(
            np.int32
        )
        job[slots.POOL_KEYS], job[slots.POOL_VALUES] = (
            cache.keys[layer].data_ptr(),
            cache.values[layer].data_ptr(),
        )
        job[slots.STEP_KEYS] = cache.step_keys[layer].data_ptr()
        job[slots.STEP_VALUES] = cache.step_values[layer].data_ptr()
        run_on_team(self._kernel.address, job.ctypes.data)
        return self._out[:rows].to(query.dtype)

    def _attend_in_torch(
        self, layer: int, query: torch.Tensor, scaling: float, window: int, softcap: float
    ) -> torch.Tensor:
        """[rows, heads, head_dim] by torch operations."""
        assert self._gathered is not None
        cache, rows = self._cache, query.shape[1]
        keys, values = self._gathered.of(
            (cache.keys[layer], cache.values[layer]),
            (cache.step_keys[layer, :rows], cache.step_values[layer, :rows]),
        )
        wide = torch.float64 if query.dtype == torch.float64 else torch.float32
        visible = self._gathered.visible(window)
        out = attend_blocks(
            query.transpose(0, 1).to(wide) * scaling, keys.to(wide), values.to(wide), visible, softcap
        )
        return out.to(query.dtype)


class GatheredRows:
    """Where each row's visible keys lie, in logical order, padded to whole blocks."""

    def __init__(self, step: PackedStep, device: torch.device) -> None:
        rows, padded = len(step.tokens), num_blocks_for(step.longest) * BLOCK
        place = np.arange(padded)
        totals = step.context_lens + step.num_ancestors
        request = np.zeros(rows, dtype=np.int64)
        for first, last, owner in step.tiles:
            request[first:last] = owner
        table = np.zeros((len(step.tables), padded // BLOCK), dtype=np.int64)
        width = min(table.shape[1], step.tables.shape[1])
        table[:, :width] = step.tables[:, :width]
        depth = np.clip(place[None] - step.context_lens[:, None], 0, step.ancestors.shape[1] - 1)
        self._block = _on(table[request][:, place // BLOCK], device)  # [rows, padded]
        self._offset = _on(np.broadcast_to(place % BLOCK, (rows, padded)), device)
        self._step_row = _on(np.take_along_axis(step.ancestors, depth, axis=1), device)
        self._cached = _on(place[None] < step.context_lens[:, None], device)
        self._place, self._totals = _on(place, device), _on(totals, device)

    def of(
        self, pool: tuple[torch.Tensor, torch.Tensor], step: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values that each row sees, each [rows, padded, kv_heads, head_dim]; zeros past its last."""
        seen = (self._place[None] < self._totals[:, None])[..., None, None]
        cached = self._cached[..., None, None]
        keys = torch.where(
            cached, pool[0].permute(0, 3, 1, 2)[self._block, self._offset], step[0][self._step_row]
        )
        values = torch.where(
            cached, pool[1].permute(0, 2, 1, 3)[self._block, self._offset], step[1][self._step_row]
        )
        return torch.where(seen, keys, 0), torch.where(seen, values, 0)

    def visible(self, window: int) -> torch.Tensor:
        """[rows, padded]: which places a row attends to."""
        visible = self._place[None] < self._totals[:, None]
        if window > 0:
            visible &= self._place[None] >= self._totals[:, None] - window
        return visible


def attend_blocks(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, visible: torch.Tensor, softcap: float
) -> torch.Tensor:
    """Softmax attention, reduced in blocks by position and added up block after block.

    query: [rows, heads, head_dim], scaled; keys, values: [rows, padded, kv_heads, head_dim]; visible: [rows,
    padded]. Returns [rows, heads, head_dim].
    """
    rows, heads, head_dim = query.shape
    kv_heads, blocks = keys.shape[2], keys.shape[1] // BLOCK
    grouped = query.view(rows, 1, kv_heads, heads // kv_heads, head_dim)
    blocked = (rows, blocks, BLOCK, kv_heads, head_dim)
    key_blocks = keys.view(blocked).permute(0, 1, 3, 4, 2)  # [rows, blocks, kv_heads, head_dim, BLOCK]
    value_blocks = values.view(blocked).permute(0, 1, 3, 2, 4)  # [rows, blocks, kv_heads, BLOCK, head_dim]
    scores = torch.matmul(grouped, key_blocks)  # [rows, blocks, kv_heads, group, BLOCK]
    if softcap > 0:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~visible.view(rows, blocks, 1, 1, BLOCK), -torch.inf)
    weights = torch.exp(scores - scores.amax(dim=(1, 4), keepdim=True))
    sums, parts = weights.sum(-1), torch.matmul(weights, value_blocks)
    total, out = sums[:, 0], parts[:, 0]
    for block in range(1, blocks):
        total, out = total + sums[:, block], out + parts[:, block]
    return (out / total[..., None]).reshape(rows, heads, head_dim)


def _on(array: Any, device: torch.device) -> torch.Tensor:  # noqa: ANN401 - any array
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


AttentionFunction = Callable[..., tuple[torch.Tensor, None]]
