from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from fake_pair import END_TOKEN, FakePair, closed_port, fake_pair
from grpc_health.v1 import health_pb2

from decoder_service.client import (
    Cancelled,
    Client,
    ClientError,
    DeadlineExceeded,
    Drafts,
    FinishReason,
    InvalidRequest,
    Logprobs,
    Message,
    Sampling,
    Stop,
    TokenLogprob,
    TokenSource,
    Unreachable,
    chat,
)

ANSWER = "hello né 🙂."


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair() as running:
        yield running


@pytest.fixture
def client(pair: FakePair) -> Iterator[Client]:
    with Client(pair.address) as connected:
        yield connected


def test_the_texts_of_the_steps_joined_are_the_whole_text(client: Client) -> None:
    stream = client.generate("hello")
    assert "".join(step.text for step in stream) == ANSWER
    assert stream.result().text == ANSWER


def test_text_held_back_to_the_end_arrives_in_a_last_step_without_tokens(
    pair: FakePair, client: Client
) -> None:
    pair.decoder.hold_back = 2
    steps = list(client.generate("hello"))
    assert steps[-1].token_ids == ()
    assert "".join(step.text for step in steps) == ANSWER


def test_a_result_has_tokens_reason_usage_drafts_and_timings(client: Client) -> None:
    generation = client.generate(
        "hello", sampling=Sampling(seed=5), drafts=Drafts(("own",)), stop=Stop(strings=("x",))
    ).result()
    assert generation.token_ids == (*ANSWER.encode(), END_TOKEN)
    assert (generation.finish_reason, generation.matched_token_id) == (FinishReason.STOP_TOKEN, 256)
    assert generation.matched_string is None
    assert generation.usage.num_output_tokens == len(generation.token_ids)
    assert generation.seed == 5
    assert generation.drafts.sources[0].num_accepted == 20
    assert generation.steps[0].sources == (
        TokenSource.OWN,
        TokenSource.OWN,
        TokenSource.INDEX,
        TokenSource.MODEL,
    )
    assert generation.tokens_per_step == pytest.approx(16 / 4)
    assert generation.timings.draft_wait_p50_ms == 0.25
    assert generation.tokens_per_second is not None
    assert generation.tokens_per_second > 0


def test_a_generation_of_one_step_has_no_rate(client: Client) -> None:
    generation = client.generate("hello", stop=Stop(max_tokens=1)).result()
    assert generation.finish_reason is FinishReason.LENGTH
    assert generation.tokens_per_second is None


def test_continuations_come_with_their_index_and_have_a_result_each(client: Client) -> None:
    stream = client.generate("hello", sampling=Sampling(seed=2**64 - 1), n=2)
    assert {step.index for step in stream} == {0, 1}
    results = stream.results()
    assert [(each.index, each.seed, each.text) for each in results] == [
        (0, 2**64 - 1, ANSWER),
        (1, 0, ANSWER),
    ]
    assert stream.result() == results[0]


def test_log_probabilities_and_the_echoed_prompt_are_in_the_result(client: Client) -> None:
    generation = client.generate("hello", logprobs=2, echo=True).result()
    assert len(generation.logprobs) == len(generation.token_ids)
    assert generation.logprobs[0] == Logprobs(-1.0, (TokenLogprob(7, -0.5),) * 2)
    assert (generation.prompt_token_ids, generation.prompt_text) == (tuple(b"prompt:"), "prompt:")
    assert client.generate("hello").result().logprobs == ()


def test_a_request_has_a_name_before_it_is_answered(pair: FakePair, client: Client) -> None:
    first = client.generate("hello")
    first.result()
    client.generate("hello", request_id="mine", priority=-3).result()
    assert [request.request_id for request in pair.decoder.requests] == [first.request_id, "mine"]
    assert first.request_id
    assert [request.priority for request in pair.decoder.requests] == [0, -3]


@pytest.mark.parametrize(
    ("prompt", "field"),
    [("hello", "text"), (chat("hello", system="Be kind."), "chat"), ([104, 105], "token_ids")],
)
def test_a_prompt_is_text_a_conversation_or_token_ids(
    pair: FakePair, client: Client, prompt: str | list[int] | tuple[Message, ...], field: str
) -> None:
    client.generate(prompt).result()
    assert pair.decoder.requests[0].WhichOneof("input") == field


