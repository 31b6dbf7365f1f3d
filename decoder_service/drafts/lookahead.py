"""Lookahead decoding as a source: the pool's n-grams as drafts, the window as rows of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from decoder_service.draft import NO_OPINION, NUM_OPINIONS, DraftAsk, DraftTree, Source
from decoder_service.drafts.ngram_pool import Continuation, NgramPool
from decoder_service.drafts.window import Window
from decoder_service.forest import NO_PARENT, Int32Array

ORDER: Final = 1  # a pooled n-gram matches by its first token


class _Request:
    """Window and pool of one request, and how much of its text is in the pool."""

    def __init__(self, ask: DraftAsk) -> None:
        self.shape = ask.lookahead
        self.pool = NgramPool(self.shape.num_candidates)
        self._text = ask.text
        self._num_pooled = 0  # tokens
        self._generator = np.random.default_rng(ask.request_id)  # guesses use up no noise of the sampler
        self.window = Window(self.shape, self._guess)

    def read(self, text: Int32Array) -> None:
        """Take the n-grams of what the text has gained into the pool."""
        length = self.shape.ngram_len
        first = max(self._num_pooled - length + 1, 0)
        if len(text) - first >= length:
            self.pool.add(np.lib.stride_tricks.sliding_window_view(text[first:], length))
        self._text, self._num_pooled = text, len(text)

    def _guess(self, shape: tuple[int, ...]) -> Int32Array:
        """Tokens of the text: likelier than any others."""
        return self._generator.choice(self._text, size=shape).astype(np.int32)


class LookaheadSource:
    """Keeps a window and a pool a request. The same request gives the same guesses."""

    source = Source.LOOKAHEAD

    def __init__(self) -> None:
        self._requests: dict[int, _Request] = {}
        self._asks: Sequence[DraftAsk] = ()

    def begin(self, asks: Sequence[DraftAsk]) -> None:
        """Remember the asks; ``collect`` does the work."""
        self._asks = asks

    def collect(self) -> list[DraftTree]:
        """What the pool holds after each newest token."""
        return [self._draft(ask) for ask in self._asks]

    def rows(self, ask: DraftAsk) -> tuple[Int32Array, Int32Array]:
        """Tokens and parents of the window as it stands, NO_PARENT for a child of the newest token.  # both [n]"""
        window = self._request(ask).window
        return window.tokens, window.parents

    def observe(self, request_id: int, newest: int, said: Int32Array, num_emitted: int) -> None:
        """Move the window on: what the model said after the newest token and after each of ``rows``.  # said [n + 1]"""
        request = self._requests[request_id]
        request.pool.add(request.window.advance(newest, said, num_emitted))

    def close(self, request_id: int) -> None:
        """Forget what is kept for a request."""
        self._requests.pop(request_id, None)

    def _request(self, ask: DraftAsk) -> _Request:
        if ask.request_id not in self._requests:
            self._requests[ask.request_id] = _Request(ask)
        return self._requests[ask.request_id]

    def _draft(self, ask: DraftAsk) -> DraftTree:
        request = self._request(ask)
        request.read(ask.text)
        return tree_of(request.pool.after(int(ask.text[-1])), int(ask.text[-1]), ask.max_nodes)


def tree_of(continuations: Sequence[Continuation], newest: int, max_nodes: int) -> DraftTree:
    """One tree of chains, first ones first. A node's evidence is how many chains pass it, of how many that pass its
    parent; its opinion how early the first of them comes.
    """
    places: dict[Continuation, int] = {}
    tokens: list[int] = []
    parents: list[int] = []
    ranks: list[int] = []
    counts: list[int] = []
    for rank, continuation in enumerate(continuations):
        parent = NO_PARENT
        for depth in range(1, len(continuation) + 1):
            path = continuation[:depth]
            if path not in places:
                if len(tokens) == max_nodes:
                    break
                places[path] = len(tokens)
                tokens.append(path[-1])
                parents.append(parent)
                ranks.append(rank)
                counts.append(0)
            parent = places[path]
            counts[parent] += 1
    above = [len(continuations) if parent == NO_PARENT else counts[parent] for parent in parents]
    opinions = np.full((len(tokens), NUM_OPINIONS), NO_OPINION, dtype=np.float32)
    opinions[:, 0] = 1 / (np.array(ranks, dtype=np.float32) + 1.5)
    return DraftTree(
        np.array(tokens, dtype=np.int32),
        np.array(parents, dtype=np.int32),
        np.full(len(tokens), ORDER, dtype=np.int32),
        np.array(counts, dtype=np.int32),
        np.array(above, dtype=np.int32),
        opinions,
        newest,
    )
