"""A request's trust follows what became of its drafts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decoder_service.planner import likeliest
from decoder_service.step_cost import best_number
from decoder_service.trust import Trust


def test_promises_that_are_kept_are_trusted() -> None:
    trust = Trust()
    for _ in range(50):
        trust.observe(expected=2.0, num_accepted=2)
    assert trust.value == 1.0


def test_promises_that_are_broken_lose_trust_and_regain_it_in_time() -> None:
    trust = Trust()
    for _ in range(50):
        trust.observe(expected=2.0, num_accepted=0)
    lowest = trust.value
    assert lowest < 0.05
    for _ in range(100):
        trust.observe(expected=0.0, num_accepted=0)
    assert trust.value > 0.75


def test_what_may_be_chance_costs_no_trust() -> None:
    random = np.random.default_rng(5)
    honest, unlucky = Trust(), 0
    for _ in range(2000):
        honest.observe(expected=2.0, num_accepted=int(random.poisson(2.0)))
        unlucky += honest.value < 0.9
    assert unlucky < 100
    once = Trust()
    once.observe(expected=2.0, num_accepted=0)
    assert once.value == 1.0


def test_promises_that_are_never_kept_lose_trust_within_seven_steps() -> None:
    trust = Trust()
    for _ in range(7):
        trust.observe(expected=2.0, num_accepted=0)
    assert trust.value < 0.15


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=24),
    st.integers(1, 8),
    st.floats(0.001, 0.5),
)
def test_the_planner_keeps_as_many_nodes_as_pay(chances: list[float], requests: int, cost: float) -> None:
    probabilities = np.sort(np.array(chances, dtype=np.float32))[::-1].copy()
    costs = 1 + cost * np.arange(len(chances) + 1)
    others = [np.empty(0, dtype=np.float32)] * (requests - 1)
    kept = likeliest([probabilities, *others], len(chances), 0.0, costs, requests)
    assert len(kept[0]) == best_number(probabilities, requests, costs)
