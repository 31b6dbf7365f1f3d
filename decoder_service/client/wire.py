"""The client's values to and from the wire's messages."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, cast

from draftwell.decoder.v1 import decoder_pb2 as pb

from decoder_service.client.errors import InvalidRequest
from decoder_service.client.generation import (
    DraftStats,
    FinishReason,
    Generation,
    Logprobs,
    Model,
    ServerInfo,
    SourceStats,
    Step,
    Timings,
    TokenLogprob,
    TokenSource,
    Usage,
)
from decoder_service.client.request import Drafts, Lookahead, Message, Prompt, Sampling, Stop

_SOURCES = {
    pb.TOKEN_SOURCE_MODEL: TokenSource.MODEL,
    pb.TOKEN_SOURCE_OWN: TokenSource.OWN,
    pb.TOKEN_SOURCE_INDEX: TokenSource.INDEX,
    pb.TOKEN_SOURCE_LOOKAHEAD: TokenSource.LOOKAHEAD,
    pb.TOKEN_SOURCE_DRAFT_MODEL: TokenSource.DRAFT_MODEL,
}
_REASONS = {
    pb.FINISH_REASON_STOP_TOKEN: FinishReason.STOP_TOKEN,
    pb.FINISH_REASON_STOP_STRING: FinishReason.STOP_STRING,
    pb.FINISH_REASON_LENGTH: FinishReason.LENGTH,
    pb.FINISH_REASON_ABORTED: FinishReason.ABORTED,
}


def generate_request(
    prompt: Prompt,
    sampling: Sampling | None,
    stop: Stop | None,
    drafts: Drafts | None,
    request_id: str = "",
    **options: int | bool | None,
) -> pb.GenerateRequest:
    """Build the message; raise InvalidRequest for values that the wire cannot carry.

    ``options`` are the fields that are single values: n, echo, logprobs, priority.
    """
    try:
        return pb.GenerateRequest(
            request_id=request_id or uuid.uuid4().hex,
            sampling=None if sampling is None else _sampling(sampling),
            stop=None if stop is None else _stop(stop),
            drafts=None if drafts is None else _drafts(drafts),
            **prompt_field(prompt),
            **cast("dict[str, Any]", options),
        )
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"the request cannot be sent: {error}") from error


def prompt_field(prompt: Prompt) -> dict[str, Any]:
    """The one field of a request's ``input`` that holds ``prompt``."""
    if isinstance(prompt, str):
        return {"text": prompt}
    messages = [part for part in prompt if isinstance(part, Message)]
    if not messages:
        return {"token_ids": pb.TokenIds(ids=_token_ids(prompt))}
    if len(messages) < len(prompt):
        raise InvalidRequest("a prompt is text, messages or token ids, not a mixture")
    turns = [pb.ChatMessage(role=turn.role, content=turn.content) for turn in messages]
    return {"chat": pb.Chat(messages=turns)}


def _token_ids(prompt: Sequence[Message] | Sequence[int]) -> list[int]:
    return [part for part in prompt if not isinstance(part, Message)]


def _sampling(sampling: Sampling) -> pb.SamplingParams:
    return pb.SamplingParams(
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        seed=sampling.seed,
        logit_bias=sampling.logit_bias,
    )


def _stop(stop: Stop) -> pb.StopConditions:
    message = pb.StopConditions(
        max_tokens=stop.max_tokens,
        min_tokens=stop.min_tokens,
        strings=stop.strings,
        token_ids=stop.token_ids,
    )
    if stop.ignore_eos is not None:
        message.ignore_eos = stop.ignore_eos
    return message


def _drafts(drafts: Drafts) -> pb.DraftOptions:
    message = pb.DraftOptions(sources=drafts.sources, max_nodes=drafts.max_nodes, namespace=drafts.namespace)
    if drafts.learn is not None:
        message.learn = drafts.learn
    if drafts.lookahead is not None:
        shape = drafts.lookahead
        message.lookahead.CopyFrom(
            pb.Lookahead(window=shape.window, ngram=shape.ngram, candidates=shape.candidates)
        )
    return message


