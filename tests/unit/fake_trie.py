"""A trie service that does as it is told, on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
from draftwell.trie.v1 import trie_pb2, trie_pb2_grpc


class FakeTrie(trie_pb2_grpc.TrieServiceServicer):
    """Drafts token 7 and then 8 for every query; keeps what it is taught."""

    def __init__(self) -> None:
        self.answers_may_leave = threading.Event()
        self.answers_may_leave.set()
        self.num_streams = 0
        self.draft_requests: list[trie_pb2.DraftRequest] = []
        self.answer = trie_pb2.DraftAnswer(
            draft=trie_pb2.DraftTree(
                tokens=[7, 8], parents=[-1, 0], match_orders=[3, 4], counts=[2, 2], totals=[5, 2]
            )
        )
        self.created: list[trie_pb2.CreateNamespaceRequest] = []
        self.learned: list[trie_pb2.LearnRequest] = []
        self.learn_failures: list[grpc.StatusCode] = []  # the next calls fail with these
        self.create_failures: list[grpc.StatusCode] = []
        self.out_of_reach: set[str] = set()  # namespaces whose calls fail
        self._has_learned = threading.Condition()
        self.learn_calls: list[list[trie_pb2.LearnRequest]] = []  # those that failed too

    def Draft(
        self, request_iterator: Iterator[trie_pb2.DraftRequest], context: grpc.ServicerContext
    ) -> Iterator[trie_pb2.DraftResponse]:
        self.num_streams += 1
        for request in request_iterator:
            self.draft_requests.append(request)
            self.answers_may_leave.wait()
            yield trie_pb2.DraftResponse(id=request.id, answers=[self.answer] * len(request.queries))

    def GetServerInfo(
        self, request: trie_pb2.GetServerInfoRequest, context: grpc.ServicerContext
    ) -> trie_pb2.GetServerInfoResponse:
        return trie_pb2.GetServerInfoResponse(version="fake")

    def Learn(
        self, request_iterator: Iterator[trie_pb2.LearnRequest], context: grpc.ServicerContext
    ) -> trie_pb2.LearnResponse:
        requests = list(request_iterator)
        self.learn_calls.append(requests)
        if self.learn_failures:
            context.abort(self.learn_failures.pop(0), "told to fail")
        if requests[0].namespace.name in self.out_of_reach:
            context.abort(grpc.StatusCode.UNAVAILABLE, "out of reach")
        with self._has_learned:
            self.learned += requests
            self._has_learned.notify_all()
        return trie_pb2.LearnResponse(num_sequences=len(requests))

    def wait_until_learned(self, namespace: str, timeout_s: float) -> bool:
        """Whether something of a namespace is learned within the time."""
        with self._has_learned:
            return self._has_learned.wait_for(
                lambda: any(request.namespace.name == namespace for request in self.learned), timeout_s
            )

    def CreateNamespace(
        self, request: trie_pb2.CreateNamespaceRequest, context: grpc.ServicerContext
    ) -> trie_pb2.CreateNamespaceResponse:
        self.created.append(request)
        if self.create_failures:
            context.abort(self.create_failures.pop(0), "told to fail")
        return trie_pb2.CreateNamespaceResponse()


class RunningTrie:
    """A server for a FakeTrie that can be killed and started again on its port."""

    def __init__(self) -> None:
        self.service = FakeTrie()
        self.port = 0
        self._server: grpc.Server | None = None
        self.start()

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server = grpc.server(ThreadPoolExecutor(max_workers=8), options=[("grpc.so_reuseport", 0)])
        trie_pb2_grpc.add_TrieServiceServicer_to_server(self.service, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self._server.start()

    def kill(self) -> None:
        if self._server is not None:
            self.service.answers_may_leave.set()
            self._server.stop(grace=None).wait()
            self._server = None
