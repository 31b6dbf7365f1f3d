"""Waits for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMEOUT_S = 60.0
PAUSE_S = 0.02


def poll(condition: Callable[[], bool]) -> None:
    """Return once the condition holds; fail after a minute."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"did not become true within {TIMEOUT_S} s"
        time.sleep(PAUSE_S)