def step_of(message: pb.Step, elapsed_s: float) -> Step:
    """A step that arrived ``elapsed_s`` seconds after the call."""
    sources = tuple(_SOURCES.get(source, TokenSource.MODEL) for source in message.sources)
    logprobs = tuple(_logprobs(each) for each in message.logprobs)
    return Step(
        tuple(message.token_ids),
        sources,
        message.text,
        message.num_drafted,
        elapsed_s,
        message.index,
        logprobs,
    )


def _logprobs(message: pb.Logprobs) -> Logprobs:
    return Logprobs(message.logprob, tuple(TokenLogprob(each.token_id, each.logprob) for each in message.top))


def generation_of(
    started: pb.Started, steps: Sequence[Step], finished: pb.Finished, num_resumes: int = 0
) -> Generation:
    """Everything that a stream said of one continuation, whose steps these are."""
    return Generation(
        request_id=started.request_id,
        seed=(started.seed + finished.index) % 2**64,
        text="".join(step.text for step in steps),
        token_ids=tuple(token for step in steps for token in step.token_ids),
        finish_reason=_REASONS.get(finished.reason, FinishReason.LENGTH),
        matched_string=finished.matched_string or None,
        matched_token_id=finished.matched_token_id if finished.HasField("matched_token_id") else None,
        usage=Usage(
            finished.usage.num_prompt_tokens,
            finished.usage.num_output_tokens,
            finished.usage.num_reused_tokens,
        ),
        drafts=_draft_stats(finished.drafts),
        timings=_timings(finished.timings),
        steps=tuple(steps),
        warnings=tuple(finished.warnings),
        index=finished.index,
        logprobs=tuple(each for step in steps for each in step.logprobs),
        prompt_token_ids=tuple(started.prompt_token_ids),
        prompt_text=started.prompt_text,
        num_resumes=num_resumes,
    )


def _draft_stats(message: pb.DraftStats) -> DraftStats:
    sources = (SourceStats(entry.source, entry.num_drafted, entry.num_accepted) for entry in message.sources)
    return DraftStats(
        num_steps=message.num_steps,
        num_drafted=message.num_drafted,
        num_accepted=message.num_accepted,
        sources=tuple(sources),
        accepted_len_histogram=tuple(message.accepted_len_histogram),
    )


def _timings(message: pb.Timings) -> Timings:
    return Timings(
        queued_ms=message.queued_ms,
        prefill_ms=message.prefill_ms,
        decode_ms=message.decode_ms,
        draft_wait_ms=message.draft_wait_ms,
        draft_wait_p50_ms=message.draft_wait_p50_ms,
        draft_wait_max_ms=message.draft_wait_max_ms,
    )


def server_info_of(message: pb.GetServerInfoResponse) -> ServerInfo:
    """The server."""
    shape = message.lookahead
    return ServerInfo(
        version=message.version,
        uptime_s=message.uptime_s,
        num_running=message.num_running,
        num_waiting=message.num_waiting,
        max_streams=message.max_streams,
        max_queue=message.max_queue,
        num_cache_positions=message.num_cache_positions,
        num_cache_positions_used=message.num_cache_positions_used,
        sources=tuple(message.sources),
        draft_nodes=message.draft_nodes,
        lookahead=Lookahead(shape.window, shape.ngram, shape.candidates),
        step_costs_ms={cost.rows: cost.milliseconds for cost in message.step_costs},
    )


def model_of(message: pb.GetModelResponse) -> Model:
    """The served model."""
    return Model(
        name=message.name,
        fingerprint=message.fingerprint,
        vocab_size=message.vocab_size,
        context_len=message.context_len,
        dtype=message.dtype,
        device=message.device,
        eos_token_ids=tuple(message.eos_token_ids),
        default_sources=tuple(message.default_sources),
        default_namespace=message.default_namespace,
        exact=message.self_test.exact,
        self_test=message.self_test.detail,
        version=message.version,
    )
