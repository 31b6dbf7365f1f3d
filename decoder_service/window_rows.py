"""The rows that a window has in a step beside the drafts, and the model's answers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from decoder_service.draft import DraftAsk, PlannedDraft, WindowSource
from decoder_service.forest import Forest, Int32Array

Rows = tuple[Int32Array, Int32Array]  # tokens and parents


def rows_within(
    source: WindowSource, asks: Sequence[tuple[DraftAsk, int]], budget: int
) -> Mapping[int, Rows]:
    """The window's rows of each request, by its id, while they fit into ``budget``.

    Each ask comes with the depth that no row may exceed: a window that does not fit waits as it is.
    """
    found: dict[int, Rows] = {}
    for ask, deepest in asks:
        tokens, parents = source.rows(ask)
        if (
            len(tokens) <= min(budget, ask.max_nodes)
            and Forest.of(tokens, parents).depths.max(initial=0) <= deepest
        ):
            found[ask.request_id] = tokens, parents
            budget -= len(tokens)
    return found


def with_rows(planned: PlannedDraft, rows: Rows, source: int) -> PlannedDraft:
    """The draft with the window's rows behind it."""
    tokens, parents = rows
    below = np.where(parents < 0, parents, parents + len(planned))
    return PlannedDraft(
        np.concatenate([planned.tokens, tokens]),
        np.concatenate([planned.parents, below]).astype(np.int32),
        np.concatenate([planned.sources, np.full(len(tokens), source, dtype=np.int8)]),
        np.concatenate([planned.probabilities, np.zeros(len(tokens), dtype=np.float32)]),
        len(tokens),
    )
