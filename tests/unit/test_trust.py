"""A request's trust follows what became of its drafts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_service.planner import likeliest, pays
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


def test_a_free_row_always_pays_and_a_dear_one_never() -> None:
    probabilities = np.array([0.5, 0.2, 0.01], dtype=np.float32)
    assert pays(probabilities, 1, 0.0).all()
    assert not pays(probabilities, 1, 0.9).any()


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=24),
    st.integers(1, 8),
    st.floats(0.001, 0.5),
)
def test_the_nodes_that_pay_give_the_most_tokens_per_time(
    chances: list[float], requests: int, cost: float
) -> None:
    probabilities = np.sort(np.array(chances, dtype=np.float32))[::-1].copy()
    rates = [(requests + probabilities[:n].sum()) / (1 + n * cost) for n in range(len(chances) + 1)]
    kept = int(pays(probabilities, requests, cost).sum())
    assert rates[kept] == pytest.approx(max(rates), rel=1e-4)
    others = [np.empty(0, dtype=np.float32)] * (requests - 1)
    assert len(likeliest([probabilities, *others], len(chances), 0.0, cost)[0]) == kept
