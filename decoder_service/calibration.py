"""Turns the evidence for a drafted token into the acceptance that such tokens really had.

Evidence is bucketed into cells: source, order of the match, count, share of the siblings. Every cell counts
its trials and hits with a slow decay; a weak prior speaks until there are trials.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from decoder_service.compiled import compiled
from decoder_service.draft import Source
from decoder_service.forest import Int32Array

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]

ORDER_FLOORS: Final = np.array([1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32], dtype=np.int32)
COUNT_FLOORS: Final = np.array([1, 2, 3, 4, 8, 16, 64], dtype=np.int32)
NUM_SHARES: Final = 9  # eighths; the last cell is for a token that nothing else rivals

DECAY: Final = 0.9995  # of a cell's trials, each time the cell is tried
PRIOR_TRIALS: Final = 4.0


def _cells_up_to(limit: int, floors: Int32Array) -> Int32Array:
    """Cell of each number 0..limit: that of the highest floor not above it."""
    return np.maximum(np.searchsorted(floors, np.arange(limit + 1), side="right") - 1, 0).astype(np.int32)


ORDER_CELLS: Final = _cells_up_to(int(ORDER_FLOORS[-1]), ORDER_FLOORS)
COUNT_CELLS: Final = _cells_up_to(int(COUNT_FLOORS[-1]), COUNT_FLOORS)


def prior_acceptance() -> Float64Array:
    """Acceptance before any trial: rises with order, count and share.  # [orders, counts, shares]"""
    orders = np.log2(ORDER_FLOORS)[:, None, None]
    counts = np.log2(COUNT_FLOORS)[None, :, None]
    shares = ((np.arange(NUM_SHARES) + 0.5) / NUM_SHARES)[None, None, :]
    logits = -1.2 + 0.45 * orders + 0.15 * counts + 0.9 * np.log(shares / (1 - shares))
    return 1 / (1 + np.exp(-logits))


class Calibration:
    """Acceptance by evidence, learned from every verified step. Not thread-safe."""

    def __init__(self) -> None:
        prior = prior_acceptance()
        shape = (len(Source) + 1, *prior.shape)
        self._prior = np.broadcast_to(prior, shape).copy()  # [sources, orders, counts, shares]
        self._trials = np.zeros(shape)
        self._hits = np.zeros(shape)
        self._estimates = self._prior.astype(np.float32)

    def estimates_of(self, source: Source) -> Float32Array:
        """The live table of a source.  # [orders, counts, shares]"""
        table: Float32Array = self._estimates[source]
        return table

    def probability(
        self, source: Source, orders: Int32Array, counts: Int32Array, totals: Int32Array
    ) -> Float32Array:
        """Estimated acceptance of each token, given that its context is right.  # [n], 0 to 1"""
        return self._estimates.reshape(-1)[self._places(source, orders, counts, totals)]

    def observe(
        self,
        source: Source,
        orders: Int32Array,
        counts: Int32Array,
        totals: Int32Array,
        hits: npt.NDArray[np.bool_],
    ) -> None:
        """Learn from tokens whose context was right: whether the model took them.  # all [n]"""
        places = self._places(source, orders, counts, totals)
        _learn(self._prior, self._trials, self._hits, self._estimates, places, hits)

    def _places(
        self, source: Source, orders: Int32Array, counts: Int32Array, totals: Int32Array
    ) -> npt.NDArray[np.int64]:
        first = int(source) * self._prior[0].size
        places: npt.NDArray[np.int64] = _cells(orders, counts, totals, ORDER_CELLS, COUNT_CELLS)
        places += first
        return places


@compiled
def _cells(
    orders: Int32Array,
    counts: Int32Array,
    totals: Int32Array,
    order_cells: Int32Array,
    count_cells: Int32Array,
) -> npt.NDArray[np.int64]:
    """Place of each evidence among the cells of a source."""
    found = np.empty(len(orders), np.int64)
    num_counts = count_cells[-1] + 1
    for i in range(len(orders)):
        order_cell = order_cells[min(max(orders[i], 0), len(order_cells) - 1)]
        count_cell = count_cells[min(max(counts[i], 0), len(count_cells) - 1)]
        share_cell = (NUM_SHARES - 1) * np.int64(counts[i]) // max(totals[i], 1)
        share_cell = min(max(share_cell, 0), NUM_SHARES - 1)
        found[i] = (order_cell * num_counts + count_cell) * NUM_SHARES + share_cell
    return found


@compiled
def _learn(
    prior: Float64Array,
    trials: Float64Array,
    hits: Float64Array,
    estimates: Float32Array,
    cells: npt.NDArray[np.int64],
    was_hit: npt.NDArray[np.bool_],
) -> None:
    for i in range(len(cells)):
        cell = cells[i]
        trials.flat[cell] = trials.flat[cell] * DECAY + 1.0
        hits.flat[cell] = hits.flat[cell] * DECAY + was_hit[i]
        weight = trials.flat[cell] + PRIOR_TRIALS
        estimates.flat[cell] = (hits.flat[cell] + prior.flat[cell] * PRIOR_TRIALS) / weight
