"""Attention in logical order, for CPUs: every row reduces its own visible keys by position.

The result of a row is a function of its query and of the keys and values that it sees, in the order of
their positions, and of nothing else: not of the number of rows, of where a draft lies in a step, or of
how much was prefilled at once. Every operation that rounds is spelled out (``fma`` included) and no
fast-math flag is set, so no compiler may reorder it. Blocks of ``BLOCK`` positions are combined by the
online softmax of FlashAttention (Dao et al. 2022).

Keys and values come as bits: int16 for bfloat16, int32 for float32, widened by a shift of 16 or 0.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from decoder_service.compiled import compiled
from decoder_service.forest import Int32Array
from decoder_service.machine import float_of_bits, fma

BLOCK: Final = 64
TILE_ROWS: Final = 8
LANES: Final = 32
LOG2_E: Final = np.float32(1.4426950408889634)
LN2_HIGH: Final = np.float32(0.693359375)
LN2_LOW: Final = np.float32(-2.12194440e-4)
EXP_MIN: Final = np.float32(-87.0)
NEG_INF: Final = np.float32(-np.inf)

Float32Array = npt.NDArray[np.float32]
BitsArray = npt.NDArray[Any]  # int16 or int32


class Cached(NamedTuple):
    """One layer's cached keys and values, and where those of a request are."""

    keys: BitsArray  # [blocks, kv_heads, head_dim, BLOCK]
    values: BitsArray  # [blocks, kv_heads, BLOCK, head_dim]
    table: Int32Array  # [max_blocks], the block of each block of positions


class Rows(NamedTuple):
    """The rows of a step, in one layer. Row i sees context_lens[i] cached positions, then rows of the step."""

    query: Float32Array  # [rows, heads, head_dim]
    keys: BitsArray  # [rows, kv_heads, head_dim]
    values: BitsArray  # [rows, kv_heads, head_dim]
    context_lens: Int32Array  # [rows]
    ancestors: Int32Array  # [rows, max_ancestors], in logical order, the row itself last
    num_ancestors: Int32Array  # [rows]
    out: Float32Array  # [rows, heads, head_dim]


class Formula(NamedTuple):
    """What the model's attention computes."""

    scaling: np.float32
    softcap: np.float32  # 0: none
    window: int  # newest positions that a row sees; 0: all
    shift: int  # from bits to float32


class Tile(NamedTuple):
    """Some rows of one request, and one key/value head."""

    first: int
    last: int  # exclusive
    kv_head: int


class Scratch(NamedTuple):
    """What a tile works with. The block holds, in each column, a cached position or a row of the step."""

    keys: Float32Array  # [head_dim, BLOCK]
    values: Float32Array  # [BLOCK, head_dim]
    resident: Int32Array  # [BLOCK], the step's row that a column holds; -1: none
    scores: Float32Array  # [group, BLOCK]
    lanes: Float32Array  # [LANES]
    largest: Float32Array  # [rows of the tile * group]
    total: Float32Array  # [rows of the tile * group]


@compiled
def _exp_in_place(x: Float32Array) -> None:
    """Replace each x[i] <= 0 by its exponential (Cephes' polynomial); below -87 by 0."""
    for i in range(BLOCK):
        value = x[i] if x[i] > EXP_MIN else EXP_MIN
        exponent = np.floor(fma(value, LOG2_E, np.float32(0.5)))
        rest = fma(exponent, -LN2_HIGH, value)
        rest = fma(exponent, -LN2_LOW, rest)
        poly = fma(np.float32(1.9875691500e-4), rest, np.float32(1.3981999507e-3))
        poly = fma(poly, rest, np.float32(8.3334519073e-3))
        poly = fma(poly, rest, np.float32(4.1665795894e-2))
        poly = fma(poly, rest, np.float32(1.6666665459e-1))
        poly = fma(poly, rest, np.float32(5.0000001201e-1))
        poly = fma(poly, rest * rest, rest) + np.float32(1.0)
        power = float_of_bits((np.int32(exponent) + np.int32(127)) << np.int32(23))
        x[i] = power * poly if x[i] > EXP_MIN else np.float32(0.0)


