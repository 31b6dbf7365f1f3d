"""Feeds finished outputs to the draft index in the background.

An output is sent once, when its request ends: then it is one sequence of the index, which can be forgotten
by its id, and nothing is learned of requests that were cancelled. The queue is bounded; nothing here ever
blocks the device thread.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import Final

import grpc
from draftwell.trie.v1 import trie_pb2, trie_pb2_grpc

from decoder_service.forest import Int32Array
from decoder_service.index_channel import error_text
from decoder_service.standing import Standing, Standings

CONTEXT_LEN: Final = 16  # prompt tokens sent along, so that the output's first tokens can be matched
MAX_BATCH: Final = 64  # outputs a Learn call
CALL_TIMEOUT_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
REFUSAL_PAUSE_S: Final = 60.0  # before a namespace that was refused is tried again
MAX_NAMESPACES: Final = 4096  # whose standing is remembered

TRANSIENT: Final = frozenset(
    {
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
    }
)


@dataclass(frozen=True, slots=True)
class Output:
    """What one request said, after the last tokens of its prompt.

    Its id is the same however often it is sent, and no other's: the index drops what it has already.
    """

    namespace: str
    tokens: list[int]
    context_len: int
    sequence_id: str = field(default_factory=lambda: uuid.uuid4().hex)


class Feedback:
    """A bounded queue of outputs and the thread that sends them."""

    def __init__(
        self, channel: grpc.Channel, fingerprint: str, vocab_size: int, capacity: int = 1024
    ) -> None:
        self.num_learned = 0  # outputs acknowledged
        self.num_dropped = 0  # outputs lost to overflow, refusal or the end of the service
        self._stub = trie_pb2_grpc.TrieServiceStub(channel)
        self._fingerprint = fingerprint
        self._vocab_size = vocab_size
        self._capacity = capacity
        self._changed = threading.Condition()
        self._queue: deque[Output] = deque()
        self._in_flight: list[Output] = []
        self._standings = Standings(MAX_NAMESPACES)
        self._deadline: float | None = None  # None: not stopping
        self._thread = threading.Thread(target=self._run, name="feedback", daemon=True)
        self._thread.start()

    def learn(self, namespace: str, text: Int32Array, num_output: int) -> None:
        """Queue the last ``num_output`` tokens of a request's text; the oldest output gives way to it."""
        if num_output == 0:
            return
        context_len = min(CONTEXT_LEN, len(text) - num_output)
        output = Output(namespace, text[-(context_len + num_output) :].tolist(), context_len)
        with self._changed:
            if len(self._queue) == self._capacity:
                self._queue.popleft()
                self.num_dropped += 1
            self._queue.append(output)
            self._changed.notify_all()

    def warning(self, namespace: str) -> str:
        """Why outputs of a namespace are not learned now; empty when they are."""
        return self._standings.of(namespace).warning

    def wait_until_empty(self, timeout_s: float) -> bool:
        """Wait until every output so far is learned or dropped; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._in_flight, timeout_s)

    def stop(self, flush_s: float) -> None:
        """Send what is queued for at most so many seconds, drop the rest and end the thread."""
        with self._changed:
            self._deadline = time.monotonic() + flush_s
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            num_learned = self._send_until_settled(batch)
            with self._changed:
                self.num_learned += num_learned
                self.num_dropped += len(batch) - num_learned
                self._in_flight = []
                self._changed.notify_all()
        with self._changed:
            self.num_dropped += len(self._queue)
            self._queue.clear()
            self._changed.notify_all()

    def _next_batch(self) -> list[Output]:
        """The oldest outputs that share a namespace; empty when it is time to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._deadline is not None)
            if self._seconds_left() <= 0:
                return []
            while self._queue and len(self._in_flight) < MAX_BATCH:
                if self._in_flight and self._queue[0].namespace != self._in_flight[0].namespace:
                    break
                self._in_flight.append(self._queue.popleft())
            return self._in_flight

    def _seconds_left(self) -> float:
        return CALL_TIMEOUT_S if self._deadline is None else self._deadline - time.monotonic()

    def _send_until_settled(self, batch: list[Output]) -> int:
        """Send until the batch is acknowledged, refused or out of time; return how many were acknowledged."""
        namespace = batch[0].namespace
        pause_s = FIRST_PAUSE_S
        while self._seconds_left() > 0 and time.monotonic() >= self._standings.of(namespace).refused_until:
            try:
                self._send(namespace, batch)
            except grpc.RpcError as error:
                self._note(namespace, error)
                self._wait(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                self._standings.note(namespace, Standing(is_created=True))
                return len(batch)
        return 0

    def _send(self, namespace: str, batch: list[Output]) -> None:
        reference = trie_pb2.NamespaceRef(name=namespace, fingerprint=self._fingerprint)
        if not self._standings.of(namespace).is_created:
            self._stub.CreateNamespace(
                trie_pb2.CreateNamespaceRequest(namespace=reference, vocab_size=self._vocab_size),
                timeout=self._call_timeout(),
            )
        requests = [
            trie_pb2.LearnRequest(
                namespace=reference,
                sequence_id=output.sequence_id,
                tokens=output.tokens,
                context_len=output.context_len,
            )
            for output in batch
        ]
        self._stub.Learn(iter(requests), timeout=self._call_timeout())

    def _call_timeout(self) -> float:
        return max(min(self._seconds_left(), CALL_TIMEOUT_S), 0.001)

    def _note(self, namespace: str, error: grpc.RpcError) -> None:
        """Remember why it failed; a namespace that is gone is created again, a refusal lasts for a while."""
        is_lasting = error.code() not in TRANSIENT | {grpc.StatusCode.NOT_FOUND}
        standing = Standing(
            refused_until=time.monotonic() + REFUSAL_PAUSE_S if is_lasting else float("-inf"),
            warning=f"the index does not learn: {error_text(error)}",
        )
        self._standings.note(namespace, standing)

    def _wait(self, pause_s: float) -> None:
        """Pause between attempts; a stop cuts it short to the first pause."""
        with self._changed:
            if self._changed.wait_for(lambda: self._deadline is not None, pause_s):
                self._changed.wait(min(FIRST_PAUSE_S, max(self._seconds_left(), 0.0)))
