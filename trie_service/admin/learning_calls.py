"""Learn calls: a few in flight, acknowledged in order, repeated where that may help."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import grpc
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub

CALLS_IN_FLIGHT = 4
CALL_TIMEOUT_S = 60.0
PATIENCE_S = 60.0  # how long a call is repeated that the service cannot serve now
FIRST_WAIT_S = 0.1
LONGEST_WAIT_S = 2.0
RETRIED = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
)


@dataclass(slots=True)
class Group:
    """What goes into one call, and what it means once it is acknowledged."""

    requests: list[pb.LearnRequest] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # where each request is from, for people
    num_tokens: int = 0  # context not counted
    positions: dict[str, int | None] = field(default_factory=dict)  # by source; None: all of it
    end: int = 0  # bytes of the corpus up to here


Acknowledged = Callable[[Group], None]


class LearningCalls:
    """Sends groups to an index. Its methods raise grpc.RpcError."""

    def __init__(self, trie: TrieServiceStub, patience_s: float = PATIENCE_S) -> None:
        self._trie = trie
        self._patience_s = patience_s
        self._in_flight: deque[tuple[Group, grpc.CallFuture[pb.LearnResponse]]] = deque()

    def send(self, group: Group) -> Iterator[Group]:
        """Start a call; yield the groups that were acknowledged meanwhile."""
        call = self._trie.Learn.future(iter(group.requests), timeout=CALL_TIMEOUT_S)
        self._in_flight.append((group, call))
        if len(self._in_flight) >= CALLS_IN_FLIGHT:
            yield self._finish()

    def flush(self) -> Iterator[Group]:
        """Wait for all calls; yield their groups."""
        while self._in_flight:
            yield self._finish()

    def _finish(self) -> Group:
        group, call = self._in_flight.popleft()
        try:
            call.result()
        except grpc.RpcError as error:
            if _code(error) not in RETRIED:
                raise
            self._learn(group.requests)
        return group

    def _learn(self, requests: Sequence[pb.LearnRequest]) -> None:
        """Repeat what failed: what was learned of it already is not learned twice.

        An index that takes no more at once is given less at once.
        """
        give_up_at = time.monotonic() + self._patience_s
        wait_s = FIRST_WAIT_S
        while True:
            try:
                self._trie.Learn(iter(requests), timeout=CALL_TIMEOUT_S)
                return
            except grpc.RpcError as error:
                code = _code(error)
                if code not in RETRIED or time.monotonic() > give_up_at:
                    raise
            if code is grpc.StatusCode.RESOURCE_EXHAUSTED and len(requests) > 1:
                middle = len(requests) // 2
                self._learn(requests[:middle])
                self._learn(requests[middle:])
                return
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)


def _code(error: grpc.RpcError) -> grpc.StatusCode:
    assert isinstance(error, grpc.Call)  # of a client's errors that holds, though the types do not say so
    return error.code()
