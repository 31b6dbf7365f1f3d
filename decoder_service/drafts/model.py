"""Speculative decoding's draft model as a source: a smaller model guesses, one forward a level for all requests.

Each level offers the model's best tokens; the best of them is gone on from. What is kept of them is decided elsewhere.
Source: Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding"; its ratio rule is not used,
as guesses that share the sampler's noise need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import structlog
import torch

from decoder_service.back_off import BackOff, Patience
from decoder_service.calibration import Calibration
from decoder_service.draft import NO_OPINION, NUM_OPINIONS, DraftAsk, DraftTree, Source
from decoder_service.forest import NO_PARENT, Forest, Int32Array
from decoder_service.kv_cache import CacheFullError, Slot
from decoder_service.model import Model
from decoder_service.packed_step import SlotStep

TOTAL: Final = 64  # what a probability of one counts as evidence
PATIENCE: Final = Patience(first_trial=4, later_trials=1, first_pause=1, longest_pause=64)
_LEAST_OPINION: Final = 1e-4

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DraftModelOptions:
    """How far the model guesses. Raises ValueError for what makes no sense."""

    depth: int = 8  # levels at most
    width: int = 3  # tokens offered at each level; 1: a chain
    min_probability: float = (
        0.3  # that a level comes true: below it guessing ends, or rests where it goes on so
    )

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth {self.depth} is not at least 1")
        if self.width < 1:
            raise ValueError(f"width {self.width} is not at least 1")
        if not 0 <= self.min_probability <= 1:
            raise ValueError(f"least probability {self.min_probability} is not between 0 and 1")


class Level(NamedTuple):
    """The best tokens after a path, best first."""

    tokens: Int32Array  # [n]
    probabilities: npt.NDArray[np.float64]  # [n]

    @property
    def ranks(self) -> Int32Array:
        """From 1, the best.  # [n]"""
        return np.arange(1, len(self.tokens) + 1, dtype=np.int32)

    @property
    def counts(self) -> Int32Array:
        """Probabilities of TOTAL.  # [n]"""
        return np.rint(self.probabilities * TOTAL).astype(np.int32)


NO_LEVEL: Final = Level(np.empty(0, dtype=np.int32), np.empty(0))


@dataclass(slots=True)
class _Held:
    """What is kept of a request: in the cache its text and guesses that may have come true; and the last guesses."""

    back_off: BackOff = field(default_factory=lambda: BackOff(PATIENCE))
    slot: Slot = field(default_factory=Slot)
    tokens: list[int] = field(default_factory=list)  # [slot.length]
    levels: list[Level] = field(default_factory=list)  # the last ones
    text_len: int = 0  # when they were guessed

    def look_back(self, text: Int32Array, price: float) -> None:
        """See what became of the last guesses; a level costs as much as ``price`` tokens."""
        if self.levels and len(text) > self.text_len:
            gain = num_true(self.levels, text[self.text_len :])
            self.back_off.observe(gain - price * len(self.levels))
        self.levels, self.text_len = [], len(text)

    def keep(self, text: Int32Array) -> None:
        """Give up what the text contradicts, and its newest token, whose logits are wanted."""
        self.slot.length = common_len(self.tokens, text[:-1])
        del self.tokens[self.slot.length :]


class _Growth:
    """One request's draft while it grows."""

    def __init__(self, ask: DraftAsk, held: _Held, max_depth: int) -> None:
        self.ask = ask
        self.held = held
        self.history: list[int] = ask.text.tolist()  # the text, and the best guess of each level
        self._levels = held.levels
        self._max_depth = max_depth
        self._probability = 1.0  # that the best guesses all come true

    @property
    def pending(self) -> list[int]:
        """Tokens that the draft model has not read."""
        return self.history[len(self.held.tokens) :]

    def grow(self, level: Level, acceptance: float, least: float) -> bool:
        """Add a level whose best token is accepted as likely as that; whether another one is worth while."""
        self._levels.append(level)
        self.history.append(int(level.tokens[0]))
        self._probability *= acceptance
        num_nodes = sum(len(each.tokens) for each in self._levels)
        return (
            len(self._levels) < self._max_depth
            and num_nodes < self.ask.max_nodes
            and self._probability >= least
        )

    def tree(self) -> DraftTree:
        """The levels as a tree. A node's evidence is its rank among its siblings, its probability of TOTAL."""
        if not self._levels:
            return DraftTree.empty()
        sizes = [len(level.tokens) for level in self._levels]
        firsts = np.cumsum([0, *sizes[:-1]])  # the best node of each level
        probabilities = np.concatenate([level.probabilities for level in self._levels])
        opinions = np.full((len(probabilities), NUM_OPINIONS), NO_OPINION, dtype=np.float32)
        opinions[:, 0] = np.clip(probabilities, _LEAST_OPINION, 1 - _LEAST_OPINION)
        most = self.ask.max_nodes
        return DraftTree(
            np.concatenate([level.tokens for level in self._levels])[:most],
            np.repeat([NO_PARENT, *firsts[:-1]], sizes).astype(np.int32)[:most],
            np.concatenate([level.ranks for level in self._levels])[:most],
            np.concatenate([level.counts for level in self._levels])[:most],
            np.full(len(probabilities), TOTAL, dtype=np.int32)[:most],
            opinions[:most],
            int(self.ask.text[-1]),
        )


