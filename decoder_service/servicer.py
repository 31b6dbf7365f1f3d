"""The gRPC methods: convert, one use case, convert back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1 import decoder_pb2_grpc

from decoder_service.convert import (
    Defaults,
    finished_message,
    prompt_of,
    request_of,
    started_message,
    step_message,
)
from decoder_service.errors import InvalidRequestError
from decoder_service.request import Event, FailedEvent, FinishedEvent, GenerationRequest, ModelLimits
from decoder_service.scheduler import Scheduler
from decoder_service.status import aborting
from decoder_service.tokens import Tokenizer

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What the methods need to know of the model."""

    description: pb.GetModelResponse
    tokenizer: Tokenizer
    limits: ModelLimits
    defaults: Defaults


class DecoderServicer(decoder_pb2_grpc.DecoderServiceServicer):
    """Serves one model."""

    def __init__(self, served: ServedModel, scheduler: Scheduler) -> None:
        self._served = served
        self._scheduler = scheduler

    async def Generate(
        self, request: pb.GenerateRequest, context: Context
    ) -> AsyncIterator[pb.GenerateResponse]:
        """Generate one continuation."""
        async with aborting(context):
            served = self._served
            wanted = request_of(request, served.tokenizer, served.limits, served.defaults)
            events = self._submit(wanted)
            yield started_message(wanted)
            async for event in events:
                if isinstance(event, FailedEvent):
                    raise event.error
                is_last = isinstance(event, FinishedEvent)
                yield finished_message(wanted, event) if is_last else step_message(event)

    async def GetModel(self, request: pb.GetModelRequest, context: Context) -> pb.GetModelResponse:
        """Describe the model."""
        return self._served.description

    async def Tokenize(self, request: pb.TokenizeRequest, context: Context) -> pb.TokenizeResponse:
        """Text to token ids."""
        async with aborting(context):
            return pb.TokenizeResponse(token_ids=prompt_of(request, self._served.tokenizer).tolist())

    async def Detokenize(self, request: pb.DetokenizeRequest, context: Context) -> pb.DetokenizeResponse:
        """Token ids to text."""
        async with aborting(context):
            vocab_size = self._served.limits.vocab_size
            for token in request.token_ids:
                if token >= vocab_size:
                    raise InvalidRequestError(
                        f"token_ids: token {token} is outside the vocabulary of {vocab_size}"
                    )
            decode = self._served.tokenizer.decode
            pieces = [decode([token]) for token in request.token_ids] if request.pieces else []
            return pb.DetokenizeResponse(text=decode(request.token_ids), pieces=pieces)

    def _submit(self, request: GenerationRequest) -> AsyncIterator[Event]:
        """Queue the request; its events, the last one Finished or Failed. Leaving early cancels it."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Event]()
        ticket = self._scheduler.submit(
            request, lambda event: loop.call_soon_threadsafe(queue.put_nowait, event)
        )

        async def events() -> AsyncIterator[Event]:
            try:
                while True:
                    event = await queue.get()
                    yield event
                    if isinstance(event, FinishedEvent | FailedEvent):
                        return
            finally:
                self._scheduler.cancel(ticket)

        return events()
