"""What steps cost: measured on the loaded model, kept, and heeded by the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from engine_cases import FixedCost, assert_equal, drafted, knowing, prompt

from decoder_service import cost_measurement
from decoder_service.cost_measurement import measure, measured_cost
from decoder_service.model import LoadedModel, Model
from decoder_service.step_cost import MeasuredCost
from tests.verify.decode import CONFIG, decode, request


def refuse(model: Model, most_rows: int) -> MeasuredCost:
    raise AssertionError("it was measured again")


def test_steps_are_timed_and_the_cache_is_left_empty(llama: LoadedModel) -> None:
    num_free = llama.model.cache.num_free_blocks
    measured = measure(llama.model, 24, budget_s=0.1)
    assert measured.rows == (1, 2, 4, 8, 12, 16, 24)
    assert 0 < measured.contexts[0] < measured.contexts[1] <= llama.model.context_len
    assert all(each > 0 for times in measured.milliseconds for each in times)
    assert llama.model.cache.num_free_blocks == num_free


def test_they_are_measured_once(llama: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = measured_cost(llama.model, 8, tmp_path)
    monkeypatch.setattr(cost_measurement, "measure", refuse)
    assert measured_cost(llama.model, 8, tmp_path) == first
    with pytest.raises(AssertionError, match="again"):
        measured_cost(llama.model, 16, tmp_path)


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b"[]", b'{"rows": [1], "contexts": [4, 2], "milliseconds": [[1], [1]]}']
)
def test_what_was_kept_and_is_damaged_is_measured_again(
    llama: LoadedModel, tmp_path: Path, damage: bytes
) -> None:
    measured_cost(llama.model, 4, tmp_path)
    (path,) = tmp_path.rglob("*.json")
    path.write_bytes(damage)
    assert measured_cost(llama.model, 4, tmp_path).rows == (1, 2, 4)
    assert path.read_bytes() != damage


def test_a_folder_that_cannot_be_written_costs_only_time(llama: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert measured_cost(llama.model, 4, tmp_path / "file").rows == (1, 2, 4)


@pytest.mark.parametrize(("row_cost", "drafts"), [(0.0, True), (0.01, True), (100.0, False)])
def test_drafts_are_verified_where_rows_are_cheap_enough(
    llama: LoadedModel, row_cost: float, drafts: bool
) -> None:
    each = request(prompt(1), max_tokens=40, ignore_eos=True)
    (plain,) = decode(llama, [each])
    config = replace(CONFIG, cost=FixedCost.linear(row_cost))
    (fast,) = decode(llama, [drafted(each)], knowing(plain), config)
    assert_equal(fast, plain)
    assert (len(fast.steps) < 30) == drafts
    assert (
        any(step.num_drafted for step in fast.steps[1:]) == drafts
    )  # beside the prompt's rows a draft is cheap
