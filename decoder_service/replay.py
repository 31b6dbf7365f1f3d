"""Replays recorded answers through the real drafting code, without a model.

At every step the sources are asked for what follows the text so far, the planner makes one tree of their guesses,
and the answer itself stands in for the model: the accepted tokens and one more are emitted. A finished answer
is learned before the next one begins, so a replay gives the same figures every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import numpy as np

from decoder_service.accept import follow
from decoder_service.calibration import Calibration
from decoder_service.draft import DraftAsk, DraftSource, PlannedDraft
from decoder_service.drafts.prompt import OwnTextSource
from decoder_service.forest import NO_PARENT, Forest, Int32Array
from decoder_service.joined_tree import below
from decoder_service.planner import Planner
from decoder_service.replay_index import ReplayIndex
from decoder_service.traces import Answer
from decoder_service.trust import Trust

CONTEXT_LIMIT: Final = 4096  # newest tokens that a draft may be made from
WINDOW_STRIDE: Final = 256  # tokens that leave at once when the text outgrows the limit
NUM_TENTHS: Final = 10
_END: Final = -1  # no token: the answer is over


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    """What the drafts of a step may cost."""

    budget: int  # nodes
    min_probability: float  # of a node's path


@dataclass(slots=True)
class Tally:
    """What a replay counted. The arrays have one entry a tenth of predicted probability."""

    num_steps: int = 0
    num_tokens: int = 0
    num_nodes: int = 0
    draft_us: list[float] = field(default_factory=list)  # wall time of each step's draft, from ask to plan
    tenth_nodes: np.ndarray = field(default_factory=lambda: np.zeros(NUM_TENTHS))
    tenth_predicted: np.ndarray = field(default_factory=lambda: np.zeros(NUM_TENTHS))  # sums
    tenth_accepted: np.ndarray = field(default_factory=lambda: np.zeros(NUM_TENTHS))  # sums

    def add_step(self, planned: PlannedDraft, accepted: Sequence[int], num_emitted: int) -> None:
        """Count one step; ``accepted`` are the planned nodes that came true."""
        self.num_steps += 1
        self.num_tokens += num_emitted
        self.num_nodes += len(planned)
        tenths = np.minimum((planned.probabilities * NUM_TENTHS).astype(np.int64), NUM_TENTHS - 1)
        weights = np.ones(len(planned))
        if num_emitted == len(accepted):  # the answer ended at a node: what lies below it was never decided
            weights[below(planned.parents, accepted[-1])] = 0.0
        np.add.at(self.tenth_nodes, tenths, weights)
        np.add.at(self.tenth_predicted, tenths, weights * planned.probabilities)
        np.add.at(self.tenth_accepted, tenths[list(accepted)], 1)

    def add(self, other: Tally) -> None:
        """Count what another replay counted."""
        self.num_steps += other.num_steps
        self.num_tokens += other.num_tokens
        self.num_nodes += other.num_nodes
        self.draft_us += other.draft_us
        self.tenth_nodes += other.tenth_nodes
        self.tenth_predicted += other.tenth_predicted
        self.tenth_accepted += other.tenth_accepted


class Replay:
    """One decoder's drafting over a row of answers. What it learned stays for the next answer."""

    def __init__(
        self, sources: Sequence[DraftSource], planner: Planner, limits: ReplayLimits, namespace: str
    ) -> None:
        self.tally = Tally()
        self._sources = sources
        self._planner = planner
        self._limits = limits
        self._namespace = namespace
        self._numbers = count(1)

    def run(self, answer: Answer, on_step: Callable[[int], None] = lambda _: None) -> None:
        """Draft for every step of an answer; ``on_step`` takes the number of tokens that it emitted."""
        request, trust = next(self._numbers), Trust()
        end = answer.context_len
        start = max(end - CONTEXT_LIMIT, 0)
        while end < len(answer.text):
            if end - start > CONTEXT_LIMIT:
                self._close(request)  # sources expect a request's text to grow, not to move
                request, start = next(self._numbers), end - CONTEXT_LIMIT + WINDOW_STRIDE
            num_emitted = self._step(request, answer.text[start:end], answer.text[end:], trust)
            end += num_emitted
            on_step(num_emitted)
        self._close(request)

    def _step(self, request: int, text: Int32Array, rest: Int32Array, trust: Trust) -> int:
        """Draft once, verify against the ``rest`` of the answer and learn; return the tokens emitted."""
        began = time.perf_counter()
        planned = self._draft(request, text, trust)
        self.tally.draft_us.append((time.perf_counter() - began) * 1e6)
        nodes, tokens = _walk(planned, rest)
        self._planner.observe(0, tokens)
        trust.observe(planned.expected, len(nodes))
        self.tally.add_step(planned, nodes, len(tokens))
        return len(tokens)

    def _close(self, request: int) -> None:
        for source in self._sources:
            source.close(request)

    def _draft(self, request: int, text: Int32Array, trust: Trust) -> PlannedDraft:
        ask = DraftAsk(request, text, self._limits.budget, self._namespace)
        for source in self._sources:
            source.begin([ask])
        drafts = {source.source: source.collect()[0] for source in self._sources}
        (planned,) = self._planner.plan(
            [drafts], self._limits.budget, self._limits.min_probability, trusts=[trust.value]
        )
        return planned


def cold_replay(limits: ReplayLimits, *, own: bool, index: ReplayIndex | None = None) -> Replay:
    """A replay of a decoder that has learned nothing yet, with drafts from the text itself and from an index."""
    calibration = Calibration()
    sources: list[DraftSource] = [OwnTextSource(calibration)] if own else []
    if index is not None:
        sources.append(index.source)
    return Replay(sources, Planner(calibration), limits, index.namespace if index else "")


def _walk(planned: PlannedDraft, rest: Int32Array) -> tuple[list[int], list[int]]:
    """The planned nodes that ``rest`` of the answer takes, and the tokens that the step emits."""
    parents = np.where(planned.parents == NO_PARENT, 0, planned.parents + 1).tolist()
    forest = Forest.of([0, *planned.tokens.tolist()], [NO_PARENT, *parents])
    ahead = iter(rest.tolist())
    walked = follow(forest, 0, lambda _: next(ahead, _END), lambda token: token == _END)
    return [node - 1 for node in walked.nodes[1:]], [token for token in walked.tokens if token != _END]
