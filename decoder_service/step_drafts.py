"""The drafts of a step: asked for, collected, planned, and learned from.

Drafting that does not pay rests. A source of drafts costs little where the planner takes none of them, so a request
is asked for again soon; a window costs its rows in every step, so it rests longer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from decoder_service.back_off import BackOff, Patience
from decoder_service.calibration import Float64Array
from decoder_service.draft import DraftAsk, DraftSource, DraftTree, PlannedDraft, Source, WindowSource
from decoder_service.engine_config import EngineConfig
from decoder_service.forest import Int32Array
from decoder_service.planner import Planner
from decoder_service.share import Share, cut
from decoder_service.stream import Stream
from decoder_service.window_rows import Rows, rows_within, with_rows

ASKING: Final = Patience(first_trial=16, later_trials=2, first_pause=1, longest_pause=8)
WINDOW: Final = Patience(first_trial=24, later_trials=12, first_pause=24, longest_pause=384)
PRICE_OF_ASKING: Final = 0.01  # plain steps


@dataclass(frozen=True, slots=True)
class _Rests:
    """What a request does without for a while."""

    asking: BackOff
    window: BackOff


class StepDrafts:
    """Drafts for the requests of one engine. Not thread-safe."""

    def __init__(self, sources: Sequence[DraftSource], planner: Planner, config: EngineConfig) -> None:
        self._sources = sources
        self._window = next((each for each in sources if isinstance(each, WindowSource)), None)
        self._planner = planner
        self._config = config
        self._drafting: list[Stream] = []  # streams that the next plan is for
        self._asked: list[list[Stream]] = [[] for _ in sources]  # what each source was asked for
        self._decided: tuple[list[Stream], list[Stream]] = (
            [],
            [],
        )  # who wanted drafts, and who of them gets any
        self._rests: dict[int, _Rests] = {}

    def ask(self, shares: Sequence[Share]) -> None:
        """Ask each source for the next step's drafts of the streams that want it."""
        wanting = _that_want(shares)
        self._decided = wanting, [stream for stream in wanting if self._rests_of(stream).asking.is_due()]
        self._drafting = self._decided[1]
        self._asked = [
            [stream for stream in self._drafting if source.source in stream.request.drafts.sources]
            for source in self._sources
        ]
        for source, asked in zip(self._sources, self._asked, strict=True):
            source.begin([self._draft_ask(stream) for stream in asked])

    def collect(self, shares: Sequence[Share]) -> dict[int, PlannedDraft]:
        """What each stream that emits in this step and has drafts will have verified, by its number."""
        if _that_want(shares) != self._decided[0]:
            self.ask(shares)
        trees: dict[int, dict[Source, DraftTree]] = {stream.number: {} for stream in self._drafting}
        for source, asked in zip(self._sources, self._asked, strict=True):
            began = time.monotonic()
            answers = source.collect()
            if source.source == Source.INDEX:
                _note_wait(asked, (time.monotonic() - began) * 1000)
            for stream, answer in zip(asked, answers, strict=True):
                trees[stream.number][source.source] = answer
        num_emitting = sum(share.is_complete for share in shares)
        budget = max(self._config.draft_nodes - max(num_emitting - 1, 0), 0)
        windows = self._window_rows(budget)
        num_window_rows = sum(len(tokens) for tokens, _ in windows.values())
        budget -= num_window_rows
        planned = self._planner.plan(
            list(trees.values()),
            budget,
            self._config.min_probability,
            costs=self._costs(shares, num_window_rows, budget),
            num_emitting=num_emitting,
            trusts=[stream.trust.value for stream in self._drafting],
        )
        return {
            stream.number: _fitted(stream, draft, windows.get(stream.number))
            for stream, draft in zip(self._drafting, planned, strict=True)
        }

    def observe(self, stream: Stream, tokens: Sequence[int]) -> None:
        """Let the planner learn from what a stream of the last plan emitted."""
        if stream in self._drafting:
            self._planner.observe(self._drafting.index(stream), tokens)

    def observe_window(self, stream: Stream, said: Int32Array, num_emitted: int) -> None:
        """Let the window move on: the argmax after the newest token and after each of its rows.  # said [n + 1]"""
        assert self._window is not None
        self._window.observe(stream.number, int(stream.text[-1]), said, num_emitted)

    def judge(self, stream: Stream, planned: PlannedDraft, accepted: Sequence[Source], num_rows: int) -> None:
        """Tell whether a stream's drafts, in a step of ``num_rows`` rows, were worth their time."""
        if self._config.cost is None or stream not in self._drafting:
            return
        num_nodes, num_window = len(planned), planned.num_window_rows
        counts = np.array([num_rows - num_nodes, num_rows - num_window, num_rows, 1])
        bare, without_window, whole, plain = self._config.cost.of(counts, stream.slot.length).tolist()
        rests = self._rests_of(stream)
        rests.asking.observe(len(accepted) * plain - (whole - bare) - PRICE_OF_ASKING * plain)
        if num_window and not stream.request.drafts.keeps_window:
            by_window = sum(source == Source.LOOKAHEAD for source in accepted)
            rests.window.observe(by_window * plain - (whole - without_window))

    def close(self, number: int) -> None:
        """Forget a stream."""
        self._rests.pop(number, None)
        for source in self._sources:
            source.close(number)

    def _rests_of(self, stream: Stream) -> _Rests:
        if stream.number not in self._rests:
            self._rests[stream.number] = _Rests(BackOff(ASKING), BackOff(WINDOW))
        return self._rests[stream.number]

    def _window_rows(self, budget: int) -> Mapping[int, Rows]:
        """The window's rows of each stream that has one, by its number."""
        if self._window is None:
            return {}
        asks = [
            (self._draft_ask(stream), stream.room - 2)
            for stream in self._drafting
            if Source.LOOKAHEAD in stream.request.drafts.sources and self._rests_of(stream).window.is_due()
        ]
        return rows_within(self._window, asks, budget)

    def _costs(self, shares: Sequence[Share], num_window_rows: int, budget: int) -> Float64Array | None:
        """What the step costs with no draft node, with one and so on.  # [budget + 1]"""
        if self._config.cost is None:
            return None
        num_rows = sum(share.num_known for share in shares) + num_window_rows
        context_len = sum(share.stream.slot.length for share in shares) / max(len(shares), 1)
        return self._config.cost.of(num_rows + np.arange(budget + 1), context_len)

    def _draft_ask(self, stream: Stream) -> DraftAsk:
        drafts = stream.request.drafts
        max_nodes = min(self._config.draft_nodes, drafts.max_nodes)
        return DraftAsk(
            stream.number,
            stream.text,
            max_nodes,
            drafts.namespace,
            drafts.lookahead,
            max_depth=stream.room - 1,
            chooser=stream.sampler,
        )


def _that_want(shares: Sequence[Share]) -> list[Stream]:
    """The streams that emit in the step and have sources; a prompt that goes on has nothing to draft for."""
    return [share.stream for share in shares if share.is_complete and share.stream.request.drafts.sources]


def _fitted(stream: Stream, draft: PlannedDraft, window: Rows | None) -> PlannedDraft:
    """The draft as far as the request allows it, with the window's rows."""
    most = stream.request.drafts.max_nodes - (len(window[0]) if window else 0)
    fitted = cut(draft, most, stream.room - 2)
    return with_rows(fitted, window, Source.LOOKAHEAD) if window else fitted


def _note_wait(streams: Sequence[Stream], wait_ms: float) -> None:
    for stream in streams:
        stream.stats.waits_ms.append(wait_ms)
