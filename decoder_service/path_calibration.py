"""Corrects the estimated probability of a whole path by what became of the nodes that were planned.

A path's estimate is a product, so small errors multiply, and planning prefers the nodes that are overestimated. The
correction is an adaptive probability map as in PAQ (Mahoney 2005): a table over the logit of the estimate,
interpolated, whose entries follow the acceptance observed. It rises with the estimate, so ranks stay.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from decoder_service.calibration import Float32Array
from decoder_service.compiled import compiled

MOST_LOGIT: Final = 6.0
CELLS_PER_LOGIT: Final = 2
NUM_CELLS: Final = int(2 * MOST_LOGIT * CELLS_PER_LOGIT) + 1
FIRST_TRIALS: Final = 50.0  # that the identity is worth
MOST_TRIALS: Final = 1000.0  # older ones fade


class PathCalibration:
    """Estimate of a path to its observed acceptance. Not thread-safe."""

    def __init__(self) -> None:
        logits = np.arange(NUM_CELLS) / CELLS_PER_LOGIT - MOST_LOGIT
        self._observed = (1 / (1 + np.exp(-logits))).astype(np.float32)  # [cells]
        self._trials = np.full(NUM_CELLS, FIRST_TRIALS, dtype=np.float32)

    def corrected(self, estimates: Float32Array) -> Float32Array:
        """The acceptance that paths of such estimates had.  # [n]"""
        return _look_up(_rising(self._observed, self._trials), estimates)

    def observe(self, estimates: Float32Array, accepted: npt.NDArray[np.bool_]) -> None:
        """Learn from planned nodes.  # both [n]"""
        _learn(self._observed, self._trials, estimates, accepted)


@compiled
def _place(estimate: float) -> float:
    """Where an estimate lies among the cells."""
    bounded = min(max(estimate, 1e-6), 1 - 1e-6)
    logit = min(max(np.log(bounded / (1 - bounded)), -MOST_LOGIT), MOST_LOGIT)
    return float((logit + MOST_LOGIT) * CELLS_PER_LOGIT)


@compiled
def _rising(observed: Float32Array, trials: Float32Array) -> Float32Array:
    """The table that rises and is nearest to the observed one: neighbours that fall are pooled by their trials."""
    means = np.empty(NUM_CELLS, np.float64)
    weights = np.empty(NUM_CELLS, np.float64)
    sizes = np.empty(NUM_CELLS, np.int64)
    num_pools = 0
    for cell in range(NUM_CELLS):
        means[num_pools], weights[num_pools], sizes[num_pools] = observed[cell], trials[cell], 1
        num_pools += 1
        while num_pools > 1 and means[num_pools - 2] > means[num_pools - 1]:
            last, left = num_pools - 1, num_pools - 2
            weight = weights[left] + weights[last]
            means[left] = (means[left] * weights[left] + means[last] * weights[last]) / weight
            weights[left] = weight
            sizes[left] += sizes[last]
            num_pools -= 1
    rising = np.empty(NUM_CELLS, np.float32)
    cell = 0
    for pool in range(num_pools):
        rising[cell : cell + sizes[pool]] = means[pool]
        cell += sizes[pool]
    return rising


@compiled
def _look_up(observed: Float32Array, estimates: Float32Array) -> Float32Array:
    corrected = np.empty(len(estimates), np.float32)
    for i in range(len(estimates)):
        place = _place(estimates[i])
        cell = min(int(place), NUM_CELLS - 2)
        part = place - cell
        corrected[i] = (1 - part) * observed[cell] + part * observed[cell + 1]
    return corrected


@compiled
def _learn(
    observed: Float32Array, trials: Float32Array, estimates: Float32Array, accepted: npt.NDArray[np.bool_]
) -> None:
    for i in range(len(estimates)):
        place = _place(estimates[i])
        cell = min(int(place), NUM_CELLS - 2)
        for near in range(2):
            part = place - cell if near == 1 else 1 - (place - cell)
            trials[cell + near] = min(trials[cell + near] + part, MOST_TRIALS)
            observed[cell + near] += part * (accepted[i] - observed[cell + near]) / trials[cell + near]
