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
from enum import Enum, auto
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


class _Outcome(Enum):
    LEARNED = auto()
    LATER = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class _Pause:
    """Between two attempts for one namespace."""

    began_s: float
    length_s: float


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
        self._pauses: dict[str, _Pause] = {}  # of namespaces that failed last
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
            outcome = self._try(batch)
            with self._changed:
                self._in_flight = []
                if outcome is _Outcome.LATER:
                    self._put_back(batch)
                elif outcome is _Outcome.LEARNED:
                    self.num_learned += len(batch)
                else:
                    self.num_dropped += len(batch)
                self._changed.notify_all()
        with self._changed:
            self.num_dropped += len(self._queue)
            self._queue.clear()
            self._changed.notify_all()

    def _next_batch(self) -> list[Output]:
        """The oldest outputs that share a namespace which does not pause; empty when it is time to end."""
        with self._changed:
            while True:
                if self._seconds_left() <= 0 or (self._deadline is not None and not self._queue):
                    return []
                namespace = next(
                    (each.namespace for each in self._queue if self._pause_left(each.namespace) <= 0), None
                )
                if namespace is not None:
                    break
                pauses = [self._pause_left(each.namespace) for each in self._queue]
                self._changed.wait(min([*pauses, self._seconds_left()]) if pauses else None)
            rest: deque[Output] = deque()
            for output in self._queue:
                is_next = output.namespace == namespace and len(self._in_flight) < MAX_BATCH
                (self._in_flight if is_next else rest).append(output)
            self._queue = rest
            return list(self._in_flight)

    def _put_back(self, batch: list[Output]) -> None:
        """Queue outputs again before younger ones, as far as there is room."""
        num_kept = min(self._capacity - len(self._queue), len(batch))
        self.num_dropped += len(batch) - num_kept
        waiting = {output.namespace for output in (*self._queue, *batch)}
        self._pauses = {name: pause for name, pause in self._pauses.items() if name in waiting}
        self._queue.extendleft(reversed(batch[len(batch) - num_kept :]))

    def _seconds_left(self) -> float:
        return CALL_TIMEOUT_S if self._deadline is None else self._deadline - time.monotonic()

    def _pause_left(self, namespace: str) -> float:
        """Seconds until a namespace is tried again; while stopping no pause is longer than the first."""
        pause = self._pauses.get(namespace)
        if pause is None:
            return 0.0
        length_s = pause.length_s if self._deadline is None else min(pause.length_s, FIRST_PAUSE_S)
        return pause.began_s + length_s - time.monotonic()

    def _try(self, batch: list[Output]) -> _Outcome:
        """Send outputs of one namespace; after a failure that may pass, the namespace pauses, longer every time."""
        namespace = batch[0].namespace
        if time.monotonic() < self._standings.of(namespace).refused_until:
            self._pauses.pop(namespace, None)
            return _Outcome.REFUSED
        try:
            self._send(namespace, batch)
        except grpc.RpcError as error:
            self._note(namespace, error)
            before = self._pauses.get(namespace)
            length_s = FIRST_PAUSE_S if before is None else min(2 * before.length_s, LONGEST_PAUSE_S)
            self._pauses[namespace] = _Pause(time.monotonic(), length_s)
            return _Outcome.LATER
        self._pauses.pop(namespace, None)
        self._standings.note(namespace, Standing(is_created=True))
        return _Outcome.LEARNED

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
