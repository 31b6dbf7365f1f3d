"""Runs each number type in a process of its own, so that all processors work where a step is too short to share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Protocol

import torch

from tests.verify.matrix import Outcome, Plan, Progress, run

Report = tuple[str, int] | None  # what Progress takes, or None: a process has ended


class Reports(Protocol):
    """A queue that processes share."""

    def put(self, item: Report) -> None:
        """Append."""

    def get(self) -> Report:
        """Take the first, when there is one."""


def run_side_by_side(plan: Plan, progress: Progress) -> Outcome:
    """Run everything, with the processors shared out evenly.

    Raises:
        BrokenProcessPool: a process was killed.
    """
    num_threads = max((os.cpu_count() or 1) // len(plan.dtypes), 1)
    context = get_context("spawn")
    with (
        context.Manager() as manager,
        ProcessPoolExecutor(len(plan.dtypes), context, torch.set_num_threads, (num_threads,)) as pool,
    ):
        reports: Reports = manager.Queue()
        plans = [replace(plan, dtypes=(dtype,)) for dtype in plan.dtypes]
        runs = [pool.submit(_run, each, reports) for each in plans]
        for each in runs:
            each.add_done_callback(lambda _run: reports.put(None))
        for what, count in _until_all_ended(reports, len(runs)):
            progress(what, count)
        return _joined(runs)


def _run(plan: Plan, reports: Reports) -> Outcome:
    return run(plan, lambda what, count: reports.put((what, count)))


def _until_all_ended(reports: Reports, num_runs: int) -> Iterator[tuple[str, int]]:
    while num_runs:
        if (report := reports.get()) is None:
            num_runs -= 1
        else:
            yield report


def _joined(runs: list[Future[Outcome]]) -> Outcome:
    outcomes = [each.result() for each in runs]
    return Outcome(
        [row for each in outcomes for row in each.rows],
        {dtype: products for each in outcomes for dtype, products in each.products.items()},
        outcomes[0].num_threads,
    )
