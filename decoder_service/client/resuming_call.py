"""One call as its reader sees it, of however many calls it is made up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Protocol, Self

import grpc
from draftwell.decoder.v1 import decoder_pb2 as pb

from decoder_service.client.breaks import is_break, retry_delay_s
from decoder_service.client.errors import Cancelled, error_of
from decoder_service.client.patience import Patience
from decoder_service.client.progress import Progress
from decoder_service.client.replicas import Replicas


class _Call(Protocol):
    """One call of gRPC."""

    def __iter__(self) -> Iterator[pb.GenerateResponse]:
        """In the order that they were sent."""

    def cancel(self) -> bool:
        """Tell the server to stop."""


class ResumingCall:
    """Iterates over the messages of a generation; where its stream breaks, it goes on at the next address.

    A decoder that is full is asked again when it said so. Iterating raises a ClientError where that does not
    help: where no address can be reached at the start, at the deadline, and after a minute of failures.
    """

    def __init__(
        self, replicas: Replicas, request: pb.GenerateRequest, timeout_s: float | None, *, retry: bool
    ) -> None:
        self._replicas = replicas
        self._retry = retry
        self._progress = Progress(request)
        self._patience = Patience(timeout_s)
        self._cancelled = threading.Event()
        self._open(request)

    @property
    def num_resumes(self) -> int:
        """How often the stream broke and went on."""
        return self._progress.num_resumes

    @property
    def address(self) -> str:
        """Of the decoder that serves it."""
        return self._address

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pb.GenerateResponse:
        while True:
            try:
                response = next(self._responses)
            except grpc.RpcError as error:
                if self._progress.is_finished:
                    raise StopIteration from error
                self._go_on_after(error)
                continue
            new = self._progress.take(response)
            if new is not None:
                self._patience.renew()
                return new

    def cancel(self) -> None:
        """Tell the decoder to stop, and try no more."""
        self._cancelled.set()
        self._call.cancel()

    def _open(self, request: pb.GenerateRequest) -> None:
        self._address = self._replicas.current
        self._call = self._called(request)
        self._responses = iter(self._call)
        if self._cancelled.is_set():  # cancel() may have come before there was this call
            self._call.cancel()

    def _called(self, request: pb.GenerateRequest) -> _Call:
        return self._replicas.stub(self._address).Generate(request, timeout=self._patience.left_s)

    def _go_on_after(self, error: grpc.RpcError) -> None:
        """Wait, and open the next call; raise the error's ClientError where that is no use."""
        wait_s = self._wait_s(error)
        if wait_s is None:
            raise error_of(error, self._address) from error
        if self._cancelled.wait(wait_s) or self._replicas.is_closed:
            raise Cancelled("the generation was cancelled") from error
        self._replicas.leave(self._address)
        self._open(self._progress.next_request())

    def _wait_s(self, error: grpc.RpcError) -> float | None:
        """Seconds until the next call, None where there is to be none."""
        if not self._retry or self._cancelled.is_set() or self._replicas.is_closed:
            return None
        if is_break(error):
            all_failed = self._patience.num_failures + 1 >= len(self._replicas.addresses)
            never_began = not self._progress.has_started
            return None if never_began and all_failed else self._patience.next_wait_s(None)
        asked_s = retry_delay_s(error)
        return None if asked_s is None else self._patience.next_wait_s(asked_s)