@compiled
def _score(query: Float32Array, keys: Float32Array, scores: Float32Array) -> None:
    """scores[j] = sum over d of query[d] * keys[d, j], d ascending."""
    head_dim = len(query)
    scores[:] = np.float32(0.0)
    for d in range(0, head_dim - 3, 4):
        q0, q1, q2, q3 = query[d], query[d + 1], query[d + 2], query[d + 3]
        for j in range(BLOCK):
            k0, k1, k2, k3 = keys[d, j], keys[d + 1, j], keys[d + 2, j], keys[d + 3, j]
            scores[j] = fma(q3, k3, fma(q2, k2, fma(q1, k1, fma(q0, k0, scores[j]))))
    for d in range(head_dim - head_dim % 4, head_dim):
        for j in range(BLOCK):
            scores[j] = fma(query[d], keys[d, j], scores[j])


@compiled
def _score_three(query: Float32Array, keys: Float32Array, scores: Float32Array) -> None:
    """What ``_score`` does for three heads, [3, head_dim] and [3, BLOCK], reading the keys once."""
    qa, qb, qc = query[0], query[1], query[2]
    sa, sb, sc = scores[0], scores[1], scores[2]
    head_dim = len(qa)
    scores[:] = np.float32(0.0)
    for d in range(0, head_dim - 3, 4):
        a0, a1, a2, a3 = qa[d], qa[d + 1], qa[d + 2], qa[d + 3]
        b0, b1, b2, b3 = qb[d], qb[d + 1], qb[d + 2], qb[d + 3]
        c0, c1, c2, c3 = qc[d], qc[d + 1], qc[d + 2], qc[d + 3]
        for j in range(BLOCK):
            k0, k1, k2, k3 = keys[d, j], keys[d + 1, j], keys[d + 2, j], keys[d + 3, j]
            sa[j] = fma(a3, k3, fma(a2, k2, fma(a1, k1, fma(a0, k0, sa[j]))))
            sb[j] = fma(b3, k3, fma(b2, k2, fma(b1, k1, fma(b0, k0, sb[j]))))
            sc[j] = fma(c3, k3, fma(c2, k2, fma(c1, k1, fma(c0, k0, sc[j]))))
    for d in range(head_dim - head_dim % 4, head_dim):
        for j in range(BLOCK):
            sa[j] = fma(qa[d], keys[d, j], sa[j])
            sb[j] = fma(qb[d], keys[d, j], sb[j])
            sc[j] = fma(qc[d], keys[d, j], sc[j])


@compiled
def _add_values(weights: Float32Array, values: Float32Array, num_valid: int, out: Float32Array) -> None:
    """out[d] += sum over j < num_valid of weights[j] * values[j, d], j ascending."""
    head_dim = len(out)
    for j in range(0, num_valid - 3, 4):
        p0, p1, p2, p3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        for d in range(head_dim):
            v0, v1, v2, v3 = values[j, d], values[j + 1, d], values[j + 2, d], values[j + 3, d]
            out[d] = fma(p3, v3, fma(p2, v2, fma(p1, v1, fma(p0, v0, out[d]))))
    for j in range(num_valid - num_valid % 4, num_valid):
        for d in range(head_dim):
            out[d] = fma(weights[j], values[j, d], out[d])


@compiled
def _add_values_three(weights: Float32Array, values: Float32Array, num_valid: int, out: Float32Array) -> None:
    """What ``_add_values`` does for three heads, [3, BLOCK] and [3, head_dim], reading the values once."""
    wa, wb, wc = weights[0], weights[1], weights[2]
    oa, ob, oc = out[0], out[1], out[2]
    head_dim = len(oa)
    for j in range(0, num_valid - 3, 4):
        a0, a1, a2, a3 = wa[j], wa[j + 1], wa[j + 2], wa[j + 3]
        b0, b1, b2, b3 = wb[j], wb[j + 1], wb[j + 2], wb[j + 3]
        c0, c1, c2, c3 = wc[j], wc[j + 1], wc[j + 2], wc[j + 3]
        for d in range(head_dim):
            v0, v1, v2, v3 = values[j, d], values[j + 1, d], values[j + 2, d], values[j + 3, d]
            oa[d] = fma(a3, v3, fma(a2, v2, fma(a1, v1, fma(a0, v0, oa[d]))))
            ob[d] = fma(b3, v3, fma(b2, v2, fma(b1, v1, fma(b0, v0, ob[d]))))
            oc[d] = fma(c3, v3, fma(c2, v2, fma(c1, v1, fma(c0, v0, oc[d]))))
    for j in range(num_valid - num_valid % 4, num_valid):
        for d in range(head_dim):
            oa[d] = fma(wa[j], values[j, d], oa[d])
            ob[d] = fma(wb[j], values[j, d], ob[d])
            oc[d] = fma(wc[j], values[j, d], oc[d])


