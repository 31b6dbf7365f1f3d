"""The engine: one step after another over all running requests, on one device thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np
import structlog
import torch

from decoder_service.accept import Acceptance, follow
from decoder_service.draft import DraftSource, PlannedDraft, Source
from decoder_service.engine_config import EngineConfig
from decoder_service.errors import InternalError
from decoder_service.forest import Forest
from decoder_service.kv_cache import CacheFullError, CacheUse
from decoder_service.logprobs import EmittedLogprob, logprob_of
from decoder_service.model import LoadedModel, StepLogits
from decoder_service.packed_step import SlotStep
from decoder_service.planner import Planner
from decoder_service.request import FailedEvent, FinishReason, GenerationRequest
from decoder_service.sampling import argmax_rows
from decoder_service.share import NO_DRAFT, Share, hang_under, share_out
from decoder_service.step_drafts import StepDrafts
from decoder_service.stream import Sink, Stream

LONGEST_STEP: Final = 2.5  # of a step with a piece of a prompt, in steps without
LEAST_PREFILL_ROWS: Final = 4

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Part:
    """One stream's share of a step."""

    stream: Stream
    forest: Forest
    num_known: int  # leading nodes that are the stream's own pending tokens
    planned: PlannedDraft
    is_complete: bool  # no pending token is left out, so the step emits