def test_values_that_are_not_given_stay_unset_on_the_wire(pair: FakePair, client: Client) -> None:
    client.generate("hello").result()
    client.generate("hello", sampling=Sampling(temperature=0.0), stop=Stop(), drafts=Drafts.none()).result()
    bare, given = pair.decoder.requests
    assert not any(bare.HasField(field) for field in ("sampling", "stop", "drafts"))
    assert given.sampling.HasField("temperature")
    assert not given.sampling.HasField("top_k")
    assert not given.stop.HasField("ignore_eos")
    assert given.HasField("drafts")
    assert list(given.drafts.sources) == []
    assert given.drafts.HasField("learn")
    assert not given.drafts.learn


def test_every_option_reaches_the_server(pair: FakePair, client: Client) -> None:
    client.generate(
        "hello",
        sampling=Sampling(0.5, 40, 0.9, 0.1, 1.2, 7, {3: -1.5}),
        stop=Stop(12, 2, ("END",), (9,), True),
        drafts=Drafts(("own", "index"), 16, "tenant", True),
    ).result()
    request = pair.decoder.requests[0]
    sampling, stop, drafts = request.sampling, request.stop, request.drafts
    assert (sampling.top_k, sampling.seed, dict(sampling.logit_bias)) == (40, 7, {3: -1.5})
    assert sampling.repetition_penalty == pytest.approx(1.2)
    assert (stop.max_tokens, stop.min_tokens, stop.ignore_eos) == (12, 2, True)
    assert (list(stop.strings), list(stop.token_ids)) == (["END"], [9])
    assert (list(drafts.sources), drafts.max_nodes) == (["own", "index"], 16)
    assert (drafts.namespace, drafts.learn) == ("tenant", True)


def test_the_servers_message_of_a_bad_request_reaches_the_caller(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="the prompt is empty"):
        client.generate("").result()


@pytest.mark.parametrize("prompt", [[-1], [2**40], ["text"], [Message("user", "a"), 3]])
def test_a_prompt_that_the_wire_cannot_carry_is_refused_here(client: Client, prompt: list) -> None:
    with pytest.raises(InvalidRequest):
        client.generate(prompt)


def test_an_unreachable_service_is_named_by_its_address() -> None:
    address = closed_port()
    with Client(address) as client, pytest.raises(Unreachable, match=address):
        client.generate("hello").result()


def test_a_deadline_ends_a_generation_that_hangs(pair: FakePair, client: Client) -> None:
    pair.decoder.hang = threading.Event()
    with pytest.raises(DeadlineExceeded, match=f"{pair.address} did not answer in full"):
        client.generate("hello", timeout=0.2).result()


def test_cancelling_reaches_the_server(pair: FakePair, client: Client) -> None:
    pair.decoder.hang = threading.Event()
    stream = client.generate("hello")
    stream.cancel()
    with pytest.raises(Cancelled):
        stream.result()
    assert issubclass(Cancelled, ClientError)


def test_dropping_a_stream_half_read_reaches_the_server(pair: FakePair, client: Client) -> None:
    stream = client.generate("hello" * 50_000)
    next(stream)
    del stream
    assert pair.decoder.cancelled.wait(10)


def test_readiness_waits_for_the_health_service(pair: FakePair, client: Client) -> None:
    pair.health.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
    with pytest.raises(DeadlineExceeded, match=pair.address):
        client.wait_until_ready(timeout=0.3)
    pair.health.set("", health_pb2.HealthCheckResponse.SERVING)
    client.wait_until_ready(timeout=10)


def test_readiness_of_a_service_that_is_not_there_times_out() -> None:
    with Client(closed_port()) as client, pytest.raises(DeadlineExceeded, match="was ready"):
        client.wait_until_ready(timeout=0.3)


def test_the_model_and_its_tokenizer_can_be_asked(client: Client) -> None:
    model = client.model()
    assert (model.name, model.vocab_size, model.eos_token_ids, model.exact) == (
        "bytes",
        257,
        (256,),
        True,
    )
    assert client.tokenize("né") == (110, 195, 169)
    assert client.detokenize([110, 195, 169]) == "né"
    assert client.pieces([110, 195, 169]) == ("n", "\ufffd", "\ufffd")


@pytest.mark.parametrize("module", ["decoder_service.client", "decoder_service.commands.app"])
def test_importing_the_client_or_the_command_loads_no_torch_and_no_numpy(module: str) -> None:
    heavy = "{'torch', 'numpy', 'transformers', 'redis', 'trie_service'}"
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"


def test_importing_the_client_needs_no_terminal_library() -> None:
    code = "import sys, decoder_service.client; print({'rich', 'typer'} & set(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "set()"
