"""The probe at the start: an engine that computes another function than the model is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_model import CONFIGS, tiny_model

import decoder_service.model as model_module
from decoder_service import packed_step
from decoder_service.attention import UnsupportedModelError
from decoder_service.packed_step import PackedStep, SlotStep

BOUNDS = {torch.float64: 1e-8, torch.float32: 1e-3, torch.bfloat16: 0.25}
Break = Callable[[PackedStep], PackedStep]


def drop_an_ancestor(step: PackedStep) -> PackedStep:
    """Every second row does not see the row before it."""
    ancestors, num_ancestors = step.ancestors.copy(), step.num_ancestors.copy()
    for row in range(1, len(num_ancestors), 2):
        last = num_ancestors[row] - 1
        ancestors[row, last - 1] = ancestors[row, last]
        num_ancestors[row] = last
    return replace(step, ancestors=ancestors, num_ancestors=num_ancestors)


def see_a_star(step: PackedStep) -> PackedStep:
    """Every row sees the first one and itself, as if it were the first one's child."""
    rows = np.arange(len(step.tokens), dtype=np.int32)
    ancestors = step.ancestors.copy()
    ancestors[:, :2] = np.stack([np.zeros_like(rows), rows], axis=1)
    return replace(step, ancestors=ancestors, num_ancestors=np.minimum(step.num_ancestors, 2))


def broken(monkeypatch: pytest.MonkeyPatch, break_it: Break) -> None:
    def pack(steps: Sequence[SlotStep], num_rows: int) -> PackedStep:
        return break_it(packed_step.pack(steps, num_rows))

    monkeypatch.setattr(model_module, "pack", pack)


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("kind", CONFIGS)
def test_the_right_attention_passes_far_below_the_bound(kind: str, dtype: torch.dtype) -> None:
    assert tiny_model(kind, dtype).probe() < BOUNDS[dtype] / 4


@pytest.mark.parametrize("break_it", [drop_an_ancestor, see_a_star])
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("kind", CONFIGS)
def test_an_attention_that_sees_other_rows_is_refused(
    kind: str, dtype: torch.dtype, break_it: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(kind, dtype)
    broken(monkeypatch, break_it)
    with pytest.raises(UnsupportedModelError, match=r"architecture \w+ is not supported"):
        model.probe()


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize(("share", "passes"), [(0.9, True), (1.1, False)])
def test_the_bound_is_a_share_of_the_spread_of_the_logits(
    dtype: torch.dtype, share: float, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the logits are moved up and half down, by a share of the bound."""
    model = tiny_model("llama", dtype)
    forward = model.forward
    signs = torch.where(torch.arange(model.vocab_size) % 2 == 0, 1.0, -1.0).double()

    def moved(steps: Sequence[SlotStep]) -> model_module.StepLogits:
        output = forward(steps)
        logits = output.logits.double()
        return replace(output, logits=logits + share * BOUNDS[dtype] * logits.std() * signs)

    monkeypatch.setattr(model, "forward", moved)
    if passes:
        assert model.probe() == pytest.approx(share * BOUNDS[dtype], rel=0.08)
    else:
        with pytest.raises(UnsupportedModelError):
            model.probe()
