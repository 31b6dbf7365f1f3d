"""Rates of learning, and who gives way when all together hold too much."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trie_service.errors import InvalidArgumentError, ResourceExhaustedError
from trie_service.held_text import MIN_BYTES
from trie_service.limits import WINDOW_S, LearningRates, Rate, ServiceLimits, shares
from trie_service.namespace import NamespaceLimits, NamespaceRecord, NamespaceRef

MIB = 1 << 20


class Clock:
    """Moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def record(name: str, per_second: int = 0) -> NamespaceRecord:
    return NamespaceRecord.new(
        NamespaceRef(name, "fp"), 10, NamespaceLimits(max_tokens_per_second=per_second)
    )


def test_a_rate_is_averaged_over_its_window() -> None:
    clock = Clock()
    rate = Rate(clock)
    rate.set(10)
    assert rate.wait_s(100) == 0
    rate.take(100)
    assert rate.wait_s(20) == pytest.approx(2)
    clock.now += 2
    assert rate.wait_s(20) == 0


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(1, 300), st.floats(0, 5)), min_size=1, max_size=50))
def test_no_window_learns_more_than_two_windows_worth_and_one_item(steps: list[tuple[int, float]]) -> None:
    clock, rate, learned = Clock(), None, []
    rate = Rate(clock)
    rate.set(10)
    for num_tokens, pause_s in steps:
        clock.now += pause_s
        if rate.wait_s(num_tokens) == 0:
            rate.take(num_tokens)
            learned.append((clock.now, num_tokens))
    for start, _ in learned:
        window = [num for at, num in learned if start <= at < start + WINDOW_S]
        assert sum(window) - max(window) <= 2 * 10 * WINDOW_S


def test_more_than_a_window_allows_needs_a_full_bucket_and_is_paid_for_later() -> None:
    clock = Clock()
    rate = Rate(clock)
    rate.set(10)
    assert rate.wait_s(1000) == 0
    rate.take(1000)
    assert rate.wait_s(1) == pytest.approx(90.1)


def test_without_a_bound_nothing_waits() -> None:
    rate = Rate(Clock())
    rate.take(10**9)
    assert rate.wait_s(10**9) == 0


def test_a_namespace_that_learns_too_fast_is_told_when_to_come_back_and_others_are_not_held_up() -> None:
    rates = LearningRates(ServiceLimits(MIB, max_tokens_per_second=5), Clock())
    rates.admit(record("a", per_second=10), 100)
    with pytest.raises(ResourceExhaustedError, match="'a' learns too fast") as caught:
        rates.admit(record("a", per_second=10), 20)
    assert caught.value.retry_after_s == pytest.approx(2)
    rates.admit(record("b"), 50)
    with pytest.raises(ResourceExhaustedError, match="'b'"):
        rates.admit(record("b"), 1)


def test_all_together_may_learn_no_faster_than_the_service() -> None:
    clock = Clock()
    rates = LearningRates(ServiceLimits(MIB, max_total_tokens_per_second=10), clock)
    rates.admit(record("a"), 60)
    rates.admit(record("b"), 40)
    with pytest.raises(ResourceExhaustedError, match="the service"):
        rates.admit(record("c"), 1)
    clock.now += 1
    rates.admit(record("c"), 10)


def test_a_changed_bound_holds_at_once_and_a_gone_namespace_leaves_no_debt() -> None:
    rates = LearningRates(ServiceLimits(MIB), Clock())
    rates.admit(record("a"), 10**6)
    rates.admit(record("a", per_second=1), 10)
    with pytest.raises(ResourceExhaustedError):
        rates.admit(record("a", per_second=1), 1)
    rates.keep({"b"})
    rates.admit(record("a", per_second=1), 10)


def test_a_namespaces_limits_never_exceed_the_services() -> None:
    limits = ServiceLimits(max_bytes=8 * MIB, max_tokens_per_second=7, text_ttl_s=60)
    assert limits.of(NamespaceLimits()) == NamespaceLimits(8 * MIB, 7, 60)
    assert limits.of(NamespaceLimits(64 * MIB, 9, 3)) == NamespaceLimits(8 * MIB, 9, 3)
    for max_bytes in (1, 8 * MIB + 1):
        with pytest.raises(InvalidArgumentError, match=f"max_bytes {max_bytes}"):
            limits.check(NamespaceLimits(max_bytes=max_bytes))
    limits.check(NamespaceLimits(max_bytes=MIN_BYTES))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(10, 100))
def test_the_largest_give_way_until_all_fit(sizes: list[int], total: int) -> None:
    taken = {str(number): size * MIB for number, size in enumerate(sizes)}
    kept = shares(taken, total * MIB)
    after = {name: kept.get(name, size) for name, size in taken.items()}
    assert sum(after.values()) <= total * MIB
    assert all(after[name] < taken[name] for name in kept)
    assert bool(kept) == (sum(sizes) > total)
    if kept:
        level = max(kept.values())
        assert all(size <= level for name, size in after.items() if name not in kept)


def test_nobody_is_asked_to_go_below_the_least() -> None:
    assert set(shares({str(number): 2 * MIB for number in range(10)}, 5 * MIB).values()) == {MIN_BYTES}
