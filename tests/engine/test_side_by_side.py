"""Runs in processes of their own: their progress arrives, and a killed one is noticed."""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool

import pytest
import stand_in_runs

from tests.verify import side_by_side
from tests.verify.matrix import Plan

PLAN = Plan(prompts=[])


def test_progress_of_every_process_arrives_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "_run", stand_in_runs.report_and_end)
    seen: list[tuple[str, int]] = []
    outcome = side_by_side.run_side_by_side(PLAN, lambda what, count: seen.append((what, count)))
    assert sorted(seen) == [("bfloat16", 1), ("bfloat16", 2), ("float32", 1), ("float32", 2)]
    assert [count for what, count in seen if what == "bfloat16"] == [1, 2]
    assert outcome.products == {"bfloat16": [], "float32": []}


def test_a_process_that_is_killed_breaks_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "_run", stand_in_runs.be_killed)
    seen: list[str] = []
    with pytest.raises(BrokenProcessPool):
        side_by_side.run_side_by_side(PLAN, lambda what, _count: seen.append(what))
    assert "float32" in seen
