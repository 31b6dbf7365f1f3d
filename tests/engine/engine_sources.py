"""A draft source that tells what it was asked."""

from __future__ import annotations

from collections.abc import Sequence

from decoder_service.draft import DraftAsk, DraftTree, Source


class RememberingSource:
    """Proposes nothing and remembers which texts it was shown."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.prompts: set[int] = set()  # first tokens
        self.asked_for: set[int] = set()  # numbers of streams
        self._num_asks = 0

    def begin(self, asks: Sequence[DraftAsk]) -> None:
        self.prompts |= {int(ask.text[0]) for ask in asks}
        self.asked_for |= {ask.request_id for ask in asks}
        self._num_asks = len(asks)

    def collect(self) -> list[DraftTree]:
        return [DraftTree.empty() for _ in range(self._num_asks)]

    def close(self, request_id: int) -> None:
        pass
