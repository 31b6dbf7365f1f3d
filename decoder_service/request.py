"""A generation request, its limits and its events."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum

from decoder_service.draft import DEFAULT_LOOKAHEAD, LookaheadShape, Source
from decoder_service.errors import InvalidRequestError
from decoder_service.forest import Int32Array
from decoder_service.logprobs import MAX_TOP, EmittedLogprob
from decoder_service.sampling import SamplingParams

MAX_STOP_STRINGS = 16
MAX_SEED = 2**64 - 1
MAX_CONTINUATIONS = 16
MAX_PRIORITY = 100
MIN_PENALTY = 0.01 * (1 - 2**-23)  # 0.01 as a client's float32 holds it


@dataclass(frozen=True, slots=True)
class StopConditions:
    """When a generation ends."""

    max_tokens: int
    min_tokens: int = 0
    strings: tuple[str, ...] = ()
    token_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """Where a request's drafts come from and what they may cost."""

    sources: frozenset[Source]
    max_nodes: int
    namespace: str
    learn: bool
    lookahead: LookaheadShape = DEFAULT_LOOKAHEAD
    keeps_window: bool = False  # also where the window does not pay


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """What the engine is asked to continue. Build it with :func:`validated`."""

    request_id: str
    prompt: Int32Array  # [prompt_len]
    sampling: SamplingParams
    stop: StopConditions
    drafts: DraftChoice
    resumed: tuple[int, ...] = ()  # output that the client has already
    logprobs: int | None = None  # likeliest tokens beside each emitted one; None: no probabilities at all
    priority: int = 0  # higher ones begin first


def continuations(request: GenerationRequest, number: int) -> list[GenerationRequest]:
    """The request ``number`` times over, each with a seed of its own: the first one's plus its place, modulo 2^64.

    Raises InvalidRequestError for a number that is not served.
    """
    if not 1 <= number <= MAX_CONTINUATIONS:
        raise InvalidRequestError(f"n {number} is not between 1 and {MAX_CONTINUATIONS}")
    seeds = ((request.sampling.seed + place) % (MAX_SEED + 1) for place in range(number))
    return [replace(request, sampling=replace(request.sampling, seed=seed)) for seed in seeds]


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """What the served model can take."""

    vocab_size: int
    context_len: int


def validated(request: GenerationRequest, limits: ModelLimits) -> GenerationRequest:
    """The request itself, or InvalidRequestError that names the field and the value."""
    _check_tokens(request, limits)
    _check_sampling(request.sampling, limits)
    _check_stop(request.stop, limits)
    if request.drafts.max_nodes < 0:
        raise InvalidRequestError(f"drafts.max_nodes {request.drafts.max_nodes} is negative")
    if request.logprobs is not None and not 0 <= request.logprobs <= MAX_TOP:
        raise InvalidRequestError(f"logprobs {request.logprobs} is not between 0 and {MAX_TOP}")
    if abs(request.priority) > MAX_PRIORITY:
        raise InvalidRequestError(
            f"priority {request.priority} is not between -{MAX_PRIORITY} and {MAX_PRIORITY}"
        )
    return request


def _check_tokens(request: GenerationRequest, limits: ModelLimits) -> None:
    prompt_len = len(request.prompt)
    if prompt_len == 0:
        raise InvalidRequestError("the prompt is empty: it has no tokens")
    if prompt_len >= limits.context_len:
        raise InvalidRequestError(
            f"the prompt has {prompt_len} tokens; the context of {limits.context_len} leaves no room for output"
        )
    if len(request.resumed) > request.stop.max_tokens:
        raise InvalidRequestError(
            f"resume.token_ids has {len(request.resumed)} tokens, more than max_tokens {request.stop.max_tokens}"
        )
    for name, tokens in (("token_ids", request.prompt.tolist()), ("resume.token_ids", request.resumed)):
        check_vocabulary(name, tokens, limits)


