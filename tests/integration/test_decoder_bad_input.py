"""Bad input over the wire: it gets a clear error, and a stream that runs meanwhile does not notice."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from decoder_process import ServiceProcess
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1.decoder_pb2_grpc import DecoderServiceStub
from draftwell.trie.v1 import trie_pb2
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from model_folder import CONTEXT_LEN, VOCAB_SIZE

from decoder_service.client import Client, Drafts, Sampling, Stop

LONG = Stop(max_tokens=300, ignore_eos=True)
SHORT = Stop(max_tokens=24, ignore_eos=True)


@pytest.fixture(scope="module")
def stub(decoder_process: ServiceProcess) -> Iterator[DecoderServiceStub]:
    with grpc.insecure_channel(decoder_process.address) as channel:
        yield DecoderServiceStub(channel)


@pytest.fixture(scope="module")
def long_output(decoder: Client) -> tuple[int, ...]:
    """What plain decoding gives for the prompt of the undisturbed stream."""
    return decoder.generate("be calm", stop=LONG, drafts=Drafts.none()).result().token_ids


@contextmanager
def undisturbed_stream(decoder: Client, expected: tuple[int, ...]) -> Iterator[None]:
    """A stream that runs meanwhile and must come out as ever."""
    stream = decoder.generate("be calm", stop=LONG, drafts=Drafts(sources=("own",), learn=False))
    next(stream)
    yield
    assert stream.result().token_ids == expected


def asking(**fields: object) -> pb.GenerateRequest:
    """A good request but for some fields."""
    stop = pb.StopConditions(max_tokens=4)
    return pb.GenerateRequest(**{"text": "hello", "stop": stop, **fields})  # type: ignore[arg-type]


def ids(*tokens: int) -> pb.TokenIds:
    return pb.TokenIds(ids=tokens)


def wizard() -> pb.Chat:
    return pb.Chat(messages=[pb.ChatMessage(role="wizard", content="abracadabra")])


BAD_REQUESTS = [
    (pb.GenerateRequest(), "input is not set"),
    (pb.GenerateRequest(text=""), "the prompt is empty"),
    (pb.GenerateRequest(token_ids=ids()), "the prompt is empty"),
    (pb.GenerateRequest(token_ids=ids(*[2] * CONTEXT_LEN)), f"the context of {CONTEXT_LEN} leaves no room"),
    (pb.GenerateRequest(token_ids=ids(VOCAB_SIZE)), f"token {VOCAB_SIZE} is outside the vocabulary"),
    (pb.GenerateRequest(token_ids=ids(2**32 - 1)), "token 4294967295 is outside"),
    (pb.GenerateRequest(chat=pb.Chat()), "chat.messages is empty"),
    (pb.GenerateRequest(chat=wizard()), "there is no role wizard"),
    (asking(sampling=pb.SamplingParams(temperature=-0.5)), "sampling.temperature -0.5 is not"),
    (asking(sampling=pb.SamplingParams(temperature=math.nan)), "sampling.temperature nan is not"),
    (asking(sampling=pb.SamplingParams(temperature=math.inf)), "sampling.temperature inf is not"),
    (asking(sampling=pb.SamplingParams(top_k=-3)), "sampling.top_k -3 is not"),
    (asking(sampling=pb.SamplingParams(top_p=1.5)), "sampling.top_p 1.5 is not"),
    (asking(sampling=pb.SamplingParams(min_p=-1)), "sampling.min_p -1 is not"),
    (asking(sampling=pb.SamplingParams(repetition_penalty=0)), "sampling.repetition_penalty 0 is not"),
    (
        asking(sampling=pb.SamplingParams(repetition_penalty=1e-40)),
        "sampling.repetition_penalty 9.99995e-41 is",
    ),
    (asking(sampling=pb.SamplingParams(logit_bias={5: math.nan})), "logit_bias of token 5 is nan"),
    (asking(sampling=pb.SamplingParams(logit_bias={VOCAB_SIZE: 1})), f"logit_bias: token {VOCAB_SIZE} is"),
    (asking(stop=pb.StopConditions(max_tokens=0)), "stop.max_tokens 0 is not at least 1"),
    (asking(stop=pb.StopConditions(min_tokens=9, max_tokens=8)), "stop.min_tokens 9 is above"),
    (asking(stop=pb.StopConditions(strings=[""])), "stop.strings has an empty entry"),
    (asking(stop=pb.StopConditions(strings=["x"] * 17)), "stop.strings has 17 entries, more than 16"),
    (asking(stop=pb.StopConditions(token_ids=[VOCAB_SIZE])), f"stop.token_ids: token {VOCAB_SIZE} is"),
    (asking(drafts=pb.DraftOptions(sources=["oracle"])), "drafts.sources: 'oracle' is unknown"),
    (asking(drafts=pb.DraftOptions(namespace="a/b")), "drafts.namespace 'a/b' is not"),
    (asking(resume=pb.Resume(token_ids=[1] * 5)), "resume.token_ids has 5 tokens, more than max_tokens 4"),
    (asking(resume=pb.Resume(token_ids=[VOCAB_SIZE])), f"resume.token_ids: token {VOCAB_SIZE} is"),
    (asking(n=17), "n 17 is not between 1 and 16"),
    (asking(n=2, resume=pb.Resume(token_ids=[1])), "resume and n 2 exclude each other"),
    (asking(logprobs=21), "logprobs 21 is not between 0 and 20"),
    (asking(priority=-101), "priority -101 is not between -100 and 100"),
]


def test_bad_requests_are_refused_by_field_and_value_and_disturb_nobody(
    decoder: Client, stub: DecoderServiceStub, long_output: tuple[int, ...]
) -> None:
    with undisturbed_stream(decoder, long_output):
        for request, expected in BAD_REQUESTS:
            with pytest.raises(grpc.RpcError) as caught:
                list(stub.Generate(request))
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert expected in caught.value.details()
            assert error_info(caught.value).reason == "InvalidRequestError"


def error_info(error: grpc.RpcError) -> error_details_pb2.ErrorInfo:
    (detail,) = rpc_status.from_call(error).details
    info = error_details_pb2.ErrorInfo()
    assert detail.Unpack(info)
    return info


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1e-45, top_k=5),
        Sampling(temperature=100.0, top_p=1e-7),
        Sampling(temperature=1.0, repetition_penalty=0.01, top_k=3),
        Sampling(temperature=1.0, min_p=1.0, logit_bias=dict.fromkeys(range(VOCAB_SIZE), -100.0)),
    ],
    ids=["tiny temperature", "tiny top_p", "tiny penalty", "everything unlikely"],
)
def test_extreme_but_legal_sampling_disturbs_nobody(
    decoder: Client, long_output: tuple[int, ...], sampling: Sampling
) -> None:
    with undisturbed_stream(decoder, long_output):
        assert len(decoder.generate("hello", sampling=sampling, stop=SHORT).result().token_ids) == 24


def test_a_sampler_that_is_left_without_any_token_disturbs_nobody(
    decoder: Client, long_output: tuple[int, ...]
) -> None:
    """Every token ends the stream, and none may come before the tenth."""
    stop = Stop(max_tokens=20, min_tokens=10, token_ids=tuple(range(VOCAB_SIZE)))
    with undisturbed_stream(decoder, long_output):
        generation = decoder.generate("hello", sampling=Sampling(temperature=1.0), stop=stop).result()
        assert len(generation.token_ids) == 10


def test_tokens_outside_of_the_vocabulary_have_no_text(stub: DecoderServiceStub) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Detokenize(pb.DetokenizeRequest(token_ids=[5, VOCAB_SIZE]))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert f"token_ids: token {VOCAB_SIZE} is outside the vocabulary" in caught.value.details()


def test_a_template_that_refuses_a_role_refuses_to_tokenize(stub: DecoderServiceStub) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Tokenize(pb.TokenizeRequest(chat=wizard()))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "there is no role wizard" in caught.value.details()


def test_a_message_of_10_megabytes_is_refused_and_disturbs_nobody(
    decoder: Client, stub: DecoderServiceStub, long_output: tuple[int, ...]
) -> None:
    with undisturbed_stream(decoder, long_output):
        with pytest.raises(grpc.RpcError) as caught:
            list(stub.Generate(pb.GenerateRequest(text="x" * 10_000_000)))
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "message larger than max" in caught.value.details()


def test_a_text_far_beyond_the_context_is_refused_and_disturbs_nobody(
    decoder: Client, stub: DecoderServiceStub, long_output: tuple[int, ...]
) -> None:
    with undisturbed_stream(decoder, long_output):
        with pytest.raises(grpc.RpcError) as caught:
            list(stub.Generate(pb.GenerateRequest(text="one token after the other " * 20_000)))
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert f"the context of {CONTEXT_LEN} leaves no room" in caught.value.details()


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: draftwell\r\n\r\n",
        bytes(range(256)) * 64,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 4096,
    ],
    ids=["HTTP/1", "noise", "a preface and noise"],
)
def test_garbage_on_the_port_ends_its_own_connection_alone(
    decoder: Client, decoder_process: ServiceProcess, long_output: tuple[int, ...], garbage: bytes
) -> None:
    host, _, port = decoder_process.address.rpartition(":")
    address = (host, int(port))
    with (
        undisturbed_stream(decoder, long_output),
        socket.create_connection(address, timeout=30) as connection,
    ):
        connection.sendall(garbage)
        assert ends(connection)


def ends(connection: socket.socket) -> bool:
    """Read until the peer closes; fails when it does not within the timeout."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_an_unknown_namespace_is_a_warning(decoder: Client) -> None:
    plain = decoder.generate("hello", stop=SHORT, drafts=Drafts.none()).result()
    drafts = Drafts(sources=("index",), namespace="nobody-made-this", learn=False)
    generation = decoder.generate("hello", stop=SHORT, drafts=drafts).result()
    assert generation.token_ids == plain.token_ids
    assert generation.warnings == ("no drafts from the index: namespace 'nobody-made-this' does not exist",)


