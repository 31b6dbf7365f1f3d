"""What a step costs as a function of its rows and of the context: measured at start, corrected while serving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]

RATE: Final = 0.05  # of a correction
MOST_CORRECTION: Final = 2.0  # by one step: slower ones are accidents


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """Milliseconds of steps, at a short context and at a long one."""

    rows: tuple[int, ...]  # ascending
    contexts: tuple[int, int]  # positions before the step, ascending
    milliseconds: tuple[tuple[float, ...], tuple[float, ...]]  # [contexts][rows]


class StepCost:
    """Milliseconds of a step. Between measured numbers of rows, and along the context, it is a straight line."""

    def __init__(self, measured: MeasuredCost) -> None:
        self._rows = np.array(measured.rows, dtype=np.float64)
        short, long = np.maximum.accumulate(
            np.array(measured.milliseconds), axis=1
        )  # more rows are never cheaper
        first, last = measured.contexts
        self._slope = np.maximum(long - short, 0.0) / (last - first)  # [rows], a position
        self._start = np.maximum(short - first * self._slope, 1e-9)  # [rows], without a context
        self._factor = np.ones(len(self._rows))  # [rows], what serving taught

    @classmethod
    def linear(cls, row_cost: float) -> Self:
        """A plain step costs 1, each further row ``row_cost``."""
        return cls(MeasuredCost((1, 1025), (0, 1), ((1.0, 1 + 1024 * row_cost),) * 2))

    def of(self, num_rows: npt.ArrayLike, context_len: float) -> Float64Array:
        """The cost of steps of so many rows.  # same shape as ``num_rows``"""
        rows = np.asarray(num_rows, dtype=np.float64)
        costs = self._at_knots(context_len)
        beyond = np.maximum(rows - self._rows[-1], 0.0)
        last_slope = (costs[-1] - costs[-2]) / (self._rows[-1] - self._rows[-2]) if len(costs) > 1 else 0.0
        found: Float64Array = np.interp(rows, self._rows, costs) + beyond * last_slope
        return found

    def observe(self, num_rows: int, context_len: float, milliseconds: float) -> None:
        """Take in what a step really took; steps of more rows than were measured teach nothing."""
        if num_rows > self._rows[-1]:
            return
        expected = float(self.of(num_rows, context_len))
        ratio = min(milliseconds / expected, MOST_CORRECTION)
        place = float(np.interp(num_rows, self._rows, np.arange(len(self._rows))))
        left = int(place)
        for knot, weight in ((left, 1 - (place - left)), (left + 1, place - left)):
            if weight > 0:
                self._factor[knot] *= 1 + RATE * weight * (ratio - 1)

    def table(self, context_len: float) -> list[tuple[int, float]]:
        """Measured numbers of rows and what they cost now."""
        return list(zip(self._rows.astype(int).tolist(), self._at_knots(context_len).tolist(), strict=True))

    def _at_knots(self, context_len: float) -> Float64Array:
        costs = (self._start + self._slope * context_len) * self._factor
        rising: Float64Array = np.maximum.accumulate(costs)
        return rising


def best_number(expected: npt.ArrayLike, num_requests: int, costs: npt.ArrayLike) -> int:
    """How many of the nodes, likeliest first, give the most tokens for the time.

    ``expected`` [n] are the nodes' path probabilities, ``costs`` [n + 1] what the step takes with none of them, with
    the first and so on. Each request gives a token without any. A step of several kinds of cost may have several
    peaks; the highest wins, and of equals the one of fewest nodes.
    """
    tokens = num_requests + np.concatenate([[0.0], np.cumsum(np.asarray(expected, dtype=np.float64))])
    return int(np.argmax(tokens / np.asarray(costs, dtype=np.float64)))
