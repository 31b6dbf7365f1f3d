from __future__ import annotations

import numpy as np
import pytest

from decoder_service.calibration import COUNT_FLOORS, ORDER_FLOORS, Calibration, prior_acceptance
from decoder_service.draft import Source


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def observe(calibration: Calibration, hits: list[bool], order: int = 3, source: Source = Source.OWN) -> None:
    same = np.full(len(hits), order, dtype=np.int32)
    calibration.observe(source, same, same, same, np.array(hits))


def estimate(calibration: Calibration, order: int = 3, source: Source = Source.OWN) -> float:
    return float(calibration.probability(source, ints(order), ints(order), ints(order))[0])


def test_the_prior_is_a_probability_that_rises_with_order_count_and_share() -> None:
    prior = prior_acceptance()
    assert ((prior > 0) & (prior < 1)).all()
    for axis in range(3):
        assert (np.diff(prior, axis=axis) > 0).all()


def test_estimates_become_the_acceptance_that_was_observed() -> None:
    calibration = Calibration()
    seed = 5
    hits = np.random.default_rng(seed).random(4000) < 0.3
    observe(calibration, hits.tolist())
    assert estimate(calibration) == pytest.approx(0.3, abs=0.05)


def test_a_cell_learns_alone() -> None:
    calibration = Calibration()
    before = estimate(calibration, order=5), estimate(calibration, source=Source.INDEX)
    observe(calibration, [False] * 100)
    assert (estimate(calibration, order=5), estimate(calibration, source=Source.INDEX)) == before
    assert estimate(calibration) < 0.1


def test_a_first_trial_moves_the_prior_by_a_fifth() -> None:
    calibration = Calibration()
    prior = estimate(calibration)
    observe(calibration, [True])
    assert estimate(calibration) == pytest.approx(prior * 4 / 5 + 1 / 5, rel=1e-4)


def test_old_trials_fade() -> None:
    calibration = Calibration()
    observe(calibration, [False] * 20_000)
    observe(calibration, [True] * 10_000)
    assert estimate(calibration) > 0.99


def test_evidence_falls_into_the_cell_of_the_highest_floor_below_it() -> None:
    calibration = Calibration()
    table = calibration.estimates_of(Source.INDEX)
    table[...] = np.arange(table.size, dtype=np.float32).reshape(table.shape)
    orders, counts, totals = ints(1, 7, 100, 2**31 - 1), ints(1, 5, 64, 2**31 - 1), ints(8, 9, 64, 2**31 - 1)
    cells = [
        (0, 0, 1),
        (5, 3, 4),
        (len(ORDER_FLOORS) - 1, 6, 8),
        (len(ORDER_FLOORS) - 1, len(COUNT_FLOORS) - 1, 8),
    ]
    got = calibration.probability(Source.INDEX, orders, counts, totals)
    assert got.tolist() == [table[cell] for cell in cells]


def test_absurd_evidence_has_a_probability_too() -> None:
    got = Calibration().probability(Source.INDEX, ints(0, 1), ints(0, 9), ints(0, 3))
    assert ((got > 0) & (got < 1)).all()
