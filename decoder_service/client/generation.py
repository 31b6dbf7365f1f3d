"""What a generation gave: its steps as they arrive, and everything at the end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from decoder_service.client.request import Lookahead


class TokenSource(StrEnum):
    """Who proposed a token that the model confirmed."""

    MODEL = "model"
    OWN = "own"
    INDEX = "index"
    LOOKAHEAD = "lookahead"
    DRAFT_MODEL = "draft-model"


class FinishReason(StrEnum):
    """Why a generation ended."""

    STOP_TOKEN = "stop_token"
    STOP_STRING = "stop_string"
    LENGTH = "length"
    ABORTED = "aborted"


class TokenLogprob(NamedTuple):
    """A token and the natural logarithm of its probability."""

    token_id: int
    logprob: float


@dataclass(frozen=True, slots=True)
class Logprobs:
    """What the model itself gave an emitted token, before sampling parameters."""

    logprob: float  # natural logarithm
    top: tuple[TokenLogprob, ...]  # the likeliest tokens, likeliest first


@dataclass(frozen=True, slots=True)
class Step:
    """What one model step emitted. The texts of all steps of a continuation joined are its text.

    Text may lag behind the tokens while a character is incomplete or a stop string may have begun;
    text that was held back to the end arrives in a last step without tokens.
    """

    token_ids: tuple[int, ...]
    sources: tuple[TokenSource, ...]  # one a token
    text: str
    num_drafted: int
    elapsed_s: float  # from the call to the arrival of the step, by the client's clock
    index: int = 0  # which continuation
    logprobs: tuple[Logprobs, ...] = ()  # one a token, where they were asked for


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in and out."""

    num_prompt_tokens: int
    num_output_tokens: int
    num_reused_tokens: int = 0  # of the beginning, which an earlier request had computed


@dataclass(frozen=True, slots=True)
class SourceStats:
    """What one source achieved."""

    source: str
    num_drafted: int
    num_accepted: int


@dataclass(frozen=True, slots=True)
class DraftStats:
    """What drafting achieved. Of a stream that was resumed: over all its parts, but ``sources`` of the last alone."""

    num_steps: int
    num_drafted: int
    num_accepted: int
    sources: tuple[SourceStats, ...]
    accepted_len_histogram: tuple[int, ...]  # entry i: steps that accepted i draft tokens


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the time went, in milliseconds, by the clock of the server that ended the stream; its part alone."""

    queued_ms: float
    prefill_ms: float
    decode_ms: float
    draft_wait_ms: float
    draft_wait_p50_ms: float
    draft_wait_max_ms: float


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished generation."""

    request_id: str
    seed: int
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    matched_string: str | None
    matched_token_id: int | None
    usage: Usage
    drafts: DraftStats
    timings: Timings
    steps: tuple[Step, ...]
    warnings: tuple[str, ...]
    index: int  # which continuation
    logprobs: tuple[Logprobs, ...]  # one a token, where they were asked for
    prompt_token_ids: tuple[int, ...]  # where echo was asked for
    prompt_text: str  # where echo was asked for
    num_resumes: int  # how often the stream broke and went on, at another decoder or later

    @property
    def tokens_per_step(self) -> float:
        """Output tokens over model steps; 0 before the first."""
        return len(self.token_ids) / self.drafts.num_steps if self.drafts.num_steps else 0.0

    @property
    def tokens_per_second(self) -> float | None:
        """Decode rate as the client saw it, None where one step emitted everything.

        Tokens that arrived after the first step, over the time from the first step's arrival to the
        last one's. Queueing and prefill are not in it.
        """
        steps = [step for step in self.steps if step.token_ids]
        if len(steps) < 2:
            return None
        seconds = steps[-1].elapsed_s - steps[0].elapsed_s
        num_tokens = sum(len(step.token_ids) for step in steps[1:])
        return num_tokens / seconds if seconds > 0 else None

    @property
    def first_token_s(self) -> float | None:
        """Seconds from the call to the first token."""
        return next((step.elapsed_s for step in self.steps if step.token_ids), None)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A decoder: what it allows and how busy it is."""

    version: str
    uptime_s: float
    num_running: int
    num_waiting: int
    max_streams: int
    max_queue: int
    num_cache_positions: int
    num_cache_positions_used: int
    sources: tuple[str, ...]  # that requests may name
    draft_nodes: int  # most in a step, all requests together
    lookahead: Lookahead
    step_costs_ms: dict[int, float]  # by rows


@dataclass(frozen=True, slots=True)
class Model:
    """The model that a decoder serves."""

    name: str
    fingerprint: str  # of tokenizer and vocabulary
    vocab_size: int
    context_len: int
    dtype: str
    device: str
    eos_token_ids: tuple[int, ...]
    default_sources: tuple[str, ...]
    default_namespace: str
    exact: bool  # whether drafts cannot change a bit, by the self-test on this device
    self_test: str
    version: str
