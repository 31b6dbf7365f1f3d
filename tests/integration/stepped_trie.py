"""A trie service in this process that answers draft requests when it is told to: a decoder waits for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue

import grpc
from draftwell.trie.v1 import trie_pb2, trie_pb2_grpc

TIMEOUT_S = 30.0


class SteppedTrie(trie_pb2_grpc.TrieServiceServicer):
    """Drafts nothing. While it holds, every step of the decoder needs an answer that is allowed."""

    def __init__(self) -> None:
        self.address = ""
        self.asked: SimpleQueue[list[str]] = SimpleQueue()  # the namespaces of each draft request
        self._changed = threading.Condition()
        self._num_allowed = 0
        self._holds = False

    def hold(self) -> None:
        """Answer no draft request from now on; forget those that were asked so far."""
        with self._changed:
            self._holds, self._num_allowed = True, 0
        while not self.asked.empty():
            self.asked.get()

    def allow(self) -> None:
        """Answer one draft request."""
        with self._changed:
            self._num_allowed += 1
            self._changed.notify_all()

    def go_on(self) -> None:
        """Answer everything at once again."""
        with self._changed:
            self._holds = False
            self._changed.notify_all()

    def next_asked(self) -> list[str]:
        """Wait for a draft request; the namespaces of its queries."""
        return self.asked.get(timeout=TIMEOUT_S)

    def Draft(
        self, request_iterator: Iterator[trie_pb2.DraftRequest], context: grpc.ServicerContext
    ) -> Iterator[trie_pb2.DraftResponse]:
        context.add_callback(self._wake)
        for request in request_iterator:
            self.asked.put([query.namespace.name for query in request.queries])
            with self._changed:
                self._changed.wait_for(
                    lambda: not self._holds or self._num_allowed > 0 or not context.is_active()
                )
                self._num_allowed = max(self._num_allowed - 1, 0)
            yield trie_pb2.DraftResponse(
                id=request.id, answers=[trie_pb2.DraftAnswer()] * len(request.queries)
            )

    def Learn(
        self, request_iterator: Iterator[trie_pb2.LearnRequest], context: grpc.ServicerContext
    ) -> trie_pb2.LearnResponse:
        return trie_pb2.LearnResponse(num_sequences=sum(1 for _ in request_iterator))

    def GetServerInfo(
        self, request: trie_pb2.GetServerInfoRequest, context: grpc.ServicerContext
    ) -> trie_pb2.GetServerInfoResponse:
        return trie_pb2.GetServerInfoResponse(state=trie_pb2.SERVING_STATE_SERVING)

    def CreateNamespace(
        self, request: trie_pb2.CreateNamespaceRequest, context: grpc.ServicerContext
    ) -> trie_pb2.CreateNamespaceResponse:
        return trie_pb2.CreateNamespaceResponse()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


@contextmanager
def stepped_trie(port: int = 0) -> Iterator[SteppedTrie]:
    """Serve on a port of loopback."""
    servicer = SteppedTrie()
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    trie_pb2_grpc.add_TrieServiceServicer_to_server(servicer, server)
    servicer.address = f"127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{port}')}"
    server.start()
    try:
        yield servicer
    finally:
        servicer.go_on()
        server.stop(None).wait()
