"""A decoder and a trie service for tests of their clients: real gRPC, no model, bytes as tokens."""

from __future__ import annotations

import codecs
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1 import decoder_pb2_grpc
from draftwell.trie.v1 import trie_pb2, trie_pb2_grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_status import rpc_status

END_TOKEN = 256
RETRY_S = 0.05
_SOURCES = (
    pb.TOKEN_SOURCE_OWN,
    pb.TOKEN_SOURCE_OWN,
    pb.TOKEN_SOURCE_INDEX,
    pb.TOKEN_SOURCE_MODEL,
)


def _status(code: int, message: str, *details: Message) -> status_pb2.Status:
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return status


_INFO = error_details_pb2.ErrorInfo(reason="a reason", domain="decoder.draftwell")
_HINT = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=int(RETRY_S * 1e9)))
FULL = _status(code_pb2.RESOURCE_EXHAUSTED, "the queue is full", _INFO, _HINT)
FAILED = _status(code_pb2.INTERNAL, "a step failed", _INFO)


@dataclass
class FakeDecoder(decoder_pb2_grpc.DecoderServiceServicer):
    """Answers every prompt with itself and some characters of several bytes.

    Drafted generations emit four tokens a step, plain ones one.
    """

    index: FakeIndex
    wrong_when_drafted: bool = False
    hold_back: int = 0  # bytes of text that only Finished brings
    break_after: int | None = None  # steps
    sources: tuple[str, ...] = ("own", "index", "lookahead")
    break_in: int = 0  # of several continuations
    num_breaks: int = 1  # calls that break after break_after
    refuses_resumes: bool = False  # as if it were stopping
    step_len: int = 1  # tokens a step of plain generations
    num_abortable: int = 0
    break_code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE
    fails: bool = False  # with an error of its own, in place of a break
    num_refusals: int = 0  # because it is full, with a hint to come back after RETRY_S
    requests: list[pb.GenerateRequest] = field(default_factory=list)
    hang: threading.Event | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    def Generate(
        self, request: pb.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.GenerateResponse]:
        self.requests.append(request)
        context.add_callback(self.cancelled.set)
        if self.num_refusals > 0:
            self.num_refusals -= 1
            context.abort_with_status(rpc_status.to_status(FULL))
        if self.refuses_resumes and request.HasField("resume"):
            context.abort(grpc.StatusCode.UNAVAILABLE, "stopping")
        tokens, reason = self._answer(request, context)
        started = pb.Started(request_id="r1", num_prompt_tokens=7, seed=request.sampling.seed or 99)
        if request.echo:
            started.prompt_token_ids[:], started.prompt_text = b"prompt:", "prompt:"
        yield pb.GenerateResponse(started=started)
        for index in range(request.n or 1):
            yield from self._steps(request, tokens, index, context)
            if request.drafts.learn:
                self.index.learn(request.drafts.namespace, len(tokens))
            finished = self._finished(request, tokens, reason)
            finished.index = index
            yield pb.GenerateResponse(finished=finished)

    def _answer(
        self, request: pb.GenerateRequest, context: grpc.ServicerContext
    ) -> tuple[list[int], pb.FinishReason.ValueType]:
        prompt = request.text or bytes(request.token_ids.ids).decode()
        if request.WhichOneof("input") == "chat":
            prompt = request.chat.messages[-1].content
        if not prompt:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the prompt is empty")
        tokens = [*f"{prompt} né 🙂.".encode(), END_TOKEN]
        if self.wrong_when_drafted and request.drafts.sources:
            tokens[2] += 1
        limit = request.stop.max_tokens if request.HasField("stop") else 0
        if limit and limit < len(tokens):
            return tokens[:limit], pb.FINISH_REASON_LENGTH
        return tokens, pb.FINISH_REASON_STOP_TOKEN

    def _steps(
        self, request: pb.GenerateRequest, tokens: list[int], index: int, context: grpc.ServicerContext
    ) -> Iterator[pb.GenerateResponse]:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        resumed = request.resume.token_ids
        decode(bytes(i for i in resumed if i < END_TOKEN))
        size = len(_SOURCES) if request.drafts.sources else self.step_len
        shown = len(tokens) - self.hold_back
        for number, at in enumerate(range(len(resumed), len(tokens), size)):
            if number == self.break_after and index == self.break_in and self.num_breaks > 0:
                self.num_breaks -= 1
                if self.fails:
                    context.abort_with_status(rpc_status.to_status(FAILED))
                context.abort(self.break_code, "shutting down")
            if self.hang is not None:
                self.hang.wait()
            ids = tokens[at : at + size]
            text = decode(bytes(i for i in tokens[at : min(at + size, shown)] if i < END_TOKEN))
            sources = _SOURCES[: len(ids)] if request.drafts.sources else [pb.TOKEN_SOURCE_MODEL] * len(ids)
            step = pb.Step(token_ids=ids, text=text, sources=sources, num_drafted=2 * (size - 1), index=index)
            if request.HasField("logprobs"):
                top = [pb.TokenLogprob(token_id=7, logprob=-0.5)] * request.logprobs
                step.logprobs.extend(pb.Logprobs(logprob=-1.0, top=top) for _ in ids)
            yield pb.GenerateResponse(step=step)

    def _finished(
        self, request: pb.GenerateRequest, tokens: list[int], reason: pb.FinishReason.ValueType
    ) -> pb.Finished:
        size = len(_SOURCES) if request.drafts.sources else 1
        held = tokens[len(tokens) - self.hold_back :] if self.hold_back else []
        return pb.Finished(
            reason=reason,
            matched_token_id=END_TOKEN if reason == pb.FINISH_REASON_STOP_TOKEN else None,
            text=bytes(i for i in held if i < END_TOKEN).decode(),
            usage=pb.Usage(num_prompt_tokens=7, num_output_tokens=len(tokens)),
            drafts=pb.DraftStats(
                num_steps=-(-len(tokens) // size),
                num_drafted=30,
                num_accepted=20,
                sources=[pb.SourceStats(source="own", num_drafted=30, num_accepted=20)],
            ),
            timings=pb.Timings(decode_ms=5.0, draft_wait_p50_ms=0.25),
            warnings=["the index was out of reach"] if self.hold_back else [],
        )

    def Abort(self, request: pb.AbortRequest, context: grpc.ServicerContext) -> pb.AbortResponse:
        return pb.AbortResponse(num_aborted=self.num_abortable)

    def GetModel(self, request: pb.GetModelRequest, context: grpc.ServicerContext) -> pb.GetModelResponse:
        return pb.GetModelResponse(
            name="bytes",
            fingerprint="f",
            vocab_size=257,
            context_len=1000,
            dtype="float32",
            device="cpu",
            eos_token_ids=[END_TOKEN],
            self_test=pb.SelfTest(exact=True, detail="nothing to test"),
            version="0",
        )

    def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: grpc.ServicerContext
    ) -> pb.GetServerInfoResponse:
        return pb.GetServerInfoResponse(sources=self.sources)

    def Tokenize(self, request: pb.TokenizeRequest, context: grpc.ServicerContext) -> pb.TokenizeResponse:
        text = request.text or "".join(turn.content for turn in request.chat.messages)
        return pb.TokenizeResponse(token_ids=text.encode())

    def Detokenize(
        self, request: pb.DetokenizeRequest, context: grpc.ServicerContext
    ) -> pb.DetokenizeResponse:
        ids = [i for i in request.token_ids if i < END_TOKEN]
        pieces = [piece(i) for i in request.token_ids] if request.pieces else []
        return pb.DetokenizeResponse(text=bytes(ids).decode(errors="replace"), pieces=pieces)


