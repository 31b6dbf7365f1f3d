"""The synchronous client of a decoder service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1.decoder_pb2_grpc import DecoderServiceStub

from decoder_service.client.errors import InvalidRequest, Unreachable, translated
from decoder_service.client.generation import Model, ServerInfo
from decoder_service.client.health import wait_until_serving
from decoder_service.client.replicas import Replicas
from decoder_service.client.request import Drafts, Message, Prompt, Sampling, Stop
from decoder_service.client.resuming_call import ResumingCall
from decoder_service.client.stream import GenerationStream
from decoder_service.client.wire import generate_request, model_of, prompt_field, server_info_of

DEFAULT_ADDRESS = "127.0.0.1:50051"

T = TypeVar("T")


class Client:
    """A connection to a decoder service, or to one of several equal ones. Threads may share it.

    ``address`` may name several, with commas or as a sequence. The first is used until it fails. A generation
    whose stream breaks then goes on at the next by itself, with the identical rest, within its timeout, and a
    decoder that is full is asked again when it says so; with ``retry=False`` both raise at once.

    It connects at the first call, straight to the address: a decoder is a service of one's own network, so
    http_proxy, https_proxy and grpc_proxy of the environment do not count. Every method raises a ClientError
    where its call fails; timeouts are in seconds, None waits for ever.
    """

    def __init__(self, address: str | Sequence[str] = DEFAULT_ADDRESS, *, retry: bool = True) -> None:
        self._replicas = Replicas(address)
        self._retry = retry

    @property
    def address(self) -> str:
        """Of the decoder in use."""
        return self._replicas.current

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; streams that still run are cancelled."""
        self._replicas.close()

    def wait_until_ready(self, timeout: float = 60.0) -> None:
        """Return once a service says that it serves."""
        channels = {address: self._replicas.channel(address) for address in self._replicas.addresses}
        wait_until_serving(channels, timeout)

    def generate(  # noqa: PLR0913 - one parameter a part of the request
        self,
        prompt: Prompt,
        *,
        sampling: Sampling | None = None,
        stop: Stop | None = None,
        drafts: Drafts | None = None,
        n: int | None = None,
        echo: bool = False,
        logprobs: int | None = None,
        priority: int | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> GenerationStream:
        """Start a generation: iterate over its steps, or ask for its ``result()``.

        ``n`` continuations, each with the seed plus its index, come as steps with an index and from ``results()``;
        ``echo`` returns the prompt with the result; ``logprobs`` gives every token's log probability and so many
        likeliest tokens beside it; a higher ``priority`` begins before others that wait; ``abort(request_id)`` ends
        the generation from anywhere.
        """
        request = generate_request(
            prompt, sampling, stop, drafts, request_id, n=n, echo=echo, logprobs=logprobs, priority=priority
        )
        call = ResumingCall(self._replicas, request, timeout, retry=self._retry)
        return GenerationStream(call, request)

    def abort(self, request_id: str, *, timeout: float | None = None) -> int:
        """End the generations of that id, whoever asked for them, at every address; return how many there were."""
        request = pb.AbortRequest(request_id=request_id)
        num_aborted, failures = 0, list[Unreachable]()
        for address in self._replicas.addresses:
            try:
                with translated(address):
                    num_aborted += self._replicas.stub(address).Abort(request, timeout=timeout).num_aborted
            except Unreachable as error:
                failures.append(error)
        if len(failures) == len(self._replicas.addresses):
            raise failures[0]
        return num_aborted

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """Describe the server and how busy it is."""
        request = pb.GetServerInfoRequest()
        return server_info_of(self._ask(lambda stub: stub.GetServerInfo(request, timeout=timeout)))

    def model(self, *, timeout: float | None = None) -> Model:
        """Describe the served model."""
        request = pb.GetModelRequest()
        return model_of(self._ask(lambda stub: stub.GetModel(request, timeout=timeout)))

    def tokenize(self, prompt: str | Sequence[Message], *, timeout: float | None = None) -> tuple[int, ...]:
        """Token ids of raw text, or of a conversation under the chat template."""
        request = pb.TokenizeRequest(**prompt_field(prompt))
        return tuple(self._ask(lambda stub: stub.Tokenize(request, timeout=timeout)).token_ids)

    def detokenize(self, token_ids: Sequence[int], *, timeout: float | None = None) -> str:
        """Text of tokens."""
        return self._detokenize(token_ids, timeout, pieces=False).text

    def pieces(self, token_ids: Sequence[int], *, timeout: float | None = None) -> tuple[str, ...]:
        """Text of each token alone; a token that is part of a character has U+FFFD."""
        return tuple(self._detokenize(token_ids, timeout, pieces=True).pieces)

    def _detokenize(
        self, token_ids: Sequence[int], timeout: float | None, *, pieces: bool
    ) -> pb.DetokenizeResponse:
        try:
            request = pb.DetokenizeRequest(token_ids=token_ids, pieces=pieces)
        except (ValueError, TypeError) as error:
            raise InvalidRequest(f"not token ids: {error}") from error
        return self._ask(lambda stub: stub.Detokenize(request, timeout=timeout))

    def _ask(self, call: Callable[[DecoderServiceStub], T]) -> T:
        """Ask the decoder in use; where it cannot be reached, each of the others once."""
        num_others = len(self._replicas.addresses) - 1 if self._retry else 0
        for _ in range(num_others):
            address = self.address
            try:
                with translated(address):
                    return call(self._replicas.stub(address))
            except Unreachable:
                self._replicas.leave(address)
        address = self.address
        with translated(address):
            return call(self._replicas.stub(address))