@compiled
def _load_block(bits: BitsArray, target: Float32Array, shift: int) -> None:
    """Widen a block, both [a, b]."""
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            target[i, j] = float_of_bits(np.int32(bits[i, j]) << np.int32(shift))


@compiled
def _load_path(rows: Rows, path: Int32Array, start: int, kv_head: int, shift: int, scratch: Scratch) -> None:
    """Put rows of the step into the block's columns from ``start`` on, but for those that are there already."""
    for column in range(start, start + len(path)):
        row = path[column - start]
        if scratch.resident[column] == row:
            continue
        scratch.resident[column] = row
        for d in range(rows.keys.shape[2]):
            scratch.keys[d, column] = float_of_bits(np.int32(rows.keys[row, kv_head, d]) << np.int32(shift))
            scratch.values[column, d] = float_of_bits(
                np.int32(rows.values[row, kv_head, d]) << np.int32(shift)
            )


@compiled
def _mask_and_scale(scores: Float32Array, low: int, num_valid: int, formula: Formula) -> None:
    """Scale, cap, and give places outside of low..num_valid the score -inf."""
    for j in range(BLOCK):
        scores[j] *= formula.scaling
    if formula.softcap > 0:
        for j in range(BLOCK):
            scores[j] = formula.softcap * np.float32(np.tanh(scores[j] / formula.softcap))
    for j in range(BLOCK):
        scores[j] = scores[j] if low <= j < num_valid else NEG_INF


@compiled
def _largest_of(scores: Float32Array, lanes: Float32Array) -> np.float32:
    """The largest of the scores. lanes: [32], scratch."""
    for i in range(32):
        lanes[i] = scores[i] if scores[i] > scores[i + 32] else scores[i + 32]
    half = 16
    while half > 0:
        for i in range(half):
            lanes[i] = lanes[i] if lanes[i] > lanes[i + half] else lanes[i + half]
        half //= 2
    return np.float32(lanes[0])


@compiled
def _sum_of(weights: Float32Array, lanes: Float32Array) -> np.float32:
    """The sum of the weights, as a balanced tree. lanes: [32], scratch."""
    for i in range(32):
        lanes[i] = weights[i] + weights[i + 32]
    half = 16
    while half > 0:
        for i in range(half):
            lanes[i] += lanes[i + half]
        half //= 2
    return np.float32(lanes[0])


@compiled
def _softmax_step(scores: Float32Array, scratch: Scratch, state: int) -> np.float32:
    """Turn scores into weights under the running maximum; return the factor for what was summed before."""
    before, largest = scratch.largest[state], _largest_of(scores, scratch.lanes)
    factor = np.float32(1.0)
    if largest > before:
        factor = np.float32(np.exp(before - largest))
    else:
        largest = before
    for j in range(BLOCK):
        scores[j] -= largest
    _exp_in_place(scores)
    scratch.largest[state] = largest
    scratch.total[state] = fma(scratch.total[state], factor, _sum_of(scores, scratch.lanes))
    return factor


@compiled
def _attend_row(
    rows: Rows, row: int, tile: Tile, places: tuple[int, int], formula: Formula, scratch: Scratch
) -> None:
    """Add the block's places low..num_valid to what a row has, for each head of the group."""
    low, num_valid = places
    group = len(scratch.scores)
    threes = group - group % 3
    query = rows.query[row, tile.kv_head * group : (tile.kv_head + 1) * group]
    out = rows.out[row, tile.kv_head * group : (tile.kv_head + 1) * group]
    for head in range(0, threes, 3):
        _score_three(query[head : head + 3], scratch.keys, scratch.scores[head : head + 3])
    for head in range(threes, group):
        _score(query[head], scratch.keys, scratch.scores[head])
    for head in range(group):
        _mask_and_scale(scratch.scores[head], low, num_valid, formula)
        factor = _softmax_step(scratch.scores[head], scratch, (row - tile.first) * group + head)
        if factor != 1.0:
            for d in range(out.shape[1]):
                out[head, d] *= factor
    for head in range(0, threes, 3):
        _add_values_three(scratch.scores[head : head + 3], scratch.values, num_valid, out[head : head + 3])
    for head in range(threes, group):
        _add_values(scratch.scores[head], scratch.values, num_valid, out[head])