def _check_sampling(params: SamplingParams, limits: ModelLimits) -> None:
    checks = (
        ("temperature", params.temperature, 0 <= params.temperature <= 100, "between 0 and 100"),
        ("top_k", params.top_k, 0 <= params.top_k <= limits.vocab_size, f"between 0 and {limits.vocab_size}"),
        ("top_p", params.top_p, 0 < params.top_p <= 1, "above 0 and at most 1"),
        ("min_p", params.min_p, 0 <= params.min_p <= 1, "between 0 and 1"),
        (
            "repetition_penalty",
            params.repetition_penalty,
            MIN_PENALTY <= params.repetition_penalty <= 100,
            "between 0.01 and 100",
        ),
        ("seed", params.seed, 0 <= params.seed <= MAX_SEED, f"between 0 and {MAX_SEED}"),
    )
    for name, value, holds, expected in checks:
        if not holds:  # NaN holds nowhere
            raise InvalidRequestError(f"sampling.{name} {value:g} is not {expected}")
    for token, bias in params.logit_bias.items():
        if not (math.isfinite(bias) and -100 <= bias <= 100):
            raise InvalidRequestError(
                f"sampling.logit_bias of token {token} is {bias:g}, not between -100 and 100"
            )
    check_vocabulary("sampling.logit_bias", params.logit_bias, limits)


def _check_stop(stop: StopConditions, limits: ModelLimits) -> None:
    if stop.max_tokens < 1:
        raise InvalidRequestError(f"stop.max_tokens {stop.max_tokens} is not at least 1")
    if stop.min_tokens > stop.max_tokens:
        raise InvalidRequestError(
            f"stop.min_tokens {stop.min_tokens} is above stop.max_tokens {stop.max_tokens}"
        )
    if len(stop.strings) > MAX_STOP_STRINGS:
        raise InvalidRequestError(
            f"stop.strings has {len(stop.strings)} entries, more than {MAX_STOP_STRINGS}"
        )
    if "" in stop.strings:
        raise InvalidRequestError("stop.strings has an empty entry")
    check_vocabulary("stop.token_ids", stop.token_ids, limits)


def check_vocabulary(name: str, tokens: Iterable[int], limits: ModelLimits) -> None:
    """Raise InvalidRequestError, which names the field and the token, where one is not the model's."""
    for token in tokens:
        if not 0 <= token < limits.vocab_size:
            raise InvalidRequestError(
                f"{name}: token {token} is outside the vocabulary of {limits.vocab_size}"
            )


class FinishReason(IntEnum):
    """Why a generation ended. The values are those of FinishReason on the wire."""

    STOP_TOKEN = 1
    STOP_STRING = 2
    LENGTH = 3
    ABORTED = 4


@dataclass(frozen=True, slots=True)
class StepEvent:
    """What one model step emitted for a request."""

    tokens: list[int]
    sources: list[Source]
    text: str
    num_drafted: int
    logprobs: list[EmittedLogprob] = field(default_factory=list)  # [len(tokens)], or none


@dataclass(slots=True)
class DraftStats:
    """What drafting achieved for a request."""

    num_steps: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    drafted_by: dict[Source, int] = field(default_factory=dict)
    accepted_by: dict[Source, int] = field(default_factory=dict)
    accepted_len_histogram: list[int] = field(default_factory=list)
    waits_ms: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Timings:
    """Moments of a request, in seconds of one monotonic clock."""

    arrived: float = 0.0
    started: float = 0.0
    first_token: float = 0.0
    finished: float = 0.0

    def finish(self, now: float) -> None:
        """Set the last moment, and those that never came."""
        self.finished = now
        self.started = self.started or now
        self.first_token = self.first_token or now


@dataclass(frozen=True, slots=True)
class FinishedEvent:
    """How a request ended."""

    reason: FinishReason
    matched_string: str
    matched_token: int | None
    text: str
    num_output: int
    stats: DraftStats
    timings: Timings
    warnings: list[str]
    num_reused: int = 0  # leading tokens that another request had computed


@dataclass(frozen=True, slots=True)
class FailedEvent:
    """A request that could not be finished."""

    error: Exception


Event = StepEvent | FinishedEvent | FailedEvent
