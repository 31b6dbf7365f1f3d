"""Gives up what does not pay, for longer and longer, and tries it again."""

from __future__ import annotations

from dataclasses import dataclass

DECAY = 0.9  # of the balance, at every step


@dataclass(frozen=True, slots=True)
class Patience:
    """How long something may fail, in steps."""

    first_trial: int
    later_trials: int
    first_pause: int
    longest_pause: int


class BackOff:
    """Exponential back-off by gain: what it brought less what it cost, in any unit."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._pause = patience.first_pause  # the next one's length
        self._num_left = 0  # steps of the pause that runs
        self._trial = patience.first_trial  # steps until it is judged
        self._balance = 0.0

    def is_due(self) -> bool:
        """Whether to do it in this step; a step of a pause passes with every no."""
        if self._num_left == 0:
            return True
        self._num_left -= 1
        return False

    def observe(self, gain: float) -> None:
        """Take in a step that did it."""
        self._balance = DECAY * self._balance + gain
        self._trial = max(self._trial - 1, 0)
        if self._balance >= 0:
            if self._trial == 0:  # it pays: forget the failures
                self._pause = self._patience.first_pause
            return
        if self._trial == 0:
            self._num_left = self._pause
            self._pause = min(2 * self._pause, self._patience.longest_pause)
            self._trial = self._patience.later_trials
            self._balance = 0.0
