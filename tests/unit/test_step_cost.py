"""The cost of a step: measured points, straight lines between them, corrections."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_service.step_cost import MeasuredCost, StepCost, best_number

MEASURED = MeasuredCost((1, 2, 16), (100, 300), ((10.0, 18.0, 32.0), (12.0, 22.0, 40.0)))


def test_it_passes_through_what_was_measured() -> None:
    cost = StepCost(MEASURED)
    for context, expected in zip(MEASURED.contexts, MEASURED.milliseconds, strict=True):
        assert cost.of(MEASURED.rows, context) == pytest.approx(expected)


def test_between_and_beyond_it_goes_straight_on() -> None:
    cost = StepCost(MEASURED)
    assert cost.of(9, 100) == pytest.approx(25.0)
    assert cost.of(30, 100) == pytest.approx(46.0)
    assert cost.of(1, 200) == pytest.approx(11.0)
    assert cost.of(1, 500) == pytest.approx(14.0)


def test_more_rows_are_never_cheaper_whatever_was_measured() -> None:
    noisy = MeasuredCost((1, 2, 4), (10, 20), ((5.0, 4.0, 6.0), (6.0, 9.0, 3.0)))
    for context in (0, 10, 15, 500):
        assert np.all(np.diff(StepCost(noisy).of(np.arange(1, 9), context)) >= 0)


def test_serving_corrects_the_rows_that_it_sees() -> None:
    cost = StepCost(MEASURED)
    for _ in range(200):
        cost.observe(16, 100, 48.0)
    assert cost.of(16, 100) == pytest.approx(48.0, rel=0.01)
    assert cost.of(16, 300) == pytest.approx(60.0, rel=0.01)
    assert cost.of(1, 100) == pytest.approx(10.0)


def test_one_accident_teaches_little() -> None:
    cost = StepCost(MEASURED)
    cost.observe(16, 100, 10_000.0)
    assert cost.of(16, 100) < 1.06 * 32.0


def test_a_linear_cost_is_its_share_a_row() -> None:
    assert StepCost.linear(0.25).of([1, 2, 5, 2049], 700) == pytest.approx([1.0, 1.25, 2.0, 513.0])


def test_a_jump_is_taken_only_where_what_lies_behind_it_pays() -> None:
    costs = [1.0, 2.0, 2.05, 2.1]
    assert best_number([0.6, 0.3, 0.1], 1, costs) == 0
    assert best_number([0.9, 0.8, 0.7], 1, costs) == 3


def test_without_gain_there_are_no_nodes() -> None:
    assert best_number([0.0, 0.0], 3, [1.0, 1.0, 1.0]) == 0
    assert best_number([], 1, [1.0]) == 0


@given(
    probabilities=st.lists(st.floats(0, 1), max_size=12),
    row_cost=st.floats(0, 1),
    num_requests=st.integers(1, 8),
)
def test_no_other_number_gives_more_tokens_for_the_time(
    probabilities: list[float], row_cost: float, num_requests: int
) -> None:
    likeliest = sorted(probabilities, reverse=True)
    costs = StepCost.linear(row_cost).of(num_requests + np.arange(len(likeliest) + 1), 0)
    chosen = best_number(likeliest, num_requests, costs)
    rates = [(num_requests + sum(likeliest[:n])) / costs[n] for n in range(len(likeliest) + 1)]
    assert rates[chosen] == pytest.approx(max(rates))
