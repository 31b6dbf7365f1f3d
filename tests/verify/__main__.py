"""``python -m tests.verify``: run the losslessness runs and print one report; exit 1 on any difference."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from transformers.utils.logging import disable_progress_bar

from tests.verify.matrix import WAYS, Plan
from tests.verify.matrix import Progress as Report
from tests.verify.prompts import OWN_PROMPTS, load_prompts, spread
from tests.verify.report import as_json, show
from tests.verify.side_by_side import run_side_by_side


def main(
    prompts: Annotated[
        Path, typer.Option(help='JSON lines with {"turns": [...]}, gzipped or not; the first turn is asked.')
    ] = OWN_PROMPTS,
    limit: Annotated[int | None, typer.Option(min=1, help="Take so many prompts, spread evenly.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, max=1024, help="Tokens generated a prompt.")] = 128,
    dtype: Annotated[list[str] | None, typer.Option(help="bfloat16 or float32. [both]")] = None,
    leave_out: Annotated[
        list[str] | None, typer.Option(help=f"Ways to leave out: {', '.join(WAYS)}.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report here as JSON.")] = None,
) -> None:
    """Compare drafted with plain decoding, bit for bit, over many prompts."""
    unknown = [name for name in leave_out or () if name not in WAYS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is no way; there are {', '.join(WAYS)}")
    left_out = frozenset(WAYS[name] for name in leave_out or ())
    chosen = spread(load_prompts(prompts), limit)
    plan = Plan(chosen, max_tokens, dtype or ("bfloat16", "float32"), left_out)
    disable_progress_bar()
    began = time.monotonic()
    with _progress(plan.num_units) as progress:
        outcome = run_side_by_side(plan, progress)
    seconds = time.monotonic() - began
    show(outcome, seconds, Console(width=None if sys.stdout.isatty() else 150))
    if json_file is not None:
        json_file.write_text(json.dumps(as_json(outcome, seconds), indent=1) + "\n")
    raise typer.Exit(0 if outcome.passed else 1)


@contextmanager
def _progress(total: int) -> Iterator[Report]:
    """A bar on a terminal's stderr, else a line now and then."""
    if not sys.stderr.isatty():
        yield _Lines(total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("loading", total=total)
        yield lambda what, count: bar.update(task, advance=count, description=what)


class _Lines:
    """Prints a line a tenth of the work."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._tenths = 0

    def __call__(self, what: str, count: int) -> None:
        self._done += count
        if (tenths := 10 * self._done // self._total) > self._tenths:
            self._tenths = tenths
            print(f"{self._done}/{self._total} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    typer.run(main)
