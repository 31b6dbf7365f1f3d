"""The gRPC methods: convert, one use case, convert back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
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
from decoder_service.request import (
    Event,
    FinishedEvent,
    GenerationRequest,
    ModelLimits,
    StepEvent,
    check_vocabulary,
)
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

    def __init__(self, served: ServedModel, server: pb.GetServerInfoResponse, scheduler: Scheduler) -> None:
        """``server`` is what does not change while it serves."""
        self._served = served
        self._server = server
        self._scheduler = scheduler
        self._began_s = time.monotonic()

    async def Generate(
        self, request: pb.GenerateRequest, context: Context
    ) -> AsyncIterator[pb.GenerateResponse]:
        """Generate one continuation."""
        async with aborting(context):
            served = self._served
            wanted = await asyncio.to_thread(
                request_of, request, served.tokenizer, served.limits, served.defaults
            )
            with self._submitted(wanted) as events:
                yield started_message(wanted)
                while isinstance(event := await events.get(), StepEvent):
                    yield step_message(event)
            if not isinstance(event, FinishedEvent):
                raise event.error
            yield finished_message(wanted, event)

    async def Abort(self, request: pb.AbortRequest, context: Context) -> pb.AbortResponse:
        """End the requests of a name."""
        async with aborting(context):
            if not request.request_id:
                raise InvalidRequestError("request_id is empty")
            return pb.AbortResponse(num_aborted=self._scheduler.abort(request.request_id))

    async def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: Context
    ) -> pb.GetServerInfoResponse:
        """Describe the server and how busy it is."""
        load = self._scheduler.load()
        info = pb.GetServerInfoResponse(
            uptime_s=time.monotonic() - self._began_s,
            num_running=load.num_running,
            num_waiting=load.num_waiting,
            num_cache_positions=load.cache.num_positions,
            num_cache_positions_used=load.cache.num_used,
        )
        info.MergeFrom(self._server)
        return info

    async def GetModel(self, request: pb.GetModelRequest, context: Context) -> pb.GetModelResponse:
        """Describe the model."""
        return self._served.description

    async def Tokenize(self, request: pb.TokenizeRequest, context: Context) -> pb.TokenizeResponse:
        """Text to token ids."""
        async with aborting(context):
            prompt = await asyncio.to_thread(prompt_of, request, self._served.tokenizer)
            return pb.TokenizeResponse(token_ids=prompt.tolist())

    async def Detokenize(self, request: pb.DetokenizeRequest, context: Context) -> pb.DetokenizeResponse:
        """Token ids to text."""
        async with aborting(context):
            return await asyncio.to_thread(self._detokenized, request)

    def _detokenized(self, request: pb.DetokenizeRequest) -> pb.DetokenizeResponse:
        check_vocabulary("token_ids", request.token_ids, self._served.limits)
        decode = self._served.tokenizer.decode
        pieces = [decode([token]) for token in request.token_ids] if request.pieces else []
        return pb.DetokenizeResponse(text=decode(request.token_ids), pieces=pieces)

    @contextmanager
    def _submitted(self, request: GenerationRequest) -> Iterator[asyncio.Queue[Event]]:
        """Queue the request; its events, the last one Finished or Failed. Leaving early cancels it."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Event]()

        def sink(event: Event) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, event)

        ticket = self._scheduler.submit(request, sink)
        try:
            yield queue
        finally:
            self._scheduler.cancel(ticket)
