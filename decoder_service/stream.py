"""One running request: its text so far, its place in the cache, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from decoder_service.accept import Acceptance
from decoder_service.draft import PlannedDraft, Source
from decoder_service.forest import Int32Array
from decoder_service.kv_cache import Slot
from decoder_service.logprobs import EmittedLogprob
from decoder_service.request import (
    DraftStats,
    Event,
    FinishedEvent,
    FinishReason,
    GenerationRequest,
    StepEvent,
    Timings,
)
from decoder_service.sampling import Sampler
from decoder_service.text import Decode, StopMatch, StopStrings, TextStream
from decoder_service.trust import Trust

Sink = Callable[[Event], None]
LogitsObserver = Callable[[int, torch.Tensor], None]


class Stream:
    """The state of one request between steps."""

    def __init__(
        self,
        number: int,
        request: GenerationRequest,
        eos_token_ids: Sequence[int],
        decode: Decode,
        sink: Sink,
    ) -> None:
        self.number = number
        self.request = request
        self.slot = Slot()
        self.sink = sink
        self.stats = DraftStats()
        self.trust = Trust()
        self.timings = Timings(arrived=time.monotonic())
        self.num_reused = 0  # leading tokens whose keys and values another request had computed
        self.is_cancelled = False
        self.is_aborted = False
        self.finish_reason: FinishReason | None = None
        stop = request.stop
        self.max_len = len(request.prompt) + stop.max_tokens
        self._ends = frozenset(stop.token_ids) | (
            frozenset() if stop.ignore_eos else frozenset(eos_token_ids)
        )
        self.sampler = Sampler(request.sampling, len(request.prompt), stop.min_tokens, sorted(self._ends))
        self._tokens = np.empty(self.max_len, dtype=np.int32)
        self._len = 0
        self._append(request.prompt)
        self._text = TextStream(decode)
        self._stop_strings = StopStrings(stop.strings)
        self._matched: StopMatch | None = None
        self._resume(request.resumed)

    @property
    def text(self) -> Int32Array:
        """Prompt and output, [len]."""
        return self._tokens[: self._len]

    @property
    def num_output(self) -> int:
        """Tokens generated, resumed ones included."""
        return self._len - len(self.request.prompt)

    @property
    def pending(self) -> Int32Array:
        """Tokens whose keys and values are not in the cache; the newest is always among them."""
        return self._tokens[self.slot.length : self._len]

    @property
    def room(self) -> int:
        """Tokens that may still be generated."""
        return self.max_len - self._len

    def is_last(self, token: int, num_before: int) -> bool:
        """Whether ``token`` ends the generation, emitted after ``num_before`` others of the same step."""
        num_output = self.num_output + num_before + 1
        ends = token in self._ends and num_output >= self.request.stop.min_tokens
        return ends or self._len + num_before + 1 >= self.max_len

    def emit(
        self,
        acceptance: Acceptance,
        planned: PlannedDraft,
        num_pending: int,
        logprobs: Sequence[EmittedLogprob] = (),
    ) -> StepEvent:
        """Take over a step's tokens, as far as no stop condition cuts them off."""
        sources = [Source(int(planned.sources[node - num_pending])) for node in acceptance.nodes[1:]]
        text, tokens = "", []
        for token in acceptance.tokens:
            tokens.append(token)
            text += self._take(token)
            if self.finish_reason is not None:
                break
        kept = sources[: len(tokens)]
        num_drafts = len(planned) - planned.num_window_rows
        came_true = sum(node - num_pending < num_drafts for node in acceptance.nodes[1:])
        self.trust.observe(planned.expected, min(came_true, len(kept)))
        self._count(kept, planned)
        sources = [*kept, *[Source.MODEL] * (len(tokens) - len(kept))]
        return StepEvent(tokens, sources, text, len(planned), list(logprobs[: len(tokens)]))

    def finished(self, warnings: list[str]) -> FinishedEvent:
        """The last event."""
        assert self.finish_reason is not None
        text = self._stop_strings.flush() if self._matched is None else ""
        matched_token = (
            int(self._tokens[self._len - 1]) if self.finish_reason == FinishReason.STOP_TOKEN else None
        )
        string = self._matched.string if self._matched else ""
        return FinishedEvent(
            self.finish_reason,
            string,
            matched_token,
            text,
            self.num_output,
            self.stats,
            self.timings,
            warnings,
            self.num_reused,
        )

    def _take(self, token: int) -> str:
        """Append one token; return the text that may be shown."""
        is_last, is_end = self.is_last(token, 0), self._is_end(token)
        self._append([token])
        shown, self._matched = self._stop_strings.push(self._text.push(token))
        if self._matched is not None:
            self.finish_reason = FinishReason.STOP_STRING
        elif is_last:
            self.finish_reason = FinishReason.STOP_TOKEN if is_end else FinishReason.LENGTH
        return shown

    def _is_end(self, token: int) -> bool:
        return token in self._ends and self.num_output + 1 >= self.request.stop.min_tokens

    def _resume(self, tokens: Sequence[int]) -> None:
        """Be as if these tokens had been emitted here; their text is the client's already."""
        for token in tokens:
            if self.finish_reason is None:
                self._take(token)

    def _append(self, tokens: Sequence[int] | Int32Array) -> None:
        self._tokens[self._len : self._len + len(tokens)] = tokens
        self._len += len(tokens)

    def _count(self, accepted: list[Source], planned: PlannedDraft) -> None:
        stats = self.stats
        stats.num_steps += 1
        stats.num_drafted += len(planned)
        stats.num_accepted += len(accepted)
        for source in planned.sources.tolist():
            stats.drafted_by[Source(source)] = stats.drafted_by.get(Source(source), 0) + 1
        for source in accepted:
            stats.accepted_by[source] = stats.accepted_by.get(source, 0) + 1
        missing = len(accepted) + 1 - len(stats.accepted_len_histogram)
        stats.accepted_len_histogram += [0] * missing
        stats.accepted_len_histogram[len(accepted)] += 1
