"""One long-lived draft stream to the trie service that reopens itself.

gRPC's threaded API with a reader thread: measured against grpc.aio on an event loop of its own, the round
trip is the same, and nothing has to cross into a loop.
"""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import Final

import grpc
from draftwell.trie.v1 import trie_pb2, trie_pb2_grpc

from decoder_service.index_channel import error_text

PROBE_TIMEOUT_S: Final = 0.5
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 2.0


class IndexStream:
    """Sends draft requests and hands out the answer to the newest one; late answers are dropped.

    ``send``, ``wait_for`` and ``reset`` belong to one thread. None of them raises when the service fails.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._stub = trie_pb2_grpc.TrieServiceStub(channel)
        self._changed = threading.Condition()
        self._outbox: SimpleQueue[trie_pb2.DraftRequest | None] | None = None  # None: no stream
        self._call: grpc.CallIterator[trie_pb2.DraftResponse] | None = None
        self._awaited_id = 0
        self._answer: trie_pb2.DraftResponse | None = None
        self._error = "not connected yet"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="index-stream", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether there is a stream to send on."""
        return self._outbox is not None

    @property
    def error(self) -> str:
        """Why there is no stream, or why the last one ended."""
        return self._error

    def wait_until_open(self, timeout_s: float) -> bool:
        """Wait until there is a stream to send on; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: self._outbox is not None, timeout_s)

    def send(self, request: trie_pb2.DraftRequest) -> bool:
        """Send without waiting; False when there is no stream."""
        with self._changed:
            if self._outbox is None:
                return False
            self._awaited_id = request.id
            self._answer = None
            self._outbox.put(request)
            return True

    def wait_for_answer(self, timeout_s: float) -> trie_pb2.DraftResponse | None:
        """The answer to the request sent last; None when it is late or the stream has broken."""
        with self._changed:
            self._changed.wait_for(lambda: self._answer is not None or self._outbox is None, timeout_s)
            self._awaited_id = 0
            return self._answer

    def reset(self) -> None:
        """Abandon the stream, so that another one is opened, to another replica where there is one."""
        with self._changed:
            if self._call is not None:
                self._call.cancel()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """End the stream and its thread."""
        self._stopping.set()
        self.reset()
        self._thread.join()

    def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            opened_at = time.monotonic()
            if self._service_answers():
                self._read_until_it_ends()
            was_healthy = time.monotonic() - opened_at > LONGEST_PAUSE_S
            pause_s = FIRST_PAUSE_S if was_healthy else min(2 * pause_s, LONGEST_PAUSE_S)
            self._stopping.wait(pause_s)

    def _service_answers(self) -> bool:
        """Connect and see whether the service answers at all, so that a step never waits for that."""
        try:
            self._stub.GetServerInfo(
                trie_pb2.GetServerInfoRequest(), timeout=PROBE_TIMEOUT_S, wait_for_ready=True
            )
        except grpc.RpcError as error:
            self._error = f"the trie service is unreachable: {error_text(error)}"
            return False
        return True

    def _read_until_it_ends(self) -> None:
        outbox: SimpleQueue[trie_pb2.DraftRequest | None] = SimpleQueue()
        call = self._stub.Draft(iter(outbox.get, None))
        with self._changed:
            self._outbox, self._call = outbox, call
            self._changed.notify_all()
        if self._stopping.is_set():
            call.cancel()  # type: ignore[no-untyped-call]
        try:
            for answer in call:
                self._deliver(answer)
            self._error = "the trie service ended the stream"
        except grpc.RpcError as error:
            self._error = error_text(error)
        finally:
            outbox.put(None)
            with self._changed:
                self._outbox = self._call = None
                self._changed.notify_all()

    def _deliver(self, answer: trie_pb2.DraftResponse) -> None:
        with self._changed:
            if answer.id == self._awaited_id:
                self._answer = answer
                self._changed.notify_all()
