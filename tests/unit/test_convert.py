"""Between wire messages and the engine's nouns: defaults, and errors that name field and value."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from draftwell.decoder.v1 import decoder_pb2 as pb
from jinja2 import TemplateError

from decoder_service.convert import (
    Defaults,
    finished_message,
    prompt_of,
    request_of,
    requests_of,
    started_message,
    step_message,
)
from decoder_service.draft import DEFAULT_LOOKAHEAD, LookaheadShape, Source
from decoder_service.errors import InvalidRequestError
from decoder_service.request import (
    DraftStats,
    FinishedEvent,
    FinishReason,
    GenerationRequest,
    ModelLimits,
    StepEvent,
    Timings,
)
from decoder_service.tokens import Tokenizer

LIMITS = ModelLimits(vocab_size=300, context_len=100)
DEFAULTS = Defaults(frozenset({Source.OWN, Source.INDEX}), 24, "fleet", True, 50, DEFAULT_LOOKAHEAD)


class ByteTokenizer:
    """Tokens are bytes; a template that knows two roles."""

    chat_template: str | None = "there is one"

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return [*([256] if add_special_tokens else []), *text.encode()]

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(tokens).decode()

    def apply_chat_template(
        self, turns: list[dict[str, str]], *, add_generation_prompt: bool, tokenize: bool
    ) -> str:
        assert add_generation_prompt
        assert not tokenize
        if any(turn["role"] not in ("user", "assistant") for turn in turns):
            raise TemplateError("roles are user and assistant")
        return "".join(f"{turn['role'][0]}:{turn['content']};" for turn in turns) + "a:"


TOKENIZER = Tokenizer(ByteTokenizer())


def converted(message: pb.GenerateRequest) -> GenerationRequest:
    return request_of(message, TOKENIZER, LIMITS, DEFAULTS)


def asking(**fields: object) -> pb.GenerateRequest:
    """A good request but for some fields."""
    return pb.GenerateRequest(**{"text": "hello", **fields})  # type: ignore[arg-type]


def chat(*turns: tuple[str, str]) -> pb.Chat:
    return pb.Chat(messages=[pb.ChatMessage(role=role, content=content) for role, content in turns])


def test_a_request_that_says_nothing_gets_the_defaults() -> None:
    request = converted(asking())
    assert request.prompt.tolist() == [256, *b"hello"]
    assert request.prompt.dtype == np.int32
    assert (request.sampling.temperature, request.sampling.top_p) == (0.0, 1.0)
    assert request.sampling.repetition_penalty == 1.0
    assert request.stop.max_tokens == 50
    assert (request.drafts.sources, request.drafts.max_nodes) == (DEFAULTS.sources, 24)
    assert (request.drafts.namespace, request.drafts.learn) == ("fleet", True)
    assert request.request_id


def test_two_requests_without_seed_get_different_ones() -> None:
    assert converted(asking()).sampling.seed != converted(asking()).sampling.seed


def test_each_continuation_has_the_next_seed_and_the_last_seed_is_followed_by_zero() -> None:
    message = asking(n=3, sampling=pb.SamplingParams(seed=2**64 - 2))
    seeds = [each.sampling.seed for each in requests_of(message, TOKENIZER, LIMITS, DEFAULTS)]
    assert seeds == [2**64 - 2, 2**64 - 1, 0]
    drawn = [each.sampling.seed for each in requests_of(asking(n=2), TOKENIZER, LIMITS, DEFAULTS)]
    assert drawn[1] == (drawn[0] + 1) % 2**64
    assert len(requests_of(asking(), TOKENIZER, LIMITS, DEFAULTS)) == 1


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (asking(n=0), "n 0 is not between 1 and 16"),
        (asking(n=17), "n 17 is not between 1 and 16"),
        (asking(n=2, resume=pb.Resume(token_ids=[1])), "resume and n 2 exclude each other"),
        (asking(logprobs=21), "logprobs 21 is not between 0 and 20"),
        (asking(priority=101), "priority 101 is not between -100 and 100"),
        (asking(priority=-101), "priority -101 is not between -100 and 100"),
    ],
)
def test_continuations_logprobs_and_priorities_out_of_range_are_refused(
    message: pb.GenerateRequest, expected: str
) -> None:
    with pytest.raises(InvalidRequestError, match=expected):
        requests_of(message, TOKENIZER, LIMITS, DEFAULTS)


def test_logprobs_unset_are_none_and_zero_is_the_tokens_own_alone() -> None:
    assert [converted(asking(**fields)).logprobs for fields in ({}, {"logprobs": 0})] == [None, 0]


def test_the_prompt_is_in_the_first_message_where_echo_is_asked_for() -> None:
    request = converted(asking(token_ids=pb.TokenIds(ids=b"hello")))
    started = started_message(request, TOKENIZER).started
    assert (list(started.prompt_token_ids), started.prompt_text) == ([*b"hello"], "hello")
    assert not started_message(request).started.prompt_token_ids


def test_a_seed_of_zero_is_a_seed() -> None:
    assert converted(asking(sampling=pb.SamplingParams(seed=0))).sampling.seed == 0


def test_drafts_without_sources_mean_plain_decoding() -> None:
    choice = converted(asking(drafts=pb.DraftOptions())).drafts
    assert (choice.sources, choice.namespace, choice.learn) == (frozenset(), "fleet", True)


def test_what_a_request_says_of_drafts_is_taken() -> None:
    options = pb.DraftOptions(sources=["index"], max_nodes=5, namespace="mine", learn=False)
    choice = converted(asking(drafts=options)).drafts
    assert (choice.sources, choice.max_nodes) == (frozenset({Source.INDEX}), 5)
    assert (choice.namespace, choice.learn) == ("mine", False)


def test_a_shape_of_lookahead_keeps_the_defaults_that_it_does_not_name() -> None:
    options = pb.DraftOptions(sources=["lookahead"], lookahead=pb.Lookahead(ngram=2, candidates=0))
    choice = converted(asking(drafts=options)).drafts
    assert choice.sources == {Source.LOOKAHEAD}
    assert choice.lookahead == LookaheadShape(DEFAULT_LOOKAHEAD.width, 2, 0)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"lookahead": pb.Lookahead(window=0)}, "window 0"),
        ({"lookahead": pb.Lookahead(ngram=1)}, "ngram 1"),
        ({"lookahead": pb.Lookahead(window=15, ngram=5)}, "59 rows a step; at most 24"),
        ({"max_nodes": 4}, "9 rows a step; at most 4"),
    ],
)
def test_a_window_that_cannot_be_is_refused_by_name(fields: dict[str, object], named: str) -> None:
    options = pb.DraftOptions(sources=["lookahead"], **fields)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match=f"drafts.lookahead: .*{named}"):
        converted(asking(drafts=options))


def test_no_length_exceeds_the_room_in_the_context() -> None:
    assert converted(asking(stop=pb.StopConditions(max_tokens=1000))).stop.max_tokens == 100 - 6


def test_a_conversation_is_rendered_with_the_template() -> None:
    message = pb.GenerateRequest(chat=chat(("user", "hi"), ("assistant", "ho")))
    assert bytes(prompt_of(message, TOKENIZER).tolist()) == b"u:hi;a:ho;a:"


def test_token_ids_are_taken_as_they_are() -> None:
    message = pb.GenerateRequest(token_ids=pb.TokenIds(ids=[5, 299, 0]))
    assert prompt_of(message, TOKENIZER).tolist() == [5, 299, 0]


SAMPLING_FIELDS = ("temperature", "top_p", "min_p", "repetition_penalty")


@pytest.mark.parametrize("field", SAMPLING_FIELDS)
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, -math.inf, 1e30])
def test_absurd_sampling_values_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InvalidRequestError, match=rf"sampling\.{field} .* is not"):
        converted(asking(sampling=pb.SamplingParams(**{field: value})))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (pb.GenerateRequest(), "input is not set: give text, chat or token_ids"),
        (pb.GenerateRequest(token_ids=pb.TokenIds()), "the prompt is empty"),
        (pb.GenerateRequest(token_ids=pb.TokenIds(ids=[300])), "token 300 is outside the vocabulary of 300"),
        (pb.GenerateRequest(token_ids=pb.TokenIds(ids=[1, 2**32 - 1])), "token 4294967295 is outside"),
        (asking(resume=pb.Resume(token_ids=[2**32 - 1])), "resume.token_ids: token 4294967295 is outside"),
        (asking(text="x" * 99), "the prompt has 100 tokens; the context of 100 leaves no room"),
        (pb.GenerateRequest(chat=pb.Chat()), "chat.messages is empty"),
        (pb.GenerateRequest(chat=chat(("", "hi"))), "chat.messages: a role is empty"),
        (pb.GenerateRequest(chat=chat(("wizard", "hi"))), "template refuses them: roles are user and"),
        (asking(sampling=pb.SamplingParams(top_k=-1)), "sampling.top_k -1 is not between 0 and 300"),
        (asking(sampling=pb.SamplingParams(top_k=301)), "sampling.top_k 301 is not"),
        (asking(sampling=pb.SamplingParams(top_p=0)), "sampling.top_p 0 is not above 0"),
        (asking(sampling=pb.SamplingParams(repetition_penalty=0)), "sampling.repetition_penalty 0 is not"),
        (asking(sampling=pb.SamplingParams(logit_bias={1: math.nan})), "bias of token 1 is nan"),
        (asking(sampling=pb.SamplingParams(logit_bias={1: 101})), "bias of token 1 is 101, not between"),
        (asking(sampling=pb.SamplingParams(logit_bias={300: 1})), "sampling.logit_bias: token 300 is"),
        (asking(stop=pb.StopConditions(max_tokens=0)), "stop.max_tokens 0 is not at least 1"),
        (asking(stop=pb.StopConditions(min_tokens=9, max_tokens=8)), "stop.min_tokens 9 is above"),
        (asking(stop=pb.StopConditions(strings=["a", ""])), "stop.strings has an empty entry"),
        (asking(stop=pb.StopConditions(strings=["a"] * 17)), "stop.strings has 17 entries, more than 16"),
        (asking(stop=pb.StopConditions(token_ids=[300])), "stop.token_ids: token 300 is outside"),
        (asking(drafts=pb.DraftOptions(sources=["own", "oracle"])), "drafts.sources: 'oracle' is unknown"),
        (asking(drafts=pb.DraftOptions(namespace="a b")), "drafts.namespace 'a b' is not 1 to 128 letters"),
        (asking(drafts=pb.DraftOptions(namespace="x" * 129)), "drafts.namespace 'xxx"),
        (asking(resume=pb.Resume(token_ids=[1] * 51)), "resume.token_ids has 51 tokens, more than max_tok"),
    ],
)
def test_a_bad_request_is_refused_by_field_and_value(message: pb.GenerateRequest, expected: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        converted(message)
    assert expected in str(caught.value)


def test_a_model_without_template_takes_no_conversation() -> None:
    bare = ByteTokenizer()
    bare.chat_template = None
    with pytest.raises(InvalidRequestError, match="no chat template; give text or token_ids"):
        prompt_of(pb.GenerateRequest(chat=chat(("user", "hi"))), Tokenizer(bare))


def test_the_first_event_tells_what_is_needed_to_repeat_the_request() -> None:
    request = converted(asking(request_id="abc", sampling=pb.SamplingParams(seed=7)))
    started = started_message(request).started
    assert (started.request_id, started.num_prompt_tokens, started.seed) == ("abc", 6, 7)


def test_a_step_names_the_source_of_each_token() -> None:
    event = StepEvent([7, 8, 9], [Source.OWN, Source.INDEX, Source.MODEL], "xyz", 4)
    step = step_message(event).step
    assert list(step.token_ids) == [7, 8, 9]
    assert list(step.sources) == [pb.TOKEN_SOURCE_OWN, pb.TOKEN_SOURCE_INDEX, pb.TOKEN_SOURCE_MODEL]
    assert (step.text, step.num_drafted) == ("xyz", 4)


@pytest.mark.parametrize("reason", FinishReason)
def test_every_reason_has_its_name_on_the_wire(reason: FinishReason) -> None:
    finished = finished_message(converted(asking()), finished_event(reason)).finished
    assert pb.FinishReason.Name(finished.reason) == f"FINISH_REASON_{reason.name}"


def test_the_last_event_has_statistics_and_times_in_milliseconds() -> None:
    finished = finished_message(converted(asking()), finished_event(FinishReason.STOP_TOKEN)).finished
    assert finished.matched_token_id == 0
    assert finished.HasField("matched_token_id")
    assert (finished.usage.num_prompt_tokens, finished.usage.num_output_tokens) == (6, 12)
    by_source = {entry.source: (entry.num_drafted, entry.num_accepted) for entry in finished.drafts.sources}
    assert by_source == {"own": (9, 4), "index": (0, 0)}
    assert list(finished.drafts.accepted_len_histogram) == [3, 2]
    times = finished.timings
    assert (times.queued_ms, times.prefill_ms, times.decode_ms) == (1000.0, 2000.0, 4000.0)
    assert (times.draft_wait_ms, times.draft_wait_p50_ms, times.draft_wait_max_ms) == (12.0, 2.0, 9.0)
    assert list(finished.warnings) == ["beware"]


def test_a_request_without_steps_has_waited_for_nothing() -> None:
    event = FinishedEvent(FinishReason.LENGTH, "", None, "", 0, DraftStats(), Timings(), [])
    finished = finished_message(converted(asking()), event).finished
    assert finished.timings.draft_wait_p50_ms == 0.0
    assert not finished.HasField("matched_token_id")


def finished_event(reason: FinishReason) -> FinishedEvent:
    stats = DraftStats(
        num_steps=5,
        num_drafted=9,
        num_accepted=4,
        drafted_by={Source.OWN: 9},
        accepted_by={Source.OWN: 4},
        accepted_len_histogram=[3, 2],
        waits_ms=[1.0, 2.0, 9.0],
    )
    return FinishedEvent(reason, "", 0, "", 12, stats, Timings(10.0, 11.0, 13.0, 17.0), ["beware"])


def test_no_draft_nodes_means_no_sources() -> None:
    choice = converted(asking(drafts=pb.DraftOptions(sources=["own", "index"], max_nodes=0))).drafts
    assert choice.sources == frozenset()
