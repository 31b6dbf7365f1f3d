from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from decoder_service.back_off import BackOff, Patience

PATIENCE = Patience(first_trial=6, later_trials=2, first_pause=3, longest_pause=12)


def run(gains: list[float]) -> list[bool]:
    """Whether each of so many steps did it, where a step that does has the next gain."""
    back_off, done = BackOff(PATIENCE), list[bool]()
    for gain in gains:
        done.append(back_off.is_due())
        if done[-1]:
            back_off.observe(gain)
    return done


def test_what_never_pays_is_tried_ever_more_seldom() -> None:
    expected = (
        [True] * 6
        + [False] * 3
        + [True] * 2
        + [False] * 6
        + [True] * 2
        + [False] * 12
        + [True] * 2
        + [False] * 12
    )
    assert run([-1.0] * len(expected)) == expected


def test_what_pays_is_never_given_up() -> None:
    assert all(run([-1.0, -1.0, 4.0] * 20))


def test_what_begins_to_pay_is_taken_up_at_the_next_trial() -> None:
    assert all(run([-1.0] * 6 + [1.0] * 30)[9:])


def test_after_success_the_first_pause_is_short_again() -> None:
    back_off, pauses = BackOff(PATIENCE), list[int]()
    for gains in ([-1.0] * 6, [-1.0] * 2, [-1.0] * 2, [5.0] * 4 + [-99.0]):
        for gain in gains:
            assert back_off.is_due()
            back_off.observe(gain)
        length = 0
        while not back_off.is_due():
            length += 1
        pauses.append(length)
    assert pauses == [3, 6, 12, 3]


@given(st.lists(st.floats(-10, 10), max_size=300))
def test_no_pause_is_longer_than_the_longest(gains: list[float]) -> None:
    done = run(gains)
    longest = max(
        (len(part) for part in "".join("+" if each else "-" for each in done).split("+")), default=0
    )
    assert longest <= PATIENCE.longest_pause
