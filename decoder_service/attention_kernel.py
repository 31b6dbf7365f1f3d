"""Attention in logical order, for CPUs: every row reduces its own visible keys by position.

The result of a row is a function of its query and of the keys and values that it sees, in the order of
their positions, and of nothing else: not of the number of rows, of where a draft lies in a step, or of
how much was prefilled at once. Every operation that rounds is spelled out (``fma`` included) and no
fast-math flag is set, so no compiler may reorder it. Blocks of ``BLOCK`` positions are combined by the
online softmax of FlashAttention (Dao et al. 2022).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, cfunc, njit, types

from decoder_service.machine import fetch_add, float_of_bits, fma, pointer_to

BLOCK = 64
TILE_ROWS = 8
_LANES = 16
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_EXP_MIN = np.float32(-87.0)
_NEG_INF = np.float32(-np.inf)


@njit(cache=True, nogil=True)
def _exp_in_place(x: Any) -> None:
    """Replace each x[i] <= 0 by its exponential (Cephes' polynomial); below -87 by 0."""
    for i in range(BLOCK):
        value = x[i] if x[i] > _EXP_MIN else _EXP_MIN
        exponent = np.floor(fma(value, _LOG2_E, np.float32(0.5)))
        rest = fma(exponent, -_LN2_HIGH, value)
        rest = fma(exponent, -_LN2_LOW, rest)
        poly = fma(np.float32(1.9875691500e-4), rest, np.float32(1.3981999507e-3))
        poly = fma(poly, rest, np.float32(8.3334519073e-3))
        poly = fma(poly, rest, np.float32(4.1665795894e-2))
        poly = fma(poly, rest, np.float32(1.6666665459e-1))
        poly = fma(poly, rest, np.float32(5.0000001201e-1))
        poly = fma(poly, rest * rest, rest) + np.float32(1.0)
        power = float_of_bits((np.int32(exponent) + np.int32(127)) << np.int32(23))
        x[i] = power * poly if x[i] > _EXP_MIN else np.float32(0.0)


@njit(cache=True, nogil=True)
def _score(query: Any, keys: Any, head_dim: int, scores: Any) -> None:
    """scores[j] = sum over d of query[d] * keys[d, j], d ascending."""
    for j in range(BLOCK):
        scores[j] = np.float32(0.0)
    for d in range(0, head_dim - 3, 4):
        q0, q1, q2, q3 = query[d], query[d + 1], query[d + 2], query[d + 3]
        for j in range(BLOCK):
            s = fma(q0, keys[d, j], scores[j])
            s = fma(q1, keys[d + 1, j], s)
            s = fma(q2, keys[d + 2, j], s)
            scores[j] = fma(q3, keys[d + 3, j], s)
    for d in range(head_dim - head_dim % 4, head_dim):
        q0 = query[d]
        for j in range(BLOCK):
            scores[j] = fma(q0, keys[d, j], scores[j])


@njit(cache=True, nogil=True)
def _add_values(weights: Any, values: Any, num_valid: int, head_dim: int, out: Any) -> None:
    """out[d] += sum over j < num_valid of weights[j] * values[j, d], j ascending."""
    for j in range(0, num_valid - 3, 4):
        p0, p1, p2, p3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        for d in range(head_dim):
            o = fma(p0, values[j, d], out[d])
            o = fma(p1, values[j + 1, d], o)
            o = fma(p2, values[j + 2, d], o)
            out[d] = fma(p3, values[j + 3, d], o)
    for j in range(num_valid - num_valid % 4, num_valid):
        p0 = weights[j]
        for d in range(head_dim):
            out[d] = fma(p0, values[j, d], out[d])


@njit(cache=True, nogil=True)
def _load_block(source: Any, target: Any, shift: int) -> None:
    """Widen a block of bfloat16 or float32 bits to float32, both [a, b]."""
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            target[i, j] = float_of_bits(np.int32(source[i, j]) << np.int32(shift))


@njit(cache=True, nogil=True)
def _load_ancestors(
    step_keys: Any,
    step_values: Any,
    rows: Any,
    start: int,
    kv_head: int,
    keys: Any,
    values: Any,
    shift: int,
    resident: Any,
) -> None:
    """Put rows of the step into the block's columns from ``start`` on, but for those that are there already."""
    for i in range(len(rows)):
        if resident[start + i] == rows[i]:
            continue
        resident[start + i] = rows[i]
        for d in range(keys.shape[0]):
            keys[d, start + i] = float_of_bits(np.int32(step_keys[rows[i], kv_head, d]) << np.int32(shift))
            values[start + i, d] = float_of_bits(
                np.int32(step_values[rows[i], kv_head, d]) << np.int32(shift)
            )


@njit(cache=True, nogil=True)
def _softmax_step(scores: Any, low: int, num_valid: int, running: Any, lanes: Any) -> np.float32:
    """Turn scores into weights under the running maximum; return the factor for what was summed before.

    running: [2], the maximum and the sum so far. lanes: [16], scratch.
    """
    for j in range(BLOCK):
        scores[j] = scores[j] if low <= j < num_valid else _NEG_INF
    for lane in range(_LANES):
        largest01 = scores[lane] if scores[lane] > scores[lane + 16] else scores[lane + 16]
        largest23 = scores[lane + 32] if scores[lane + 32] > scores[lane + 48] else scores[lane + 48]
        lanes[lane] = largest01 if largest01 > largest23 else largest23
    largest = running[0]
    for lane in range(_LANES):
        largest = lanes[lane] if lanes[lane] > largest else largest
    for j in range(BLOCK):
        scores[j] -= largest
    _exp_in_place(scores)
    factor = np.float32(0.0)
    if running[0] > _NEG_INF:
        factor = np.float32(np.exp(running[0] - largest))
    for lane in range(_LANES):
        lanes[lane] = (scores[lane] + scores[lane + 16]) + (scores[lane + 32] + scores[lane + 48])
    total = np.float32(0.0)
    for lane in range(_LANES):
        total += lanes[lane]
    running[0] = largest
    running[1] = fma(running[1], factor, total)
    return factor


@njit(cache=True, nogil=True)
def _attend_tile(
    rows: Any,
    kv_head: int,
    query: Any,
    pool_keys: Any,
    pool_values: Any,
    step_keys: Any,
    step_values: Any,
    shift: int,
    table: Any,
    context_lens: Any,
    ancestors: Any,
    num_ancestors: Any,
    window: int,
    scaling: Any,
    softcap: Any,
    out: Any,
) -> None:
    """All rows of one tile (of one request) against one key/value head."""
    first_row, last_row = rows
    head_dim = query.shape[2]
    group = query.shape[1] // pool_keys.shape[1]
    keys = np.empty((head_dim, BLOCK), np.float32)
    values = np.empty((BLOCK, head_dim), np.float32)
    scores, lanes = np.empty(BLOCK, np.float32), np.empty(_LANES, np.float32)
    resident = np.empty(BLOCK, np.int32)
    running = np.empty(((last_row - first_row) * group, 2), np.float32)
    running[:, 0] = _NEG_INF
    running[:, 1] = np.float32(0.0)
    out[first_row:last_row, kv_head * group : (kv_head + 1) * group] = np.float32(0.0)
    longest, least = 0, context_lens[first_row]
    for row in range(first_row, last_row):
        longest = max(longest, context_lens[row] + num_ancestors[row])
        least = min(least, context_lens[row] + num_ancestors[row])
    first_block = max(0, least - window) // BLOCK if window > 0 else 0
    for block in range(first_block, (longest + BLOCK - 1) // BLOCK):
        start = block * BLOCK
        loaded = False
        resident[:] = -1
        for row in range(first_row, last_row):
            total = context_lens[row] + num_ancestors[row]
            num_valid = min(BLOCK, total - start)
            low = max(0, total - window - start) if window > 0 else 0
            if num_valid <= low:
                continue
            cached = min(max(context_lens[row] - start, 0), BLOCK)
            if not loaded and cached > 0:
                _load_block(pool_keys[table[block], kv_head], keys, shift)
                _load_block(pool_values[table[block], kv_head], values, shift)
                loaded = True
            if num_valid > cached:
                first = start + cached - context_lens[row]
                path = ancestors[row, first : first + num_valid - cached]
                _load_ancestors(step_keys, step_values, path, cached, kv_head, keys, values, shift, resident)
            for member in range(group):
                head = kv_head * group + member
                _score(query[row, head], keys, head_dim, scores)
                for j in range(BLOCK):
                    scores[j] *= scaling
                if softcap > 0:
                    for j in range(BLOCK):
                        scores[j] = softcap * np.float32(np.tanh(scores[j] / softcap))
                state = running[(row - first_row) * group + member]
                factor = _softmax_step(scores, low, num_valid, state, lanes)
                for d in range(head_dim):
                    out[row, head, d] *= factor
                _add_values(scores, values, num_valid, head_dim, out[row, head])
    for row in range(first_row, last_row):
        for member in range(group):
            total_weight = running[(row - first_row) * group + member, 1]
            for d in range(head_dim):
                out[row, kv_head * group + member, d] /= total_weight


@njit(cache=True, nogil=True)
def store_rows(
    pool_keys: Any, pool_values: Any, step_keys: Any, step_values: Any, rows: Any, blocks: Any, offsets: Any
) -> None:
    """Copy rows of the step into the pool, in all layers: rows[i] to blocks[i], offsets[i].

    Bits of pool_keys: [layers, blocks, kv_heads, head_dim, BLOCK], pool_values: [layers, blocks, kv_heads,
    BLOCK, head_dim], step_keys and step_values: [layers, rows, kv_heads, head_dim].
    """
    for layer in range(pool_keys.shape[0]):
        for i in range(len(rows)):
            row, block, offset = rows[i], blocks[i], offsets[i]
            for head in range(pool_keys.shape[2]):
                for d in range(pool_keys.shape[3]):
                    pool_keys[layer, block, head, d, offset] = step_keys[layer, row, head, d]
                    pool_values[layer, block, head, offset, d] = step_values[layer, row, head, d]


# Slots of a job: what one call of the kernel needs, as int64 numbers; arrays go by address.
# QUERY, OUT: float32 [rows, heads, head_dim]. POOL_KEYS: bits [blocks, kv_heads, head_dim, BLOCK]; POOL_VALUES: bits
# [blocks, kv_heads, BLOCK, head_dim]; STEP_KEYS, STEP_VALUES: bits [rows, kv_heads, head_dim]; bits are int16 for
# bfloat16, int32 for float32. TILES: int32 [n, 3], first row, last row + 1, request. TABLES: int32 [requests, table_len],
# the pool's block of each block of positions. Row i sees CONTEXT_LENS[i] cached positions, then the rows
# ANCESTORS[i, :NUM_ANCESTORS[i]] of the step, itself last. WINDOW: newest positions that a row sees, 0 for all.
# SOFTCAP_BITS: 0 for none.
NEXT_ITEM, NUM_TILES, NUM_ROWS, NUM_HEADS, NUM_KV_HEADS, HEAD_DIM = range(6)
NUM_BLOCKS, NUM_REQUESTS, TABLE_LEN, MAX_ANCESTORS, WINDOW = range(6, 11)
SCALING_BITS, SOFTCAP_BITS = range(11, 13)
QUERY, POOL_KEYS, POOL_VALUES, STEP_KEYS, STEP_VALUES, OUT = range(13, 19)
TILES, TABLES, CONTEXT_LENS, ANCESTORS, NUM_ANCESTORS = range(19, 24)
JOB_LEN = 24


@njit(cache=True, nogil=True)
def _work(
    job: Any, address: int, pool_keys: Any, pool_values: Any, step_keys: Any, step_values: Any, shift: int
) -> None:
    """Take tiles of the job until none is left; any number of threads may do so at once."""
    num_rows, num_heads, kv_heads, head_dim = job[NUM_ROWS], job[NUM_HEADS], job[NUM_KV_HEADS], job[HEAD_DIM]
    query = carray(pointer_to(job[QUERY]), (num_rows, num_heads, head_dim), np.float32)
    out = carray(pointer_to(job[OUT]), (num_rows, num_heads, head_dim), np.float32)
    tiles = carray(pointer_to(job[TILES]), (job[NUM_TILES], 3), np.int32)
    tables = carray(pointer_to(job[TABLES]), (job[NUM_REQUESTS], job[TABLE_LEN]), np.int32)
    context_lens = carray(pointer_to(job[CONTEXT_LENS]), (num_rows,), np.int32)
    ancestors = carray(pointer_to(job[ANCESTORS]), (num_rows, job[MAX_ANCESTORS]), np.int32)
    num_ancestors = carray(pointer_to(job[NUM_ANCESTORS]), (num_rows,), np.int32)
    scaling = float_of_bits(np.int32(job[SCALING_BITS]))
    softcap = float_of_bits(np.int32(job[SOFTCAP_BITS]))
    item = fetch_add(address, 1)
    while item < job[NUM_TILES] * kv_heads:
        tile = tiles[item // kv_heads]
        _attend_tile(
            (tile[0], tile[1]),
            item % kv_heads,
            query,
            pool_keys,
            pool_values,
            step_keys,
            step_values,
            shift,
            tables[tile[2]],
            context_lens,
            ancestors,
            num_ancestors,
            job[WINDOW],
            scaling,
            softcap,
            out,
        )
        item = fetch_add(address, 1)


@cfunc(types.void(types.CPointer(types.int64)), cache=True, nopython=True)
def attend_bfloat16(job_pointer: Any) -> None:
    """Attend with pool and step of bfloat16; see the slots of a job."""
    job = carray(job_pointer, (JOB_LEN,))
    pool = (job[NUM_BLOCKS], job[NUM_KV_HEADS])
    step = (job[NUM_ROWS], job[NUM_KV_HEADS], job[HEAD_DIM])
    pool_keys = carray(pointer_to(job[POOL_KEYS]), (pool[0], pool[1], job[HEAD_DIM], BLOCK), np.int16)
    pool_values = carray(pointer_to(job[POOL_VALUES]), (pool[0], pool[1], BLOCK, job[HEAD_DIM]), np.int16)
    step_keys = carray(pointer_to(job[STEP_KEYS]), step, np.int16)
    step_values = carray(pointer_to(job[STEP_VALUES]), step, np.int16)
    _work(job, job.ctypes.data, pool_keys, pool_values, step_keys, step_values, 16)


@cfunc(types.void(types.CPointer(types.int64)), cache=True, nopython=True)
def attend_float32(job_pointer: Any) -> None:
    """Attend with pool and step of float32; see the slots of a job."""
    job = carray(job_pointer, (JOB_LEN,))
    pool = (job[NUM_BLOCKS], job[NUM_KV_HEADS])
    step = (job[NUM_ROWS], job[NUM_KV_HEADS], job[HEAD_DIM])
    pool_keys = carray(pointer_to(job[POOL_KEYS]), (pool[0], pool[1], job[HEAD_DIM], BLOCK), np.int32)
    pool_values = carray(pointer_to(job[POOL_VALUES]), (pool[0], pool[1], BLOCK, job[HEAD_DIM]), np.int32)
    step_keys = carray(pointer_to(job[STEP_KEYS]), step, np.int32)
    step_values = carray(pointer_to(job[STEP_VALUES]), step, np.int32)
    _work(job, job.ctypes.data, pool_keys, pool_values, step_keys, step_values, 0)
