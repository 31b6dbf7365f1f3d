"""An engine that steps when it is told to, and what tests of the device thread need beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import cast

import numpy as np
import pytest

from decoder_service.draft import Source
from decoder_service.engine import Engine
from decoder_service.errors import DecoderError, OverloadedError
from decoder_service.kv_cache import CacheUse
from decoder_service.request import (
    DraftChoice,
    DraftStats,
    Event,
    FailedEvent,
    FinishedEvent,
    FinishReason,
    GenerationRequest,
    StepEvent,
    StopConditions,
    Timings,
)
from decoder_service.sampling import SamplingParams
from decoder_service.scheduler import Scheduler, Ticket

TIMEOUT_S = 30.0
FOREVER = 1_000_000  # tokens


@dataclass(eq=False)
class FakeStream:
    """A request that emits one token a step."""

    request: GenerationRequest
    sink: Callable[[Event], None]
    is_cancelled: bool = False
    is_aborted: bool = False
    num_steps: int = 0

    @property
    def num_output(self) -> int:
        return self.num_steps

    @property
    def stats(self) -> DraftStats:
        return DraftStats(num_steps=self.num_steps)


@dataclass
class FakeEngine:
    """Steps once a permit; notes what happens."""

    permits: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    at_step: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    on_add: Callable[[GenerationRequest], None] = lambda request: None
    failure: Exception | None = None  # of the next step
    running: list[FakeStream] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        return not self.running

    @property
    def num_running(self) -> int:
        return len(self.running)

    @property
    def cache_use(self) -> CacheUse:
        return CacheUse(64, 16)

    def streams(self) -> list[FakeStream]:
        return list(self.running)

    def add(self, request: GenerationRequest, sink: Callable[[Event], None]) -> FakeStream:
        self.on_add(request)
        stream = FakeStream(request, sink)
        self.running.append(stream)
        return stream

    def drop(self, streams: Sequence[FakeStream]) -> None:
        self.running = [stream for stream in self.running if stream not in streams]

    def step(self) -> None:
        if self.is_idle:
            return
        self.at_step.release()
        assert self.permits.acquire(timeout=TIMEOUT_S)
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.drop([stream for stream in self.running if stream.is_cancelled])
        for stream in self.streams():
            if stream.is_aborted:
                self.drop([stream])
                stream.sink(finished(stream.num_steps, FinishReason.ABORTED))
            else:
                self._emit(stream)

    def allow(self, num_steps: int) -> None:
        """Let so many steps run, and wait until the next one is about to."""
        for _ in range(num_steps):
            self.permits.release()
            self.wait_for_step()

    def wait_for_step(self) -> None:
        assert self.at_step.acquire(timeout=TIMEOUT_S)

    def run_freely(self) -> None:
        self.permits.release(FOREVER)

    def _emit(self, stream: FakeStream) -> None:
        stream.num_steps += 1
        stream.sink(StepEvent([stream.num_steps], [Source.MODEL], "", 0))
        if stream.num_steps == stream.request.stop.max_tokens:
            self.drop([stream])
            stream.sink(finished(stream.num_steps))


def finished(num_output: int, reason: FinishReason = FinishReason.LENGTH) -> FinishedEvent:
    return FinishedEvent(reason, "", None, "", num_output, DraftStats(), Timings(), [])


class Events:
    """A sink that can be waited on."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self._new: SimpleQueue[Event] = SimpleQueue()

    def __call__(self, event: Event) -> None:
        self.seen.append(event)
        self._new.put(event)

    def last(self) -> Event:
        """Wait for Finished or Failed."""
        while True:
            event = self._new.get(timeout=TIMEOUT_S)
            if not isinstance(event, StepEvent):
                return event

    @property
    def num_steps(self) -> int:
        return sum(isinstance(event, StepEvent) for event in self.seen)


def request(max_tokens: int, request_id: str = "r") -> GenerationRequest:
    return GenerationRequest(
        request_id,
        np.array([1, 2], dtype=np.int32),
        SamplingParams(),
        StopConditions(max_tokens),
        DraftChoice(frozenset(), 0, "n", learn=False),
    )


@contextmanager
def running(engine: FakeEngine, max_queue: int = 8) -> Iterator[Scheduler]:
    scheduler = Scheduler(cast("Engine", engine), max_queue)
    scheduler.start()
    try:
        yield scheduler
    finally:
        engine.run_freely()
        scheduler.stop(0.0)


def failure_of(events: Events) -> DecoderError:
    event = events.last()
    assert isinstance(event, FailedEvent)
    assert isinstance(event.error, DecoderError)
    return event.error


def submit_when_there_is_room(scheduler: Scheduler, wanted: GenerationRequest, sink: Events) -> Ticket:
    """The room of a request is free soon after its end."""
    never = threading.Event()
    for _ in range(int(TIMEOUT_S / 0.01)):
        try:
            return scheduler.submit(wanted, sink)
        except OverloadedError:
            never.wait(0.01)
    pytest.fail("the queue stays full")
