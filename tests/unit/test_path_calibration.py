from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder_service.path_calibration import PathCalibration


def floats(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


@settings(deadline=None)  # the first example compiles
@given(st.lists(st.floats(0.004, 0.996), max_size=20))
def test_at_first_estimates_stay_nearly_as_they_are(estimates: list[float]) -> None:
    corrected = PathCalibration().corrected(floats(*estimates))
    assert corrected.tolist() == pytest.approx(estimates, abs=0.02)


def test_estimates_that_promise_too_much_are_corrected_and_others_left_alone() -> None:
    calibration = PathCalibration()
    random = np.random.default_rng(6)
    estimates = np.full(20, 0.8, dtype=np.float32)
    for _ in range(200):
        calibration.observe(estimates, random.random(20) < 0.5)
    overestimated, untouched = calibration.corrected(floats(0.8, 0.1))
    assert overestimated == pytest.approx(0.5, abs=0.03)
    assert untouched == pytest.approx(0.1, abs=0.01)


@settings(deadline=None)  # the first example compiles
@given(
    st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=1, max_size=50),
    st.lists(st.floats(0, 1, width=32), min_size=2, max_size=20),
)
def test_what_was_likelier_stays_at_least_as_likely(
    seen: list[tuple[float, bool]], estimates: list[float]
) -> None:
    calibration = PathCalibration()
    for estimate, accepted in seen:
        calibration.observe(floats(*[estimate] * 50), np.full(50, accepted))
    corrected = calibration.corrected(floats(*sorted(estimates)))
    assert ((corrected >= 0) & (corrected <= 1)).all()
    assert (np.diff(corrected) >= -1e-6).all()