def piece(token: int) -> str:
    """The text of one token alone."""
    return "<end>" if token == END_TOKEN else bytes([token]).decode(errors="replace")


@dataclass
class FakeIndex(trie_pb2_grpc.TrieServiceServicer):
    """Counts what it is taught."""

    namespaces: dict[str, trie_pb2.NamespaceStats] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)

    def learn(self, namespace: str, num_tokens: int) -> None:
        stats = self.namespaces.setdefault(namespace, trie_pb2.NamespaceStats())
        stats.num_sequences += 1
        stats.num_tokens += num_tokens

    def CreateNamespace(
        self, request: trie_pb2.CreateNamespaceRequest, context: grpc.ServicerContext
    ) -> trie_pb2.CreateNamespaceResponse:
        self.namespaces[request.namespace.name] = trie_pb2.NamespaceStats()
        return trie_pb2.CreateNamespaceResponse()

    def GetNamespace(
        self, request: trie_pb2.GetNamespaceRequest, context: grpc.ServicerContext
    ) -> trie_pb2.GetNamespaceResponse:
        if request.name not in self.namespaces:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no namespace {request.name!r}")
        namespace = trie_pb2.Namespace(name=request.name, stats=self.namespaces[request.name])
        return trie_pb2.GetNamespaceResponse(namespace=namespace)

    def DeleteNamespace(
        self, request: trie_pb2.DeleteNamespaceRequest, context: grpc.ServicerContext
    ) -> trie_pb2.DeleteNamespaceResponse:
        self.deleted.append(request.name)
        del self.namespaces[request.name]
        return trie_pb2.DeleteNamespaceResponse()

    def GetServerInfo(
        self, request: trie_pb2.GetServerInfoRequest, context: grpc.ServicerContext
    ) -> trie_pb2.GetServerInfoResponse:
        return trie_pb2.GetServerInfoResponse(store="a dict")


@dataclass
class FakePair:
    """Both services on one port."""

    address: str
    decoder: FakeDecoder
    index: FakeIndex
    health: health.HealthServicer


@contextmanager
def fake_pair() -> Iterator[FakePair]:
    """Serve on a free port."""
    index = FakeIndex()
    decoder = FakeDecoder(index)
    server = grpc.server(ThreadPoolExecutor(8))
    decoder_pb2_grpc.add_DecoderServiceServicer_to_server(decoder, server)
    trie_pb2_grpc.add_TrieServiceServicer_to_server(index, server)
    servicer = health.HealthServicer()
    servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield FakePair(f"127.0.0.1:{port}", decoder, index, servicer)
    finally:
        if decoder.hang is not None:
            decoder.hang.set()
        server.stop(None).wait()


def closed_port() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"
