"""Bounds: how fast namespaces may learn, and who gives way when all together hold too many bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from trie_service.errors import InvalidArgumentError, ResourceExhaustedError
from trie_service.held_text import MIN_BYTES
from trie_service.namespace import NamespaceLimits, NamespaceRecord

WINDOW_S: Final = 10.0  # rates are averaged over so many seconds

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Bounds of one replica. 0: none, but for ``max_bytes``."""

    max_bytes: int  # of memory, a namespace
    max_total_bytes: int = 0  # of memory, all namespaces together
    max_namespaces: int = 0
    max_tokens_per_second: int = 0  # learned, a namespace that does not say
    max_total_tokens_per_second: int = 0  # learned, all namespaces together
    text_ttl_s: int = 0  # of a namespace that does not say

    def of(self, limits: NamespaceLimits) -> NamespaceLimits:
        """What a namespace's limits come to here."""
        return NamespaceLimits(
            max_bytes=min(limits.max_bytes or self.max_bytes, self.max_bytes),
            max_tokens_per_second=limits.max_tokens_per_second or self.max_tokens_per_second,
            text_ttl_s=limits.text_ttl_s or self.text_ttl_s,
        )

    def check(self, limits: NamespaceLimits) -> None:
        """Raise InvalidArgumentError for limits that cannot be kept."""
        if limits.max_bytes and not MIN_BYTES <= limits.max_bytes <= self.max_bytes:
            raise InvalidArgumentError(
                f"limits.max_bytes {limits.max_bytes} is not 0 or {MIN_BYTES} to the service's {self.max_bytes}"
            )


class Rate:
    """A bound on tokens a second: a bucket that holds what WINDOW_S seconds allow."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._per_second = 0
        self._level = 0.0
        self._noted_at = clock()

    def set(self, per_second: int) -> None:
        """Change the bound; 0: none."""
        if per_second != self._per_second:
            self._per_second = per_second
            self._level = per_second * WINDOW_S

    def wait_s(self, num_tokens: int) -> float:
        """Seconds until so many tokens may be learned; more than a window's only need a full bucket."""
        if self._per_second == 0:
            return 0.0
        self._refill()
        return max(0.0, (min(num_tokens, self._per_second * WINDOW_S) - self._level) / self._per_second)

    def take(self, num_tokens: int) -> None:
        """Count tokens that are learned; fewer than none for those that were not, after all."""
        self._level = min(self._per_second * WINDOW_S, self._level - num_tokens)

    def _refill(self) -> None:
        now = self._clock()
        self._level = min(
            self._per_second * WINDOW_S, self._level + (now - self._noted_at) * self._per_second
        )
        self._noted_at = now


class LearningRates:
    """The rates of all namespaces, and of the service."""

    def __init__(self, limits: ServiceLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._rates: dict[str, Rate] = {}
        self._total = Rate(clock)
        self._total.set(limits.max_total_tokens_per_second)

    def admit(self, record: NamespaceRecord, num_tokens: int) -> None:
        """Count tokens to be learned; raise ResourceExhaustedError, with when to come back, for too many."""
        rate = self._rates.setdefault(record.name, Rate(self._clock))
        rate.set(self._limits.of(record.limits).max_tokens_per_second)
        wait_s = rate.wait_s(num_tokens)
        if wait_s > 0:
            raise ResourceExhaustedError(f"namespace {record.name!r} learns too fast", retry_after_s=wait_s)
        wait_s = self._total.wait_s(num_tokens)
        if wait_s > 0:
            raise ResourceExhaustedError("the service learns too fast", retry_after_s=wait_s)
        rate.take(num_tokens)
        self._total.take(num_tokens)

    def give_back(self, record: NamespaceRecord, num_tokens: int) -> None:
        """Count tokens no more that were admitted and not learned."""
        if (rate := self._rates.get(record.name)) is not None:
            rate.take(-num_tokens)
        self._total.take(-num_tokens)

    def keep(self, names: set[str]) -> None:
        """Forget the rates of all other namespaces."""
        for name in self._rates.keys() - names:
            del self._rates[name]


def shares(num_bytes: Mapping[str, int], max_total: int) -> dict[str, int]:
    """Bytes that those may keep who must give way so that all together take at most ``max_total``.

    The largest give way, down to one level; nobody is asked to go below MIN_BYTES.
    """
    level = max_total
    left, num_left = max_total, len(num_bytes)
    for size in sorted(num_bytes.values()):
        level = max(MIN_BYTES, left // num_left)
        if size > level:
            break
        left, num_left = left - size, num_left - 1
    else:
        return {}
    return {name: level for name, size in num_bytes.items() if size > level}