class DraftModelSource:
    """Keeps a cache of its own for each request. Guesses with the request's own sampler, noise and all.

    How far it guesses follows what became of such guesses, as ``calibration`` learns it; where a request's guesses keep
    failing, it rests.
    """

    source = Source.DRAFT_MODEL

    def __init__(
        self, model: Model, calibration: Calibration, options: DraftModelOptions | None = None
    ) -> None:
        self._model = model
        self._calibration = calibration
        self._options = options or DraftModelOptions()
        self._held: dict[int, _Held] = {}
        self._asks: Sequence[DraftAsk] = ()

    def begin(self, asks: Sequence[DraftAsk]) -> None:
        """Remember the asks; ``collect`` does the work."""
        self._asks = asks

    def collect(self) -> list[DraftTree]:
        """One draft each, grown together level by level.

        A text that was not read in time is read on at the next call: nobody waits for another's prompt.
        """
        growths = [self._start(ask) for ask in self._asks]
        growing = [growth for growth in growths if growth is not None]
        while growing:
            growing = self._round(growing)
        return [growth.tree() if growth is not None else DraftTree.empty() for growth in growths]

    def close(self, request_id: int) -> None:
        """Free what is kept for a request."""
        held = self._held.pop(request_id, None)
        if held is not None:
            self._model.cache.release(held.slot)

    def _start(self, ask: DraftAsk) -> _Growth | None:
        """None where guessing rests, or has no room: in the draft, the context or the cache."""
        room = self._model.context_len - len(ask.text) + 1
        max_depth = min(self._options.depth, ask.max_depth, room)
        if max_depth < 1 or ask.max_nodes < 1:
            return None
        held = self._held.setdefault(ask.request_id, _Held())
        held.look_back(ask.text, self._options.min_probability)
        if not held.back_off.is_due():
            return None
        try:
            self._model.cache.reserve(held.slot, len(ask.text) + max_depth - 1)
        except CacheFullError:
            self.close(ask.request_id)  # what others can use is worth more than half of a text
            return None
        growth = _Growth(ask, held, max_depth)
        held.keep(ask.text)
        return growth

    def _round(self, growing: Sequence[_Growth]) -> list[_Growth]:
        """One forward. Returns the drafts that go on: those that grew or, where none did, those that read on."""
        ready = self._read(sorted(growing, key=lambda growth: len(growth.pending)))
        if not ready:
            return list(growing)
        return [growth for growth, logits in ready if self._grow(growth, self._level(growth, logits))]

    def _grow(self, growth: _Growth, level: Level) -> bool:
        if len(level.tokens) == 0:
            return False
        best = level.ranks[:1], level.counts[:1], np.array([TOTAL], dtype=np.int32)
        (acceptance,) = self._calibration.probability(self.source, *best).tolist()
        return growth.grow(level, acceptance, self._options.min_probability)

    def _read(self, growing: Sequence[_Growth]) -> list[tuple[_Growth, torch.Tensor]]:
        """Read pending tokens, as many as a step takes. Those whose text is read come back, with their logits."""
        room, steps, ready = self._model.max_rows, list[SlotStep](), list[_Growth]()
        for growth in growing:
            pending = growth.pending
            piece = Forest.chain(pending[:room])
            is_read = len(piece) == len(pending)
            if len(piece):
                steps.append(SlotStep(growth.held.slot, piece, [len(piece) - 1] if is_read else []))
            if is_read:
                ready.append(growth)
            room -= len(piece)
        output = self._model.forward(steps)
        self._model.commit(output, [(step.slot, range(len(step.forest))) for step in steps])
        for growth, step in zip(growing, steps, strict=False):  # the last ones may have had no room
            growth.held.tokens += step.forest.tokens.tolist()
        return list(zip(ready, output.logits, strict=True))

    def _level(self, growth: _Growth, logits: torch.Tensor) -> Level:
        """The best tokens by the request's own way to choose."""
        chooser = growth.ask.chooser
        if chooser is None:
            return best_of(logits.to(torch.float32).cpu().numpy(), self._options.width)
        try:
            return best_of(chooser.scores(logits, growth.history), self._options.width)
        except Exception as error:  # a logits processor may raise anything; its request will fail of it
            log.warning("no draft", request_id=growth.ask.request_id, exc_info=error)
            return NO_LEVEL


def num_true(levels: Sequence[Level], came: Int32Array) -> int:
    """How many levels hold the token that came; below one whose best token did not come, nothing was guessed."""
    for number, (level, token) in enumerate(zip(levels, came, strict=False)):
        if token != level.tokens[0]:
            return number + int(token in level.tokens)
    return min(len(levels), len(came))


def common_len(held: Sequence[int], text: Int32Array) -> int:
    """How many leading tokens two texts share."""
    shorter = min(len(held), len(text))
    differing = np.flatnonzero(np.asarray(held[:shorter], dtype=np.int32) != text[:shorter])
    return int(differing[0]) if len(differing) else shorter


def best_of(scores: npt.NDArray[np.floating], width: int) -> Level:
    """The tokens of the ``width`` highest scores, first ones first among equals, each with its softmax.  # [vocab]

    Tokens of -inf are none, and where a score is NaN or +inf there are none at all.
    """
    highest = scores.max()
    if not np.isfinite(highest):
        return NO_LEVEL
    width = min(width, len(scores))
    least = np.partition(scores, -width)[-width]
    found = np.flatnonzero((scores >= least) & (scores > -np.inf))
    tokens = found[np.argsort(-scores[found], kind="stable")[:width]]
    weights = np.exp(scores - highest)
    return Level(tokens.astype(np.int32), weights[tokens] / weights.sum(dtype=np.float64))
