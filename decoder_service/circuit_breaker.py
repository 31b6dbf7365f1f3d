"""Stops asking a peer that keeps failing, and probes it again later."""

from __future__ import annotations


class CircuitBreaker:
    """Opens after some failures in a row, for a pause that doubles with every failed probe.

    The caller passes the time, in seconds of any monotonic clock. Not thread-safe.
    """

    def __init__(
        self, max_failures: int = 5, first_pause_s: float = 0.05, longest_pause_s: float = 5.0
    ) -> None:
        self._max_failures = max_failures
        self._first_pause_s = first_pause_s
        self._longest_pause_s = longest_pause_s
        self.num_failures = 0  # in a row
        self._pause_s = first_pause_s
        self._open_until = float("-inf")

    @property
    def is_open(self) -> bool:
        """Whether the peer failed so often that it is only probed."""
        return self.num_failures >= self._max_failures

    def allows(self, now: float) -> bool:
        """Whether to ask now: always while closed, once a pause while open."""
        return not self.is_open or now >= self._open_until

    def succeed(self) -> None:
        """The peer answered."""
        self.num_failures = 0
        self._pause_s = self._first_pause_s

    def fail(self, now: float) -> None:
        """The peer failed or was too slow."""
        self.num_failures += 1
        if self.is_open:
            self._open_until = now + self._pause_s
            self._pause_s = min(2 * self._pause_s, self._longest_pause_s)