@compiled
def _attend_block(
    block: int, tile: Tile, rows: Rows, cached: Cached, formula: Formula, scratch: Scratch
) -> None:
    """Add one block of positions to what the tile's rows have."""
    start = block * BLOCK
    is_loaded = False
    scratch.resident[:] = -1
    for row in range(tile.first, tile.last):
        context_len = rows.context_lens[row]
        seen = context_len + rows.num_ancestors[row]
        num_valid = min(BLOCK, seen - start)
        low = max(0, seen - formula.window - start) if formula.window > 0 else 0
        if num_valid <= low:
            continue
        num_cached = min(max(context_len - start, 0), BLOCK)
        if num_cached > 0 and not is_loaded:
            _load_block(cached.keys[cached.table[block], tile.kv_head], scratch.keys, formula.shift)
            _load_block(cached.values[cached.table[block], tile.kv_head], scratch.values, formula.shift)
            is_loaded = True
        if num_valid > num_cached:
            first = start + num_cached - context_len
            path = rows.ancestors[row, first : first + num_valid - num_cached]
            _load_path(rows, path, num_cached, tile.kv_head, formula.shift, scratch)
        _attend_row(rows, row, tile, (low, num_valid), formula, scratch)


@compiled
def attend_tile(tile: Tile, rows: Rows, cached: Cached, formula: Formula) -> None:
    """Write ``rows.out`` for a tile. Its rows have the same request, so the same ``context_lens``."""
    head_dim = rows.query.shape[2]
    group = rows.query.shape[1] // cached.keys.shape[1]
    states = (tile.last - tile.first) * group
    scratch = Scratch(
        np.empty((head_dim, BLOCK), np.float32),
        np.empty((BLOCK, head_dim), np.float32),
        np.empty(BLOCK, np.int32),
        np.empty((group, BLOCK), np.float32),
        np.empty(LANES, np.float32),
        np.full(states, NEG_INF, np.float32),
        np.zeros(states, np.float32),
    )
    heads = rows.out[tile.first : tile.last, tile.kv_head * group : (tile.kv_head + 1) * group]
    heads[:] = np.float32(0.0)
    seen = rows.context_lens[tile.first : tile.last] + rows.num_ancestors[tile.first : tile.last]
    first_block = max(0, seen.min() - formula.window) // BLOCK if formula.window > 0 else 0
    for block in range(first_block, (seen.max() + BLOCK - 1) // BLOCK):
        _attend_block(block, tile, rows, cached, formula, scratch)
    for state in range(states):
        out = heads[state // group, state % group]
        for d in range(head_dim):
            out[d] /= scratch.total[state]


class Layers(NamedTuple):
    """Keys and values of all layers."""

    pool_keys: BitsArray  # [layers, blocks, kv_heads, head_dim, BLOCK]
    pool_values: BitsArray  # [layers, blocks, kv_heads, BLOCK, head_dim]
    step_keys: BitsArray  # [layers, rows, kv_heads, head_dim]
    step_values: BitsArray  # [layers, rows, kv_heads, head_dim]


@compiled
def store_rows(layers: Layers, rows: Int32Array, blocks: Int32Array, offsets: Int32Array) -> None:
    """Copy rows of the step into the pool, in all layers: rows[i] to blocks[i], offsets[i]."""
    num_layers, _, kv_heads, head_dim, _ = layers.pool_keys.shape
    for layer in range(num_layers):
        for i in range(len(rows)):
            row, block, offset = rows[i], blocks[i], offsets[i]
            for head in range(kv_heads):
                for d in range(head_dim):
                    layers.pool_keys[layer, block, head, d, offset] = layers.step_keys[layer, row, head, d]
                    layers.pool_values[layer, block, head, offset, d] = layers.step_values[
                        layer, row, head, d
                    ]
