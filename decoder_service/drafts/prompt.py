"""Drafts from a request's own prompt and output: what followed earlier occurrences of its newest tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from decoder_service.calibration import Calibration
from decoder_service.draft import DraftAsk, DraftTree, Source
from decoder_service.drafts.occurrence_tree import Limits, OccurrenceIndex, Tables, grow, link
from decoder_service.forest import Int32Array

MAX_DEPTH: Final = 40
MAX_OCCURRENCES: Final = 1024
MIN_PROBABILITY: Final = 0.002
FIRST_CAPACITY: Final = 4096  # tokens, a power of two


class OwnText:
    """The occurrence index of one request's text, which only grows."""

    def __init__(self) -> None:
        self._index = _empty_index(FIRST_CAPACITY)
        self._num_linked = 0

    def index(self, text: Int32Array) -> OccurrenceIndex:
        """The index of ``text``; its newest token is not linked, as nothing follows it yet."""
        if len(text) > len(self._index.older):
            self._index = _empty_index(1 << (len(text) - 1).bit_length())
            self._num_linked = 0
        link(self._index, text, self._num_linked, len(text) - 1)
        self._num_linked = len(text) - 1
        return self._index


def _empty_index(capacity: int) -> OccurrenceIndex:
    return OccurrenceIndex(
        newest=np.full(capacity, -1, dtype=np.int32), older=np.full(capacity, -1, dtype=np.int32)
    )


class OwnTextSource:
    """Proposes from each request's own text. The same asks give the same drafts, but for what is learned."""

    source = Source.OWN

    def __init__(self, calibration: Calibration) -> None:
        self._tables = Tables(calibration.estimates_of(Source.OWN))
        self._texts: dict[int, OwnText] = {}
        self._asks: Sequence[DraftAsk] = ()

    def begin(self, asks: Sequence[DraftAsk]) -> None:
        """Remember the asks; ``collect`` does the work."""
        self._asks = asks

    def collect(self) -> list[DraftTree]:
        """One draft for each ask of the last ``begin``."""
        return [self._draft(ask) for ask in self._asks]

    def close(self, request_id: int) -> None:
        """Forget a request's text."""
        self._texts.pop(request_id, None)

    def _draft(self, ask: DraftAsk) -> DraftTree:
        if ask.request_id not in self._texts:
            self._texts[ask.request_id] = OwnText()
        index = self._texts[ask.request_id].index(ask.text)
        limits = Limits(ask.max_nodes, MAX_DEPTH, MAX_OCCURRENCES, MIN_PROBABILITY)
        nodes, size = grow(ask.text, index, self._tables, limits)
        return DraftTree(
            nodes.tokens[:size],
            nodes.parents[:size],
            nodes.orders[:size],
            nodes.counts[:size],
            nodes.totals[:size],
            nodes.opinions[:size],
            int(ask.text[-1]),
        )
