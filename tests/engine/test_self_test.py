"""The self-test must be able to fail: each way in which rows may depend on their company is made here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tiny_model import CONFIGS, CONTEXT_LEN, loaded, tiny_model, tiny_network
from typer.testing import CliRunner

import decoder_service.model as model_module
from decoder_service import packed_step
from decoder_service.forest import Forest, Int32Array
from decoder_service.kv_cache import Slot
from decoder_service.model import Model, ModelOptions, StepLogits
from decoder_service.packed_step import PackedStep, SlotStep
from decoder_service.self_test import run_self_test
from decoder_service.server import app

DTYPES = [torch.float64, torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CONFIGS)
def test_the_self_test_passes_on_the_engine_as_it_is(kind: str, dtype: torch.dtype) -> None:
    report = run_self_test(tiny_model(kind, dtype))
    assert report.is_exact, report.detail


Break = Callable[[Model, pytest.MonkeyPatch], None]


def attention_depends_on_rows(model: Model, patch: pytest.MonkeyPatch) -> None:
    """One unit in the last place more when a step has more than eight rows."""
    attend = model._attention._attend_compiled

    def changed(*args: Any) -> torch.Tensor:
        out = attend(*args)
        return out if out.shape[0] <= 8 else out * (1 + 2 * torch.finfo(out.dtype).eps)

    patch.setattr(model._attention, "_attend_compiled", changed)


def siblings_are_seen(_model: Model, patch: pytest.MonkeyPatch) -> None:
    """Every draft row sees the row before it instead of its parent."""

    def fill(target: Int32Array, forest: Forest, first_row: int) -> None:
        for node, depth in enumerate(forest.depths.tolist()):
            target[node, : depth + 1] = first_row + node - np.arange(depth, -1, -1)

    patch.setattr(packed_step, "_fill_ancestors", fill)


def positions_count_rows(_model: Model, patch: pytest.MonkeyPatch) -> None:
    """A draft's position is its place in the step, not its depth."""
    pack = packed_step.pack

    def changed(steps: Sequence[SlotStep], num_rows: int) -> PackedStep:
        step = pack(steps, num_rows)
        step.positions[:] = step.context_lens + np.arange(len(step.positions))
        return step

    patch.setattr(model_module, "pack", changed)


def wrong_rows_are_committed(model: Model, patch: pytest.MonkeyPatch) -> None:
    """The first rows of the step are kept, accepted or not."""
    commit = model.commit

    def changed(output: StepLogits, accepted: Sequence[tuple[Slot, Sequence[int]]]) -> None:
        commit(output, [(slot, range(len(nodes))) for slot, nodes in accepted])

    patch.setattr(model, "commit", changed)


def commits_round(model: Model, patch: pytest.MonkeyPatch) -> None:
    """A committed value loses its last bit."""
    commit = model.cache.commit

    def changed(slots_rows: list[tuple[Slot, list[int]]]) -> None:
        bits = torch.int16 if model.options.dtype == torch.bfloat16 else torch.int32
        if len(slots_rows[0][1]) <= 2:
            model.cache.step_values.view(bits).bitwise_and_(-2)
        commit(slots_rows)

    patch.setattr(model.cache, "commit", changed)


def logits_of_the_row_before(model: Model, patch: pytest.MonkeyPatch) -> None:
    """Logits are read one row too early when a step has drafts."""
    pad = model._pad_wanted

    def changed(wanted: Int32Array) -> Int32Array:
        return pad(np.maximum(wanted - 1, 0)) if 1 < len(wanted) <= 2 else pad(wanted)

    patch.setattr(model, "_pad_wanted", changed)


@pytest.mark.parametrize(
    "break_it",
    [
        attention_depends_on_rows,
        siblings_are_seen,
        positions_count_rows,
        wrong_rows_are_committed,
        commits_round,
        logits_of_the_row_before,
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_self_test_fails_when_something_is_broken(
    dtype: torch.dtype, break_it: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model("llama", dtype)
    break_it(model, monkeypatch)
    report = run_self_test(model)
    assert not report.is_exact
    assert "not bit-equal" in report.detail


def test_the_self_test_gives_its_blocks_back() -> None:
    model = tiny_model()
    before = model.cache.num_free_blocks
    run_self_test(model)
    assert model.cache.num_free_blocks == before


def test_the_self_test_keeps_to_the_rows_that_a_step_may_have() -> None:
    for max_rows in (4, 20, 32):
        options = ModelOptions(
            torch.float32, torch.device("cpu"), 128, num_cache_positions=256, max_rows=max_rows
        )
        model = Model(tiny_network("llama", torch.float32), options)
        rows, forward = list[int](), model.forward

        def counted(steps: Sequence[SlotStep], rows: list[int] = rows, forward: Any = forward) -> StepLogits:
            output: StepLogits = forward(steps)
            rows.append(len(output.step.tokens))
            return output

        model.forward = counted  # type: ignore[method-assign]
        report = run_self_test(model)
        assert report.is_exact, report.detail
        assert max(rows) == max_rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_self_test_names_a_product_that_its_texts_do_not_show(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No way in which a text is run has steps of 12 rows."""
    model, linear = tiny_model("llama", dtype), torch.nn.functional.linear

    def reordered(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        if rows.shape[-2] == 12 and weight.shape == (128, 64):
            return linear(rows.flip(-1), weight.flip(-1), bias)
        return linear(rows, weight, bias)

    monkeypatch.setattr(torch.nn.functional, "linear", reordered)
    report = run_self_test(model)
    assert not report.is_exact
    assert "matrix product 64x128 at 12 rows;" in report.detail


def test_the_check_refuses_texts_longer_than_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decoder_service.service.load", lambda _config: loaded(tiny_model()))
    refused = CliRunner().invoke(app, ["check", "--tokens", str(CONTEXT_LEN + 1)])
    assert refused.exit_code == 2
    assert (
        f"decoder-service: --tokens {CONTEXT_LEN + 1} is more than the context of {CONTEXT_LEN}"
        in refused.stderr
    )
    assert "Traceback" not in refused.output
    longest = CliRunner().invoke(app, ["check", "--tokens", str(CONTEXT_LEN), "--texts", "1"])
    assert longest.exit_code == 0
    assert "tiny on cpu: exact" in longest.stdout
