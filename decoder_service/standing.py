"""How namespaces fare with the index: what is known of those that were used lately."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of one namespace."""

    is_created: bool = False  # it was there when it was used last
    refused_until: float = float("-inf")  # monotonic seconds
    warning: str = ""  # why outputs are not learned


class Standings:
    """The standing of the ``capacity`` namespaces noted last; of others nothing is known.

    One thread notes, any may ask.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._by_namespace: dict[str, Standing] = {}  # noted last at the end

    def __len__(self) -> int:
        return len(self._by_namespace)

    def of(self, namespace: str) -> Standing:
        """What is known of a namespace."""
        return self._by_namespace.get(namespace, Standing())

    def note(self, namespace: str, standing: Standing) -> None:
        """Replace what is known of a namespace; forget the one noted longest ago where there are too many."""
        self._by_namespace.pop(namespace, None)
        self._by_namespace[namespace] = standing
        if len(self._by_namespace) > self._capacity:
            del self._by_namespace[next(iter(self._by_namespace))]
