"""Shows how a long command comes on, on standard error: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

LINE_EVERY_S = 5.0


class Meter(Protocol):
    """What a long command tells how far it is."""

    def update(self, done: int, note: str = "") -> None:
        """So much of the total is done."""
        ...


@contextmanager
def metered(title: str, total: int) -> Iterator[Meter]:
    """A meter for ``total`` of anything; 0 where the total is not known."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield LineMeter(title, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield BarMeter(progress, progress.add_task(title, total=total or None, note=""))


class BarMeter:
    """A bar with the time that is left."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(self, done: int, note: str = "") -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=done, note=note)


class LineMeter:
    """A line now and then."""

    def __init__(self, title: str, total: int, every_s: float = LINE_EVERY_S) -> None:
        self._title = title
        self._total = total
        self._every_s = every_s
        self._started_at = self._shown_at = time.monotonic()

    def update(self, done: int, note: str = "") -> None:
        """Print a line if the last one is long ago."""
        now = time.monotonic()
        if now - self._shown_at < self._every_s:
            return
        self._shown_at = now
        words = [note] if note else []
        if self._total and done:
            left_s = (now - self._started_at) * max(self._total - done, 0) / done
            words = [f"{done / self._total:.0%}", *words, f"{left_s:,.0f} s left"]
        print(f"{self._title}: {', '.join(words)}", file=sys.stderr, flush=True)
