"""How far a request's estimates can be trusted: what they promised lately against what came true."""

from __future__ import annotations

import math
from typing import Final

DECAY: Final = 0.95  # of the past, at every step
PRIOR: Final = 1.0  # accepted nodes that were promised and kept before the first step
DOUBT_FROM: Final = 1.5  # standard deviations of too few accepted nodes; fewer are taken for chance
DISTRUST_FROM: Final = 2.5  # standard deviations from which on all that is missing counts


class Trust:
    """Accepted nodes over expected ones, at most 1, as far as the difference cannot be chance.

    Calibration is right on average over all requests; a request on which it is wrong is drafted for less. The past
    fades, also while nothing is drafted, so that such a request is probed again.
    """

    def __init__(self) -> None:
        self._expected = 0.0
        self._accepted = 0.0
        self._variance = 0.0  # of the difference, as far as the request itself has shown it

    @property
    def value(self) -> float:
        """Between 0 and 1."""
        kept = (self._accepted + PRIOR) / (self._expected + PRIOR)
        return float(min(1.0, kept) ** self._doubt)

    @property
    def _doubt(self) -> float:
        """How surely too little was accepted, 0 to 1."""
        if self._variance == 0.0:
            return 0.0
        deviations = (self._expected - self._accepted) / math.sqrt(self._variance)
        return min(max((deviations - DOUBT_FROM) / (DISTRUST_FROM - DOUBT_FROM), 0.0), 1.0)

    def observe(self, expected: float, num_accepted: int) -> None:
        """Take in one step."""
        self._expected = DECAY * self._expected + expected
        self._accepted = DECAY * self._accepted + num_accepted
        self._variance = DECAY * self._variance + (expected - num_accepted) ** 2
