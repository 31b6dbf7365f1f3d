"""How long one generation goes on trying, and how long it waits in between."""

from __future__ import annotations

import math
import random
import time

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0
GIVE_UP_S = 60.0  # after the first failure without any progress since


class Patience:
    """Waits grow exponentially, with jitter so that clients of one dead decoder do not come all at once.

    The end is the caller's deadline, or a minute of failures; whatever comes first.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self._deadline_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        self._give_up_s = math.inf
        self.num_failures = 0  # since the last progress

    @property
    def left_s(self) -> float | None:
        """Seconds to the deadline, None where there is none."""
        return None if self._deadline_s == math.inf else max(self._deadline_s - time.monotonic(), 0.0)

    def renew(self) -> None:
        """There was progress."""
        self.num_failures = 0
        self._give_up_s = math.inf

    def next_wait_s(self, asked_s: float | None) -> float | None:
        """Count a failure; seconds until the next try, at least ``asked_s``. None where there is no time for one."""
        now = time.monotonic()
        if self.num_failures == 0:
            self._give_up_s = now + GIVE_UP_S
        if asked_s is None:
            wait_s = random.uniform(0.5, 1.0) * min(FIRST_WAIT_S * 2**self.num_failures, LONGEST_WAIT_S)
        else:
            wait_s = random.uniform(1.0, 1.25) * asked_s
        self.num_failures += 1
        return wait_s if now + wait_s < min(self._deadline_s, self._give_up_s) else None
