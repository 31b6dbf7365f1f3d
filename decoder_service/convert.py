"""Between wire messages and the engine's nouns."""

from __future__ import annotations

import secrets
import statistics
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from draftwell.decoder.v1 import decoder_pb2 as pb

from decoder_service.draft import LookaheadShape, Source
from decoder_service.errors import InvalidRequestError
from decoder_service.forest import Int32Array
from decoder_service.logprobs import EmittedLogprob
from decoder_service.namespace import NAME_RULE, is_namespace_name
from decoder_service.request import (
    DraftChoice,
    DraftStats,
    FinishedEvent,
    FinishReason,
    GenerationRequest,
    ModelLimits,
    StepEvent,
    StopConditions,
    continuations,
    validated,
)
from decoder_service.sampling import SamplingParams
from decoder_service.tokens import Tokenizer

SOURCE_NAMES = {
    Source.OWN: "own",
    Source.INDEX: "index",
    Source.LOOKAHEAD: "lookahead",
    Source.DRAFT_MODEL: "model",
}
SOURCES = {name: source for source, name in SOURCE_NAMES.items()}

_WIRE_SOURCES = {
    Source.MODEL: pb.TOKEN_SOURCE_MODEL,
    Source.OWN: pb.TOKEN_SOURCE_OWN,
    Source.INDEX: pb.TOKEN_SOURCE_INDEX,
    Source.LOOKAHEAD: pb.TOKEN_SOURCE_LOOKAHEAD,
    Source.DRAFT_MODEL: pb.TOKEN_SOURCE_DRAFT_MODEL,
}
_WIRE_REASONS = {
    FinishReason.STOP_TOKEN: pb.FINISH_REASON_STOP_TOKEN,
    FinishReason.STOP_STRING: pb.FINISH_REASON_STOP_STRING,
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
    FinishReason.ABORTED: pb.FINISH_REASON_ABORTED,
}
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Defaults:
    """What requests get that do not say."""

    sources: frozenset[Source]
    draft_nodes: int
    namespace: str
    learn: bool
    max_tokens: int
    lookahead: LookaheadShape


def requests_of(
    message: pb.GenerateRequest, tokenizer: Tokenizer, limits: ModelLimits, defaults: Defaults
) -> list[GenerationRequest]:
    """One request a continuation; raise InvalidRequestError that names the field and the value."""
    number = message.n if message.HasField("n") else 1
    if number > 1 and message.HasField("resume"):
        raise InvalidRequestError(
            f"resume and n {number} exclude each other: resume a continuation by itself, with its own seed"
        )
    return continuations(request_of(message, tokenizer, limits, defaults), number)


def request_of(
    message: pb.GenerateRequest, tokenizer: Tokenizer, limits: ModelLimits, defaults: Defaults
) -> GenerationRequest:
    """The request; raise InvalidRequestError that names the field and the value."""
    prompt = prompt_of(message, tokenizer)
    room = limits.context_len - len(prompt)
    request = GenerationRequest(
        message.request_id or uuid.uuid4().hex,
        prompt,
        _sampling_of(message.sampling),
        _stop_of(message.stop, room, defaults),
        _drafts_of(message, defaults),
        tuple(message.resume.token_ids),
        message.logprobs if message.HasField("logprobs") else None,
        message.priority,
    )
    return validated(request, limits)


def prompt_of(message: pb.GenerateRequest | pb.TokenizeRequest, tokenizer: Tokenizer) -> Int32Array:
    """The tokens of the input, [len]; raise InvalidRequestError where there is none."""
    kind = message.WhichOneof("input")
    if kind == "text":
        return tokenizer.encode(message.text)
    if kind == "chat":
        return tokenizer.encode_chat([(turn.role, turn.content) for turn in message.chat.messages])
    if kind == "token_ids" and isinstance(message, pb.GenerateRequest):
        return _given_tokens(message.token_ids.ids)
    raise InvalidRequestError("input is not set: give text, chat or token_ids")


def _given_tokens(ids: Sequence[int]) -> Int32Array:
    largest = max(ids, default=0)
    if largest > _INT32_MAX:
        raise InvalidRequestError(f"token_ids: token {largest} is outside any vocabulary")
    return np.array(ids, dtype=np.int32)


def _sampling_of(message: pb.SamplingParams) -> SamplingParams:
    return SamplingParams(
        temperature=message.temperature,
        top_k=message.top_k,
        top_p=message.top_p if message.HasField("top_p") else 1.0,
        min_p=message.min_p,
        repetition_penalty=message.repetition_penalty if message.HasField("repetition_penalty") else 1.0,
        seed=message.seed if message.HasField("seed") else secrets.randbits(64),
        logit_bias=dict(message.logit_bias),
    )


def _stop_of(message: pb.StopConditions, room: int, defaults: Defaults) -> StopConditions:
    """Unset lengths mean the default; no length exceeds the room in the context."""
    max_tokens = message.max_tokens if message.HasField("max_tokens") else defaults.max_tokens
    return StopConditions(
        min(max_tokens, max(room, 1)),
        message.min_tokens,
        tuple(message.strings),
        frozenset(message.token_ids),
        message.ignore_eos,
    )


