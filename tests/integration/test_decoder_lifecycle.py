"""How a decoder starts, stops and refuses to start."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from decoder_process import ServiceProcess, ended_after, start_decoder
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1.decoder_pb2_grpc import DecoderServiceStub
from grpc_health.v1 import health_pb2, health_pb2_grpc
from polling import poll
from stepped_trie import SteppedTrie, stepped_trie

from decoder_service.client import Client, Drafts, Stop, Unreachable, chat

STOP = Stop(max_tokens=32, ignore_eos=True)
CONTEXT_FULL = 4000


@pytest.fixture
def index() -> Iterator[SteppedTrie]:
    with stepped_trie() as servicer:
        yield servicer


def serves(channel: grpc.Channel) -> bool:
    answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def test_sigterm_lets_an_open_stream_finish_and_refuses_others(
    model_folder: Path, index: SteppedTrie, decoder: Client
) -> None:
    process = start_decoder(model_folder, trie=index.address, draft_deadline_ms=10_000, stop_grace_s=60)
    with (
        ended_after(process),
        Client(process.address) as client,
        grpc.insecure_channel(process.address) as channel,
    ):
        drafts = Drafts(sources=("index",), learn=False)
        poll(lambda: client.generate("x", stop=STOP, drafts=drafts).result().warnings == ())
        assert serves(channel)
        index.hold()
        stream = client.generate("the model reads", stop=STOP, drafts=drafts)
        index.next_asked()
        index.allow()
        next(stream)
        process.send(signal.SIGTERM)
        poll(lambda: not serves(channel))
        poll(lambda: is_refused(client))
        index.go_on()
        plain = decoder.generate("the model reads", stop=STOP, drafts=Drafts.none()).result()
        assert stream.result().token_ids == plain.token_ids
        assert process.wait() == 0
    assert "Traceback" not in process.said


def is_refused(client: Client) -> bool:
    stream = client.generate("y", stop=STOP, drafts=Drafts.none())
    try:
        stream.result()
    except Unreachable as error:
        return "the decoder is stopping" in str(error)
    return False


def test_a_stream_that_the_grace_cuts_off_resumes_at_another_replica(
    model_folder: Path, decoder_process: ServiceProcess
) -> None:
    request = pb.GenerateRequest(
        text="a draft is",
        sampling=pb.SamplingParams(temperature=0.7),
        stop=pb.StopConditions(max_tokens=CONTEXT_FULL, ignore_eos=True),
    )
    process = start_decoder(model_folder, stop_grace_s=0)
    with ended_after(process), grpc.insecure_channel(process.address) as channel:
        responses = iter(DecoderServiceStub(channel).Generate(request))
        request.sampling.seed = next(responses).started.seed
        received = list(next(responses).step.token_ids)
        process.send(signal.SIGTERM)
        with pytest.raises(grpc.RpcError) as caught:
            read_on(responses, received)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "resume at another replica" in caught.value.details()
        assert process.wait() == 0
    with grpc.insecure_channel(decoder_process.address) as channel:
        other = DecoderServiceStub(channel)
        request.stop.max_tokens = len(received) + 40
        plain = tokens_of(other, request)
        request.resume.token_ids[:] = received
        assert received + tokens_of(other, request) == plain


def read_on(responses: Iterator[pb.GenerateResponse], received: list[int]) -> None:
    """Add the tokens that arrive, until the stream ends or breaks."""
    for response in responses:
        received += response.step.token_ids


def tokens_of(stub: DecoderServiceStub, request: pb.GenerateRequest) -> list[int]:
    return [token for response in stub.Generate(request) for token in response.step.token_ids]


def test_a_second_decoder_on_the_port_says_so_and_the_first_goes_on(
    model_folder: Path, decoder_process: ServiceProcess, decoder: Client
) -> None:
    second = start_decoder(model_folder, listen=decoder_process.address)
    assert second.wait() == 2
    assert f"--listen (DRAFTWELL_DECODER_LISTEN): cannot bind {decoder_process.address}" in second.said
    assert "Traceback" not in second.said
    assert decoder.model().name


@pytest.mark.model
def test_the_embedded_model_answers_a_question_alike_with_drafts_and_without() -> None:
    process = start_decoder(None)
    question = chat("Repeat this exactly: naïve café, 東京, 😀. Then repeat it again.")
    stop = Stop(max_tokens=40)
    with ended_after(process), Client(process.address) as client:
        plain = client.generate(question, stop=stop, drafts=Drafts.none()).result()
        drafted = client.generate(question, stop=stop, drafts=Drafts(sources=("own",))).result()
        spoken = [token for token in plain.token_ids if token not in client.model().eos_token_ids]
        assert client.detokenize(spoken).rstrip("\ufffd") == plain.text
    assert drafted.token_ids == plain.token_ids
    assert drafted.text == plain.text
    assert drafted.drafts.num_accepted > 0
