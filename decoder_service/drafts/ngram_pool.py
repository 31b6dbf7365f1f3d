"""The n-grams that a request's window and text have made, by their first token."""

from __future__ import annotations

from collections import OrderedDict

from decoder_service.forest import Int32Array

Continuation = tuple[int, ...]


class NgramPool:
    """Keeps the newest ``max_each`` (G) continuations of each token, least recently seen out first."""

    def __init__(self, max_each: int) -> None:
        self._max_each = max_each
        self._held: dict[int, OrderedDict[Continuation, None]] = {}

    def add(self, ngrams: Int32Array) -> None:
        """Take n-grams, oldest first.  # [k, N]"""
        if self._max_each == 0:
            return
        for first, *rest in ngrams.tolist():
            held = self._held.setdefault(first, OrderedDict())
            held[tuple(rest)] = None
            held.move_to_end(tuple(rest))
            if len(held) > self._max_each:
                held.popitem(last=False)

    def after(self, token: int) -> list[Continuation]:
        """What has followed a token, newest first."""
        return list(reversed(self._held.get(token, ())))