def _drafts_of(message: pb.GenerateRequest, defaults: Defaults) -> DraftChoice:
    options = message.drafts
    learn = options.learn if options.HasField("learn") else defaults.learn
    if not message.HasField("drafts"):
        return DraftChoice(
            defaults.sources, defaults.draft_nodes, defaults.namespace, learn, defaults.lookahead
        )
    unknown = [name for name in options.sources if name not in SOURCES]
    if unknown:
        raise InvalidRequestError(
            f"drafts.sources: {unknown[0]!r} is unknown; there are {', '.join(SOURCES)}"
        )
    if options.namespace and not is_namespace_name(options.namespace):
        raise InvalidRequestError(f"drafts.namespace {options.namespace[:140]!r} is not {NAME_RULE}")
    max_nodes = options.max_nodes if options.HasField("max_nodes") else defaults.draft_nodes
    sources = frozenset(SOURCES[name] for name in options.sources) if max_nodes else frozenset()
    lookahead = _lookahead_of(options.lookahead, defaults.lookahead)
    most = min(max_nodes, defaults.draft_nodes)
    if Source.LOOKAHEAD in sources and lookahead.num_rows > most:
        raise InvalidRequestError(
            f"drafts.lookahead: window {lookahead.width} and ngram {lookahead.ngram_len} take "
            f"{lookahead.num_rows} rows a step; at most {most} are allowed"
        )
    return DraftChoice(
        sources,
        max_nodes,
        options.namespace or defaults.namespace,
        learn,
        lookahead,
        keeps_window=options.HasField("lookahead"),
    )


def _lookahead_of(message: pb.Lookahead, default: LookaheadShape) -> LookaheadShape:
    try:
        return LookaheadShape(
            message.window if message.HasField("window") else default.width,
            message.ngram if message.HasField("ngram") else default.ngram_len,
            message.candidates if message.HasField("candidates") else default.num_candidates,
        )
    except ValueError as error:
        raise InvalidRequestError(f"drafts.lookahead: {error}") from error


def started_message(request: GenerationRequest, echoed: Tokenizer | None = None) -> pb.GenerateResponse:
    """The first event of a stream, with the prompt as ``echoed`` decodes it, if at all."""
    started = pb.Started(
        request_id=request.request_id, num_prompt_tokens=len(request.prompt), seed=request.sampling.seed
    )
    if echoed is not None:
        started.prompt_token_ids[:] = request.prompt.tolist()
        started.prompt_text = echoed.decode(started.prompt_token_ids)
    return pb.GenerateResponse(started=started)


def step_message(event: StepEvent, index: int = 0) -> pb.GenerateResponse:
    """What a step emitted for a continuation."""
    step = pb.Step(
        token_ids=event.tokens,
        text=event.text,
        sources=[_WIRE_SOURCES[source] for source in event.sources],
        num_drafted=event.num_drafted,
        index=index,
        logprobs=[_logprobs(each) for each in event.logprobs],
    )
    return pb.GenerateResponse(step=step)


def _logprobs(emitted: EmittedLogprob) -> pb.Logprobs:
    top = [pb.TokenLogprob(token_id=each.token, logprob=each.logprob) for each in emitted.top]
    return pb.Logprobs(logprob=emitted.logprob, top=top)


def finished_message(request: GenerationRequest, event: FinishedEvent, index: int = 0) -> pb.GenerateResponse:
    """The last event of a continuation."""
    finished = pb.Finished(
        reason=_WIRE_REASONS[event.reason],
        matched_string=event.matched_string,
        matched_token_id=event.matched_token,
        text=event.text,
        usage=pb.Usage(
            num_prompt_tokens=len(request.prompt),
            num_output_tokens=event.num_output,
            num_reused_tokens=event.num_reused,
        ),
        drafts=_draft_stats(event.stats, request.drafts.sources),
        timings=_timings(event),
        warnings=event.warnings,
        index=index,
    )
    return pb.GenerateResponse(finished=finished)


def _draft_stats(stats: DraftStats, sources: frozenset[Source]) -> pb.DraftStats:
    return pb.DraftStats(
        num_steps=stats.num_steps,
        num_drafted=stats.num_drafted,
        num_accepted=stats.num_accepted,
        sources=[
            pb.SourceStats(
                source=SOURCE_NAMES[source],
                num_drafted=stats.drafted_by.get(source, 0),
                num_accepted=stats.accepted_by.get(source, 0),
            )
            for source in sorted(sources)
        ],
        accepted_len_histogram=stats.accepted_len_histogram,
    )


def _timings(event: FinishedEvent) -> pb.Timings:
    moments, waits = event.timings, event.stats.waits_ms
    return pb.Timings(
        queued_ms=(moments.started - moments.arrived) * 1000,
        prefill_ms=(moments.first_token - moments.started) * 1000,
        decode_ms=(moments.finished - moments.first_token) * 1000,
        draft_wait_ms=sum(waits),
        draft_wait_p50_ms=statistics.median(waits) if waits else 0.0,
        draft_wait_max_ms=max(waits, default=0.0),
    )
