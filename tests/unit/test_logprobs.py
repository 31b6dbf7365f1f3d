"""Log probabilities: the model's own, in float32, with ties in order of token ids."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from decoder_service.logprobs import logprob_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_they_are_the_log_softmax_in_float32(dtype: torch.dtype) -> None:
    logits = torch.from_numpy(np.random.default_rng(3).normal(0, 4, 500)).to(dtype)
    expected = torch.log_softmax(logits.to(torch.float64), dim=-1)
    found = logprob_of(logits, 17, 20)
    assert found.logprob == pytest.approx(float(expected[17]), abs=1e-5)
    assert [each.logprob for each in found.top] == pytest.approx(
        expected.sort(descending=True)[0][:20].tolist()
    )
    assert all(each.logprob == pytest.approx(float(expected[each.token]), abs=1e-5) for each in found.top)


def test_equal_tokens_come_in_the_order_of_their_ids() -> None:
    logits = torch.zeros(100)
    logits[[80, 30]] = 2.0
    assert [each.token for each in logprob_of(logits, 0, 5).top] == [30, 80, 0, 1, 2]


@pytest.mark.parametrize(("num_top", "expected"), [(0, []), (2, [2, 1]), (9, [2, 1, 0])])
def test_there_are_as_many_alternatives_as_asked_for_and_as_there_are(
    num_top: int, expected: list[int]
) -> None:
    assert [each.token for each in logprob_of(torch.tensor([0.0, 1.0, 2.0]), 0, num_top).top] == expected


def test_a_row_alone_and_the_row_of_many_give_the_same_bits() -> None:
    rows = torch.from_numpy(np.random.default_rng(4).normal(0, 4, (7, 49152))).to(torch.bfloat16)
    assert [logprob_of(row, 5, 20) for row in rows] == [logprob_of(row.clone(), 5, 20) for row in rows]
