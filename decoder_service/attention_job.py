"""One call of the attention kernel as a C function over an array of numbers, so that threads can share it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import carray, cfunc, types

from decoder_service.attention_kernel import BLOCK, Cached, Formula, Rows, Tile, attend_tile
from decoder_service.compiled import compiled
from decoder_service.machine import fetch_add, float_of_bits, pointer_to

# Slots of a job: sizes, bits of float32 numbers, and addresses of the arrays that the kernel describes.
# TILES is int32 [tiles, 3]: first row, last row (exclusive), request. TABLES is int32 [requests, table_len].
NEXT_ITEM, NUM_TILES, NUM_ROWS, NUM_HEADS, NUM_KV_HEADS, HEAD_DIM = range(6)
NUM_BLOCKS, NUM_REQUESTS, TABLE_LEN, MAX_ANCESTORS, WINDOW = range(6, 11)
SCALING_BITS, SOFTCAP_BITS = range(11, 13)
QUERY, POOL_KEYS, POOL_VALUES, STEP_KEYS, STEP_VALUES, OUT = range(13, 19)
TILES, TABLES, CONTEXT_LENS, ANCESTORS, NUM_ANCESTORS = range(19, 24)
JOB_LEN: Final = 24

_JobPointer = types.CPointer(types.int64)


@compiled
def _work(job: Any, keys: tuple[Any, Any], values: tuple[Any, Any], shift: int) -> None:  # noqa: ANN401
    """Take tiles of the job until none is left; any number of threads may do so at once.

    keys, values: those of the pool and of the step's rows.
    """
    num_rows, kv_heads = job[NUM_ROWS], job[NUM_KV_HEADS]
    shape = (num_rows, job[NUM_HEADS], job[HEAD_DIM])
    rows = Rows(
        carray(pointer_to(job[QUERY]), shape, np.float32),
        keys[1],
        values[1],
        carray(pointer_to(job[CONTEXT_LENS]), (num_rows,), np.int32),
        carray(pointer_to(job[ANCESTORS]), (num_rows, job[MAX_ANCESTORS]), np.int32),
        carray(pointer_to(job[NUM_ANCESTORS]), (num_rows,), np.int32),
        carray(pointer_to(job[OUT]), shape, np.float32),
    )
    formula = Formula(
        float_of_bits(np.int32(job[SCALING_BITS])),
        float_of_bits(np.int32(job[SOFTCAP_BITS])),
        job[WINDOW],
        shift,
    )
    tiles = carray(pointer_to(job[TILES]), (job[NUM_TILES], 3), np.int32)
    tables = carray(pointer_to(job[TABLES]), (job[NUM_REQUESTS], job[TABLE_LEN]), np.int32)
    item = fetch_add(job.ctypes.data, 1)
    while item < job[NUM_TILES] * kv_heads:
        first, last, request = tiles[item // kv_heads]
        tile = Tile(int(first), int(last), item % kv_heads)
        attend_tile(tile, rows, Cached(keys[0], values[0], tables[request]), formula)
        item = fetch_add(job.ctypes.data, 1)


@cfunc(types.void(_JobPointer), cache=True, nopython=True)  # type: ignore[untyped-decorator]
def attend_bfloat16(job_pointer: Any) -> None:  # noqa: ANN401 - a C pointer
    """Attend with keys and values of bfloat16."""
    job = carray(job_pointer, (JOB_LEN,))
    pool, rows = (job[NUM_BLOCKS], job[NUM_KV_HEADS]), (job[NUM_ROWS], job[NUM_KV_HEADS], job[HEAD_DIM])
    pool_keys = carray(pointer_to(job[POOL_KEYS]), (pool[0], pool[1], job[HEAD_DIM], BLOCK), np.int16)
    pool_values = carray(pointer_to(job[POOL_VALUES]), (pool[0], pool[1], BLOCK, job[HEAD_DIM]), np.int16)
    step_keys = carray(pointer_to(job[STEP_KEYS]), rows, np.int16)
    step_values = carray(pointer_to(job[STEP_VALUES]), rows, np.int16)
    _work(job, (pool_keys, step_keys), (pool_values, step_values), 16)


@cfunc(types.void(_JobPointer), cache=True, nopython=True)  # type: ignore[untyped-decorator]
def attend_float32(job_pointer: Any) -> None:  # noqa: ANN401 - a C pointer
    """Attend with keys and values of float32."""
    job = carray(job_pointer, (JOB_LEN,))
    pool, rows = (job[NUM_BLOCKS], job[NUM_KV_HEADS]), (job[NUM_ROWS], job[NUM_KV_HEADS], job[HEAD_DIM])
    pool_keys = carray(pointer_to(job[POOL_KEYS]), (pool[0], pool[1], job[HEAD_DIM], BLOCK), np.int32)
    pool_values = carray(pointer_to(job[POOL_VALUES]), (pool[0], pool[1], BLOCK, job[HEAD_DIM]), np.int32)
    step_keys = carray(pointer_to(job[STEP_KEYS]), rows, np.int32)
    step_values = carray(pointer_to(job[STEP_VALUES]), rows, np.int32)
    _work(job, (pool_keys, step_keys), (pool_values, step_values), 0)