def test_another_models_namespace_is_a_warning(decoder: Client, trie: TrieServiceStub) -> None:
    reference = trie_pb2.NamespaceRef(name="another-models", fingerprint="f00d")
    trie.CreateNamespace(trie_pb2.CreateNamespaceRequest(namespace=reference, vocab_size=1000))
    plain = decoder.generate("hello", stop=SHORT, drafts=Drafts.none()).result()
    drafts = Drafts(sources=("own", "index"), namespace="another-models")
    generation = decoder.generate("hello", stop=SHORT, drafts=drafts).result()
    assert generation.token_ids == plain.token_ids
    warning = generation.warnings[0]
    assert warning.startswith("no drafts from the index: ")
    for name in ("another-models", "f00d", decoder.model().fingerprint):
        assert name in warning


def test_health_says_serving(decoder_process: ServiceProcess) -> None:
    with grpc.insecure_channel(decoder_process.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "draftwell.decoder.v1.DecoderService"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_reflection_lists_the_services(decoder_process: ServiceProcess) -> None:
    with grpc.insecure_channel(decoder_process.address) as channel:
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        (answer,) = reflection.ServerReflectionInfo(iter([request]))
    assert {service.name for service in answer.list_services_response.service} == {
        "draftwell.decoder.v1.DecoderService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }


def test_the_model_describes_itself(decoder: Client) -> None:
    model = decoder.model()
    assert (model.vocab_size, model.context_len) == (VOCAB_SIZE, CONTEXT_LEN)
    assert model.exact, model.self_test
    assert model.default_namespace == f"default-{model.fingerprint[:12]}"
    assert model.default_sources == ("own", "index")
