"""Several continuations of one call: one end ends them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import pytest
from draftwell.decoder.v1 import decoder_pb2 as pb

from decoder_service.convert import Defaults
from decoder_service.draft import DEFAULT_LOOKAHEAD, Source
from decoder_service.errors import InternalError, OverloadedError
from decoder_service.request import FailedEvent, GenerationRequest, ModelLimits, StepEvent
from decoder_service.scheduler import Scheduler, Ticket
from decoder_service.servicer import DecoderServicer, ServedModel
from decoder_service.stream import Sink
from decoder_service.tokens import Tokenizer


class ByteTokenizer:
    """Tokens are bytes."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(tokens).decode()


@dataclass
class FakeScheduler:
    """Takes so many requests; the test sends their events."""

    max_queue: int = 8
    num_places: int = 8
    tickets: list[Ticket] = field(default_factory=list)
    cancelled: list[Ticket] = field(default_factory=list)

    def submit(self, request: GenerationRequest, sink: Sink) -> Ticket:
        if len(self.tickets) == self.num_places:
            raise OverloadedError("full")
        self.tickets.append(Ticket(request, sink))
        return self.tickets[-1]

    def cancel(self, ticket: Ticket) -> None:
        self.cancelled.append(ticket)


class AbortedError(Exception):
    """What a context raises to end a call."""


class FakeContext:
    """Raises the status that a call is ended with."""

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: object) -> None:
        raise AbortedError(code, details)


def servicer_of(scheduler: FakeScheduler) -> DecoderServicer:
    defaults = Defaults(frozenset({Source.OWN}), 24, "fleet", True, 50, DEFAULT_LOOKAHEAD)
    served = ServedModel(pb.GetModelResponse(), Tokenizer(ByteTokenizer()), ModelLimits(300, 100), defaults)
    return DecoderServicer(served, pb.GetServerInfoResponse(), cast("Scheduler", scheduler))


def asking(n: int) -> pb.GenerateRequest:
    return pb.GenerateRequest(text="hello", n=n)


async def test_a_continuation_that_fails_ends_the_others() -> None:
    scheduler = FakeScheduler()
    responses = servicer_of(scheduler).Generate(asking(3), cast("Any", FakeContext()))
    assert (await anext(responses)).HasField("started")
    scheduler.tickets[2].sink(StepEvent([104], [Source.MODEL], "h", 0))
    step = (await anext(responses)).step
    assert (step.index, list(step.token_ids)) == (2, [104])
    scheduler.tickets[1].sink(FailedEvent(InternalError("it failed")))
    with pytest.raises(AbortedError, match="it failed"):
        await anext(responses)
    assert set(scheduler.cancelled) == set(scheduler.tickets)


async def test_where_one_continuation_finds_no_place_none_runs() -> None:
    scheduler = FakeScheduler(num_places=2)
    responses = servicer_of(scheduler).Generate(asking(3), cast("Any", FakeContext()))
    with pytest.raises(AbortedError, match="full"):
        await anext(responses)
    assert set(scheduler.cancelled) == set(scheduler.tickets)
    assert len(scheduler.tickets) == 2


async def test_a_client_that_leaves_ends_all_continuations() -> None:
    scheduler = FakeScheduler()
    responses = servicer_of(scheduler).Generate(asking(2), cast("Any", FakeContext()))
    await anext(responses)
    await cast("Any", responses).aclose()
    assert set(scheduler.cancelled) == set(scheduler.tickets)
