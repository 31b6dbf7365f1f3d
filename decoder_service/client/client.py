"""The synchronous client of a decoder service."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import grpc
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1.decoder_pb2_grpc import DecoderServiceStub

from decoder_service.client.errors import InvalidRequest, translated
from decoder_service.client.generation import Model, ServerInfo
from decoder_service.client.health import wait_until_serving
from decoder_service.client.request import Drafts, Message, Prompt, Sampling, Stop
from decoder_service.client.stream import GenerationStream, Responses
from decoder_service.client.wire import generate_request, model_of, prompt_field, server_info_of

DEFAULT_ADDRESS = "127.0.0.1:50051"
_CHANNEL_OPTIONS = (("grpc.enable_http_proxy", 0),)


class Client:
    """A connection to one decoder service. Threads may share it.

    It connects at the first call, straight to the address: a decoder is a service of one's own network, so
    http_proxy, https_proxy and grpc_proxy of the environment do not count. Every method raises a ClientError
    where its call fails; timeouts are in seconds, None waits for ever.
    """

    def __init__(self, address: str = DEFAULT_ADDRESS) -> None:
        self.address = address
        self._channel = grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
        self._stub = DecoderServiceStub(self._channel)

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
        self._channel.close()

    def wait_until_ready(self, timeout: float = 60.0) -> None:
        """Return once the service says that it serves."""
        wait_until_serving(self._channel, self.address, timeout)

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

        def open_call(request: pb.GenerateRequest) -> Responses:
            return self._stub.Generate(request, timeout=timeout)

        return GenerationStream(open_call, request, self.address)

    def abort(self, request_id: str, *, timeout: float | None = None) -> int:
        """End the generations of that id, whoever asked for them; return how many there were."""
        with translated(self.address):
            return self._stub.Abort(pb.AbortRequest(request_id=request_id), timeout=timeout).num_aborted

    def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """Describe the server and how busy it is."""
        with translated(self.address):
            return server_info_of(self._stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=timeout))

    def model(self, *, timeout: float | None = None) -> Model:
        """Describe the served model."""
        with translated(self.address):
            return model_of(self._stub.GetModel(pb.GetModelRequest(), timeout=timeout))

    def tokenize(self, prompt: str | Sequence[Message], *, timeout: float | None = None) -> tuple[int, ...]:
        """Token ids of raw text, or of a conversation under the chat template."""
        request = pb.TokenizeRequest(**prompt_field(prompt))
        with translated(self.address):
            return tuple(self._stub.Tokenize(request, timeout=timeout).token_ids)

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
        with translated(self.address):
            return self._stub.Detokenize(request, timeout=timeout)
