from __future__ import annotations

from decoder_service.circuit_breaker import CircuitBreaker


def test_it_opens_after_failures_in_a_row_and_not_before() -> None:
    breaker = CircuitBreaker(max_failures=3, first_pause_s=1.0)
    breaker.fail(0.0)
    breaker.fail(0.0)
    breaker.succeed()
    breaker.fail(0.0)
    breaker.fail(0.0)
    assert breaker.allows(0.0)
    breaker.fail(0.0)
    assert breaker.is_open
    assert not breaker.allows(0.9)
    assert breaker.allows(1.0)


def test_pauses_double_up_to_the_longest_and_a_success_resets_them() -> None:
    breaker = CircuitBreaker(max_failures=1, first_pause_s=1.0, longest_pause_s=3.0)
    pauses = []
    for _ in range(4):
        breaker.fail(0.0)
        pauses.append(next(now for now in range(1, 10) if breaker.allows(float(now))))
    assert pauses == [1, 2, 3, 3]
    breaker.succeed()
    assert breaker.allows(0.0)
    breaker.fail(0.0)
    assert breaker.allows(1.0)
