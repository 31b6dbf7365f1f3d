"""The gRPC methods: convert, one use case, convert back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1 import decoder_pb2_grpc

from decoder_service.convert import (
    Defaults,
    finished_message,
    prompt_of,
    requests_of,
    started_message,
    step_message,
)
from decoder_service.errors import InvalidRequestError
from decoder_service.request import (
    Event,
    FailedEvent,
    FinishedEvent,
    GenerationRequest,
    ModelLimits,
    StepEvent,
    check_vocabulary,
)
from decoder_service.scheduler import Scheduler
from decoder_service.status import aborting
from decoder_service.step_cost import StepCost
from decoder_service.tokens import Tokenizer

COST_CONTEXT_LEN = 256  # positions before the step whose cost is told

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

    def __init__(
        self,
        served: ServedModel,
        server: pb.GetServerInfoResponse,
        scheduler: Scheduler,
        cost: StepCost | None = None,
    ) -> None:
        """``server`` is what does not change while it serves; ``cost`` is in milliseconds, where it was measured."""
        self._served = served
        self._server = server
        self._scheduler = scheduler
        self._cost = cost
        self._began_s = time.monotonic()

    async def Generate(
        self, request: pb.GenerateRequest, context: Context
    ) -> AsyncIterator[pb.GenerateResponse]:
        """Generate continuations."""
        async with aborting(context):
            wanted, started = await asyncio.to_thread(self._prepared, request)
            with self._submitted(wanted) as events:
                yield started
                num_open = len(wanted)
                while num_open > 0:
                    index, event = await events.get()
                    if isinstance(event, FailedEvent):
                        raise event.error
                    num_open -= isinstance(event, FinishedEvent)
                    yield _message(wanted[index], event, index)

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
            step_costs=self._step_costs(),
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

    def _step_costs(self) -> list[pb.StepCost]:
        table = self._cost.table(COST_CONTEXT_LEN) if self._cost is not None else []
        return [pb.StepCost(rows=rows, milliseconds=milliseconds) for rows, milliseconds in table]

    def _prepared(self, request: pb.GenerateRequest) -> tuple[list[GenerationRequest], pb.GenerateResponse]:
        """What the engine is asked for, one request a continuation, and the first message."""
        served = self._served
        wanted = requests_of(request, served.tokenizer, served.limits, served.defaults)
        if len(wanted) > self._scheduler.max_queue:
            raise InvalidRequestError(
                f"n {len(wanted)} is more than the {self._scheduler.max_queue} requests that are taken at once"
            )
        return wanted, started_message(wanted[0], served.tokenizer if request.echo else None)

    @contextmanager
    def _submitted(self, requests: Sequence[GenerationRequest]) -> Iterator[asyncio.Queue[tuple[int, Event]]]:
        """Queue the requests; their events, each with its request's place, the last ones Finished or Failed.

        Leaving early cancels those that are not finished.
        """
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[tuple[int, Event]]()

        def put(index: int, event: Event) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, (index, event))

        with ExitStack() as tickets:
            for index, request in enumerate(requests):
                ticket = self._scheduler.submit(request, partial(put, index))
                tickets.callback(self._scheduler.cancel, ticket)
            yield queue


def _message(request: GenerationRequest, event: StepEvent | FinishedEvent, index: int) -> pb.GenerateResponse:
    if isinstance(event, StepEvent):
        return step_message(event, index)
    return finished_message(request, event, index)
