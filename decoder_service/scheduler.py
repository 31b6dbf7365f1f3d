"""The device thread: takes requests from any thread and keeps the engine stepping while there are any."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

import structlog

from decoder_service.engine import Engine
from decoder_service.errors import DecoderError, InternalError, OverloadedError, StoppingError
from decoder_service.kv_cache import CacheUse
from decoder_service.request import Event, FailedEvent, FinishedEvent, GenerationRequest
from decoder_service.stream import Sink, Stream

log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class Ticket:
    """A submitted request, for cancelling it."""

    request: GenerationRequest
    sink: Sink
    is_cancelled: bool = False
    is_aborted: bool = False
    stream: Stream | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the engine is."""

    num_running: int
    num_waiting: int
    cache: CacheUse


class Scheduler:
    """Owns the engine: everything that touches it runs on one thread.

    Every request that was submitted gets a last event, unless it was cancelled.
    """

    def __init__(self, engine: Engine, max_queue: int) -> None:
        self._engine = engine
        self._max_queue = max_queue
        self._inbox: SimpleQueue[Ticket | None] = SimpleQueue()
        self._tickets: list[Ticket] = []
        self._lock = threading.Lock()
        self._open: set[Ticket] = set()  # submitted and not finished; they count against the queue's limit
        self._is_stopping = False
        self._is_out_of_time = False
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)

    @property
    def max_queue(self) -> int:
        """Most requests that are open at once."""
        return self._max_queue

    def start(self) -> None:
        """Start the device thread."""
        self._thread.start()

    def submit(self, request: GenerationRequest, sink: Sink) -> Ticket:
        """Queue a request; its events go to ``sink``, on the device thread, the last one Finished or Failed.

        Raises OverloadedError when the queue is full and StoppingError when the service goes down.
        """
        with self._lock:
            if self._is_stopping:
                raise StoppingError("the decoder is stopping")
            if len(self._open) >= self._max_queue:
                raise OverloadedError(
                    f"{len(self._open)} requests are open, the most that are taken; try again later"
                )
            ticket = Ticket(request, sink)
            self._open.add(ticket)
            self._inbox.put(ticket)
        return ticket

    def _deliver(self, ticket: Ticket, event: Event) -> None:
        """Hand on an event; who gets the last one may submit again at once."""
        if isinstance(event, FinishedEvent):
            _log_end(ticket, event.reason.name.lower())
            self._free_place(ticket)
        elif isinstance(event, FailedEvent):
            _log_end(ticket, type(event.error).__name__)
            self._free_place(ticket)
        ticket.sink(event)

    def _free_place(self, ticket: Ticket) -> None:
        with self._lock:
            self._open.discard(ticket)

    def cancel(self, ticket: Ticket) -> None:
        """End a request at the next step; no event follows."""
        ticket.is_cancelled = True
        if ticket.stream is not None:
            ticket.stream.is_cancelled = True

    def abort(self, request_id: str) -> int:
        """End the requests of that id at the next step, with a last event; return how many there were."""
        with self._lock:
            found = [
                ticket
                for ticket in self._open
                if ticket.request.request_id == request_id and not (ticket.is_cancelled or ticket.is_aborted)
            ]
        for ticket in found:
            ticket.is_aborted = True
            if ticket.stream is not None:
                ticket.stream.is_aborted = True
        return len(found)

    def load(self) -> Load:
        """How busy the engine is, as far as another thread can see."""
        num_running = self._engine.num_running
        return Load(num_running, max(len(self._open) - num_running, 0), self._engine.cache_use)

    def stop(self, grace_s: float) -> None:
        """Refuse new requests, let open ones finish for so long, end the others with StoppingError."""
        with self._lock:
            self._is_stopping = True
        self._inbox.put(None)
        self._thread.join(grace_s)
        self._is_out_of_time = True
        self._thread.join()

    def _run(self) -> None:
        while not (self._is_stopping and self._engine.is_idle and self._inbox.empty()):
            self._take_requests(block=self._engine.is_idle)
            if self._is_out_of_time:
                self._fail_all(StoppingError("the decoder stopped before the end; resume at another replica"))
            else:
                self._step()
            self._forget_finished()

    def _step(self) -> None:
        try:
            self._engine.step()
        except Exception as error:  # whatever a step raises, the thread goes on
            log.exception("a step failed; its requests are ended")
            self._fail_all(InternalError(f"a step failed: {type(error).__name__}: {error}"))

    def _take_requests(self, *, block: bool) -> None:
        while True:
            try:
                ticket = self._inbox.get(block=block)
            except Empty:
                return
            block = False
            if ticket is not None:
                self._add(ticket)
            elif self._engine.is_idle:
                return

    def _add(self, ticket: Ticket) -> None:
        self._tickets.append(ticket)
        try:
            ticket.stream = self._engine.add(ticket.request, partial(self._deliver, ticket))
        except Exception as error:  # one bad request must not end the thread
            log.exception("a request could not be started", request_id=ticket.request.request_id)
            self._deliver(ticket, FailedEvent(InternalError(f"{type(error).__name__}: {error}")))
            return
        # cancel() and abort() may have come before there was a stream
        if ticket.is_cancelled:
            ticket.stream.is_cancelled = True
        if ticket.is_aborted:
            ticket.stream.is_aborted = True

    def _fail_all(self, error: DecoderError) -> None:
        streams = self._engine.streams()
        self._engine.drop(streams)
        for stream in streams:
            stream.sink(FailedEvent(error))

    def _forget_finished(self) -> None:
        open_streams = set(map(id, self._engine.streams()))
        kept = []
        for ticket in self._tickets:
            if ticket.stream is not None and id(ticket.stream) in open_streams:
                kept.append(ticket)
            else:
                if ticket in self._open:  # no event freed its place
                    _log_end(ticket, "cancelled")
                self._free_place(ticket)
        self._tickets = kept


def _log_end(ticket: Ticket, reason: str) -> None:
    stream = ticket.stream
    log.info(
        "a request ended",
        request_id=ticket.request.request_id,
        reason=reason,
        tokens=stream.num_output if stream else 0,
        steps=stream.stats.num_steps if stream else 0,
    )