class Engine:
    """Runs requests: plan, forward, accept, commit, emit. Not thread-safe."""

    def __init__(
        self,
        loaded: LoadedModel,
        sources: Sequence[DraftSource],
        planner: Planner,
        config: EngineConfig,
        *,
        learn: Callable[[Stream], None] | None = None,
        warnings: Callable[[Stream], list[str]] | None = None,
    ) -> None:
        self._loaded = loaded
        self._model = loaded.model
        self._drafts = StepDrafts(sources, planner, config)
        self._config = config
        self._learn = learn
        self._warnings = warnings
        self._numbers = count(1)
        self._waiting: list[Stream] = []
        self._running: list[Stream] = []
        self._num_rows = 0  # of the step
        self.on_logits: Callable[[Stream, int, torch.Tensor], None] | None = None  # stream, position, [vocab]

    @property
    def num_waiting(self) -> int:
        """Requests that have no place in the cache yet."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Requests that have a place in the cache."""
        return len(self._running)

    @property
    def cache_use(self) -> CacheUse:
        """How full the cache is."""
        return self._model.cache.use

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self._running and not self._waiting

    def add(self, request: GenerationRequest, sink: Sink) -> Stream:
        """Queue a request; its events go to ``sink``, on this thread."""
        stream = Stream(next(self._numbers), request, self._loaded.eos_token_ids, self._decode, sink)
        self._waiting.append(stream)
        return stream

    def streams(self) -> list[Stream]:
        """All requests that are not finished."""
        return [*self._running, *self._waiting]

    def drop(self, streams: Sequence[Stream]) -> None:
        """End requests without an event and free what they hold."""
        for stream in streams:
            self._leave(stream)

    def step(self) -> None:
        """One forward pass over every running request, and what follows from it."""
        self.drop([stream for stream in self.streams() if stream.is_cancelled])
        self._end_aborted()
        self._admit()
        if not self._running:
            return
        parts = self._plan()
        self._num_rows = sum(len(part.forest) for part in parts)
        began = time.monotonic()
        output = self._model.forward([self._slot_step(part) for part in parts])
        best = self._best(parts, output)
        self._observe_cost(parts, (time.monotonic() - began) * 1000)
        acceptances = self._accept(parts, output, best)
        self._commit(parts, acceptances, output)
        self._tell_window(parts, acceptances, output, best)
        for part, acceptance, first in zip(parts, acceptances, output.first_wanted, strict=True):
            if isinstance(acceptance, Acceptance):
                self._emit(part, acceptance, output.logits[first:])
            else:
                self._fail(part.stream, acceptance)
        self._drafts.ask(self._shares())

    def _observe_cost(self, parts: Sequence[_Part], milliseconds: float) -> None:
        if self._config.cost is not None:
            self._config.cost.observe(
                self._num_rows, _mean_context([part.stream for part in parts]), milliseconds
            )

    def _decode(self, tokens: list[int]) -> str:
        text: str = self._loaded.tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def _end_aborted(self) -> None:
        for stream in self.streams():
            if stream.is_aborted:
                stream.finish_reason = stream.finish_reason or FinishReason.ABORTED
                self._finish(stream)

    def _admit(self) -> None:
        """Start waiting requests while the cache has room for all that they may become.

        The highest priority goes first, and among equals who came first; nobody overtakes who does not fit yet.
        """
        while self._waiting and len(self._running) < self._config.max_streams:
            stream = min(self._waiting, key=lambda each: (-each.request.priority, each.number))
            if self._config.reuse_prefixes:
                self._model.cache.reuse(stream.slot, stream.text)
            try:
                self._model.cache.reserve(stream.slot, stream.max_len)
            except CacheFullError:
                self._model.cache.release(stream.slot)
                return
            stream.num_reused = stream.slot.length
            self._waiting.remove(stream)
            stream.timings.started = time.monotonic()
            self._running.append(stream)
            if stream.finish_reason is not None:  # all of it was resumed
                self._finish(stream)

    def _plan(self) -> list[_Part]:
        """What every stream puts into the step."""
        shares = self._shares()
        drafts = self._drafts.collect(shares)
        parts = []
        for share in shares:
            known = share.stream.pending[: share.num_known]
            planned = drafts.get(share.stream.number, NO_DRAFT)
            forest = hang_under(known.tolist(), planned)
            parts.append(_Part(share.stream, forest, len(known), planned, share.is_complete))
        return parts

    def _shares(self) -> list[Share]:
        return share_out(self._running, self._prefill_rows())

    def _prefill_rows(self) -> int:
        """Rows of prompts in the next step: as many as keep it short for the requests that decode beside them."""
        most, cost = self._config.prefill_rows, self._config.cost
        decoding = [stream for stream in self._running if len(stream.pending) == 1]
        if cost is None or not decoding:
            return most
        context_len = _mean_context(decoding)
        lengths = cost.of(len(decoding) + np.arange(most + 1), context_len)
        return max(
            int(np.searchsorted(lengths, LONGEST_STEP * lengths[0], side="right")) - 1, LEAST_PREFILL_ROWS
        )

    def _slot_step(self, part: _Part) -> SlotStep:
        wanted = range(part.num_known - 1, len(part.forest)) if part.is_complete else ()
        return SlotStep(part.stream.slot, part.forest, wanted)

    def _best(self, parts: Sequence[_Part], output: StepLogits) -> list[int]:
        """The argmax of every wanted row, where nobody needs more than that; else none."""
        is_greedy = all(part.stream.sampler.is_plain_greedy for part in parts)
        return argmax_rows(output.logits) if is_greedy and len(output.logits) else []

    def _accept(
        self, parts: Sequence[_Part], output: StepLogits, best: list[int]
    ) -> list[Acceptance | Exception]:
        """What each part yields, or what its own sampling raised: the other streams go on."""
        acceptances: list[Acceptance | Exception] = []
        for part, first in zip(parts, output.first_wanted, strict=True):
            try:
                acceptances.append(self._accept_part(part, first, output, best))
            except Exception as error:  # a logits processor may raise anything
                acceptances.append(error)
        return acceptances

    def _accept_part(self, part: _Part, first_wanted: int, output: StepLogits, best: list[int]) -> Acceptance:
        """Walk down one stream's tree; wanted row i is node num_known - 1 + i."""
        if not part.is_complete:
            return Acceptance([], [])
        stream, root = part.stream, part.num_known - 1
        history = stream.text.tolist() if not best else []
        num_chosen = 0

        def choose(node: int) -> int:
            nonlocal num_chosen
            row = first_wanted + node - root
            if self.on_logits is not None:
                self.on_logits(stream, len(stream.text) + num_chosen, output.logits[row])
            token = best[row] if best else stream.sampler.choose(output.logits[row], history)
            history.append(token)
            num_chosen += 1
            return token

        return follow(part.forest, root, choose, lambda token: stream.is_last(token, num_chosen - 1))

    def _commit(
        self, parts: Sequence[_Part], acceptances: Sequence[Acceptance | Exception], output: StepLogits
    ) -> None:
        """Keep the rows of the known tokens and of the accepted drafts."""
        kept = [
            (
                part.stream.slot,
                [*range(part.num_known), *(accepted.nodes[1:] if isinstance(accepted, Acceptance) else [])],
            )
            for part, accepted in zip(parts, acceptances, strict=True)
        ]
        self._model.commit(output, kept)

    def _tell_window(
        self,
        parts: Sequence[_Part],
        acceptances: Sequence[Acceptance | Exception],
        output: StepLogits,
        best: list[int],
    ) -> None:
        """Let the window move on by what the model said in its rows."""
        for part, acceptance, first in zip(parts, acceptances, output.first_wanted, strict=True):
            num_rows = part.planned.num_window_rows
            if not num_rows or isinstance(acceptance, Exception):
                continue
            end = first + 1 + len(part.planned)
            rows = [first, *range(end - num_rows, end)]
            said = [best[row] for row in rows] if best else argmax_rows(output.logits[rows])
            said_after = np.array(said, dtype=np.int32)
            self._drafts.observe_window(part.stream, said_after, len(acceptance.tokens))

    def _emit(self, part: _Part, acceptance: Acceptance, logits: torch.Tensor) -> None:
        """Hand out what a part yields; row i of ``logits`` [rows, vocab] is node num_known - 1 + i."""
        if not part.is_complete:
            return
        stream = part.stream
        self._drafts.observe(stream, acceptance.tokens)
        try:
            event = stream.emit(acceptance, part.planned, part.num_known, _logprobs(part, acceptance, logits))
        except Exception as error:  # a tokenizer may raise anything
            self._fail(stream, error)
            return
        if not stream.timings.first_token:
            stream.timings.first_token = time.monotonic()
            self._remember(stream)
        accepted = [source for source in event.sources if source != Source.MODEL]
        self._drafts.judge(stream, part.planned, accepted, self._num_rows)
        stream.sink(event)
        if stream.finish_reason is not None:
            self._finish(stream)

    def _fail(self, stream: Stream, error: Exception) -> None:
        """End one request whose own sampling or text failed."""
        log.error("a request failed", request_id=stream.request.request_id, exc_info=error)
        self._leave(stream)
        stream.sink(FailedEvent(InternalError(f"the request failed: {type(error).__name__}: {error}")))

    def _finish(self, stream: Stream) -> None:
        stream.timings.finish(time.monotonic())
        was_aborted = stream.finish_reason == FinishReason.ABORTED
        if self._learn is not None and stream.request.drafts.learn and not was_aborted:
            self._learn(stream)
        stream.sink(stream.finished(self._warnings(stream) if self._warnings else []))
        self._remember(stream)
        self._leave(stream)

    def _remember(self, stream: Stream) -> None:
        """Let requests that begin like this one reuse what it computed."""
        if self._config.reuse_prefixes:
            self._model.cache.remember(stream.slot, stream.text)

    def _leave(self, stream: Stream) -> None:
        for streams in (self._running, self._waiting):
            if stream in streams:
                streams.remove(stream)
        self._model.cache.release(stream.slot)
        self._drafts.close(stream.number)


def _logprobs(part: _Part, acceptance: Acceptance, logits: torch.Tensor) -> list[EmittedLogprob]:
    """Of each emitted token, where the request asks for them; ``logits`` as in ``_emit``."""
    num_top = part.stream.request.logprobs
    if num_top is None:
        return []
    rows = [node - part.num_known + 1 for node in acceptance.nodes]
    return [
        logprob_of(logits[row], token, num_top) for row, token in zip(rows, acceptance.tokens, strict=True)
    ]


def _mean_context(streams: Sequence[Stream]) -> float:
    """Positions that a request holds, on average."""
    return sum(stream.slot.length for stream in streams) / max(len(streams), 1)
