"""Draft sources for the runs: one that knows what comes and errs on purpose, and one that knows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from decoder_service.draft import DraftAsk, DraftTree, Source
from decoder_service.forest import Int32Array

MAX_DEPTH = 32
STRONG_ORDER = 24


@dataclass(slots=True)
class _Growing:
    """A draft tree under construction; siblings hold different tokens."""

    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    taken: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, token: int, parent: int, order: int) -> int:
        """The child of ``parent`` that holds ``token``, made if it is not there."""
        if (parent, token) not in self.taken:
            self.taken[parent, token] = len(self.tokens)
            self.tokens.append(token)
            self.parents.append(parent)
            self.orders.append(order)
        return self.taken[parent, token]

    def tree(self, max_nodes: int) -> DraftTree:
        """The first nodes; every one looks as likely as its order says."""
        fields = (self.tokens, self.parents, self.orders)
        tokens, parents, orders = (np.array(each[:max_nodes], dtype=np.int32) for each in fields)
        sure = np.full(len(tokens), 64, dtype=np.int32)
        return DraftTree(tokens, parents, orders, sure, sure)


class RecordedSource:
    """Proposes how recorded texts went on, with wrong branches beside and wrong tokens in between.

    Stands for an index that has seen the output before. Drafts depend on the seed and the text alone.
    """

    source = Source.INDEX

    def __init__(self, texts: Sequence[Int32Array], vocab_size: int, seed: int = 0) -> None:
        self._texts = texts
        self._vocab_size = vocab_size
        self._seed = seed
        self._asks: Sequence[DraftAsk] = ()

    def begin(self, asks: Sequence[DraftAsk]) -> None:
        """Remember the asks."""
        self._asks = asks

    def collect(self) -> list[DraftTree]:
        """One draft each."""
        return [self._draft(ask) for ask in self._asks]

    def close(self, request_id: int) -> None:
        """Nothing is kept for a request."""

    def _draft(self, ask: DraftAsk) -> DraftTree:
        generator = np.random.default_rng((self._seed, len(ask.text), int(ask.text[-1])))
        growing, tip = _Growing(), -1
        for token in self._continuation(ask.text)[: int(generator.integers(2, MAX_DEPTH))].tolist():
            self._add_decoys(growing, tip, generator)
            is_wrong = generator.random() < 0.04  # what follows is right and hangs under a wrong token
            shown = int(generator.integers(self._vocab_size)) if is_wrong else token
            tip = growing.add(shown, tip, STRONG_ORDER)
        return growing.tree(ask.max_nodes)

    def _continuation(self, text: Int32Array) -> Int32Array:
        for recorded in self._texts:
            if len(recorded) > len(text) and np.array_equal(recorded[: len(text)], text):
                return recorded[len(text) :]
        return np.empty(0, dtype=np.int32)

    def _add_decoys(self, growing: _Growing, tip: int, generator: np.random.Generator) -> None:
        """Now and then a wrong branch of up to three tokens beside the right one."""
        if generator.random() < 0.3:
            parent = tip
            for token in generator.integers(self._vocab_size, size=int(generator.integers(1, 4))).tolist():
                parent = growing.add(token, parent, int(generator.integers(1, STRONG_ORDER)))


class GarbageSource:
    """Proposes random trees: tokens of the text, any tokens, and repetitions of the newest one."""

    source = Source.INDEX

    def __init__(self, vocab_size: int, seed: int = 0, max_nodes: int = 1024) -> None:
        self._vocab_size = vocab_size
        self._max_nodes = max_nodes
        self._generator = np.random.default_rng(seed)
        self._asks: Sequence[DraftAsk] = ()

    def begin(self, asks: Sequence[DraftAsk]) -> None:
        """Remember the asks."""
        self._asks = asks

    def collect(self) -> list[DraftTree]:
        """One draft each."""
        return [self._draft(ask) for ask in self._asks]

    def close(self, request_id: int) -> None:
        """Nothing is kept for a request."""

    def _draft(self, ask: DraftAsk) -> DraftTree:
        generator, growing = self._generator, _Growing()
        max_nodes = min(ask.max_nodes, self._max_nodes)
        for _ in range(int(generator.integers(0, max_nodes + 1))):
            choices = (
                int(generator.choice(ask.text)),
                int(generator.integers(self._vocab_size)),
                int(ask.text[-1]),
            )
            parent = int(generator.integers(-1, len(growing.tokens)))
            growing.add(int(generator.choice(choices)), parent, int(generator.integers(1, STRONG_ORDER)))
        return growing.tree(ask.max_nodes)
