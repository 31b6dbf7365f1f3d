"""How far a request's estimates can be trusted: what they promised lately against what came true."""

from __future__ import annotations

from typing import Final

DECAY: Final = 0.95  # of the past, at every step
PRIOR: Final = 1.0  # accepted nodes that were promised and kept before the first step


class Trust:
    """Accepted nodes over expected ones, at most 1.

    Calibration is right on average over all requests; a request on which it is wrong is drafted for less. The past
    fades, also while nothing is drafted, so that such a request is probed again.
    """

    def __init__(self) -> None:
        self._expected = 0.0
        self._accepted = 0.0

    @property
    def value(self) -> float:
        """Between 0 and 1."""
        return min(1.0, (self._accepted + PRIOR) / (self._expected + PRIOR))

    def observe(self, expected: float, num_accepted: int) -> None:
        """Take in one step."""
        self._expected = DECAY * self._expected + expected
        self._accepted = DECAY * self._accepted + num_accepted
