"""A trie service for trie-admin's tests: it keeps namespaces in a dict and does as it is told."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1 import trie_pb2_grpc as rpc

Context = grpc.ServicerContext


class FakeAdminTrie(rpc.TrieServiceServicer):
    """Holds namespaces and the sequences that they learned, each id once."""

    def __init__(self) -> None:
        self.namespaces: dict[str, pb.Namespace] = {}
        self.learned: dict[str, pb.LearnRequest] = {}  # by sequence id
        self.calls: list[int] = []  # sequences of each Learn call that was acknowledged
        self.failures: list[grpc.StatusCode] = []  # the next Learn calls fail with these
        self.largest_call = 1 << 30  # Learn calls of more sequences are refused
        self.num_attempts = 0
        self.file = b"draftwell" * 1000
        self.file_bytes = len(self.file)  # as the first piece says
        self.imported = b""
        self.digest = "same"
        self.applied = [7]  # answers of VerifyNamespace, the last one for ever
        self.problems: list[str] = []
        self.top = [pb.TopDraft(context=[1, 2], tokens=[3, 4], num_drafts=9)]

    def add(self, name: str, **stats: int) -> pb.Namespace:
        """Make a namespace."""
        made = pb.Namespace(name=name, fingerprint="fp", vocab_size=1000, stats=pb.NamespaceStats(**stats))
        self.namespaces[name] = made
        return made

    def GetServerInfo(self, request: pb.GetServerInfoRequest, context: Context) -> pb.GetServerInfoResponse:
        return pb.GetServerInfoResponse(version="9.9", state=pb.SERVING_STATE_SERVING, store="redis://fake")

    def ListNamespaces(
        self, request: pb.ListNamespacesRequest, context: Context
    ) -> pb.ListNamespacesResponse:
        for namespace in self.namespaces.values():
            namespace.stats.num_tokens += 100
        return pb.ListNamespacesResponse(namespaces=self.namespaces.values())

    def GetNamespace(self, request: pb.GetNamespaceRequest, context: Context) -> pb.GetNamespaceResponse:
        return pb.GetNamespaceResponse(namespace=self._find(request.name, context))

    def CreateNamespace(
        self, request: pb.CreateNamespaceRequest, context: Context
    ) -> pb.CreateNamespaceResponse:
        ref = request.namespace
        made = pb.Namespace(
            name=ref.name, fingerprint=ref.fingerprint, vocab_size=request.vocab_size, limits=request.limits
        )
        return pb.CreateNamespaceResponse(namespace=self.namespaces.setdefault(ref.name, made))

    def UpdateNamespace(
        self, request: pb.UpdateNamespaceRequest, context: Context
    ) -> pb.UpdateNamespaceResponse:
        found = self._find(request.name, context)
        found.limits.CopyFrom(request.limits)
        return pb.UpdateNamespaceResponse(namespace=found)

    def CopyNamespace(self, request: pb.CopyNamespaceRequest, context: Context) -> pb.CopyNamespaceResponse:
        made = pb.Namespace()
        made.CopyFrom(self._find(request.source, context))
        if request.target in self.namespaces:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, f"namespace {request.target!r} exists")
        made.name = request.target
        self.namespaces[request.target] = made
        return pb.CopyNamespaceResponse(namespace=made)

    def DeleteNamespace(
        self, request: pb.DeleteNamespaceRequest, context: Context
    ) -> pb.DeleteNamespaceResponse:
        self._find(request.name, context)
        del self.namespaces[request.name]
        return pb.DeleteNamespaceResponse()

    def Learn(self, request_iterator: Iterator[pb.LearnRequest], context: Context) -> pb.LearnResponse:
        self.num_attempts += 1
        requests = list(request_iterator)
        if self.failures:
            context.abort(self.failures.pop(0), "told to fail")
        if len(requests) > self.largest_call:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many tokens a second")
        self.learned |= {request.sequence_id: request for request in requests}
        self.calls.append(len(requests))
        return pb.LearnResponse(num_sequences=len(requests))

    def Forget(self, request: pb.ForgetRequest, context: Context) -> pb.ForgetResponse:
        if request.sequence_id not in self.learned:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no sequence {request.sequence_id!r}")
        return pb.ForgetResponse(num_tokens=len(self.learned.pop(request.sequence_id).tokens))

    def ExportNamespace(
        self, request: pb.ExportNamespaceRequest, context: Context
    ) -> Iterator[pb.ExportNamespaceResponse]:
        self._find(request.name, context)
        yield pb.ExportNamespaceResponse(data=self.file[:100], total_bytes=self.file_bytes)
        for failure in self.failures:
            context.abort(failure, "told to fail")
        yield pb.ExportNamespaceResponse(data=self.file[100:])

    def ImportNamespace(
        self, request_iterator: Iterator[pb.ImportNamespaceRequest], context: Context
    ) -> pb.ImportNamespaceResponse:
        requests = list(request_iterator)
        self.imported = b"".join(request.data for request in requests)
        if self.imported != self.file:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a file of this service")
        assert {request.name for request in requests[1:]} <= {""}
        return pb.ImportNamespaceResponse(namespace=self.add(requests[0].name or "in-file", num_tokens=5))

    def GetTopDrafts(self, request: pb.GetTopDraftsRequest, context: Context) -> pb.GetTopDraftsResponse:
        self._find(request.name, context)
        return pb.GetTopDraftsResponse(drafts=self.top[: request.limit])

    def WriteSnapshot(self, request: pb.WriteSnapshotRequest, context: Context) -> pb.WriteSnapshotResponse:
        self._find(request.name, context)
        return pb.WriteSnapshotResponse(num_bytes=1234, num_tokens=56, num_trimmed=7)

    def VerifyNamespace(
        self, request: pb.VerifyNamespaceRequest, context: Context
    ) -> pb.VerifyNamespaceResponse:
        self._find(request.name, context)
        num_applied = self.applied.pop(0) if len(self.applied) > 1 else self.applied[0]
        return pb.VerifyNamespaceResponse(problems=self.problems, digest=self.digest, num_applied=num_applied)

    def Suggest(self, request: pb.SuggestRequest, context: Context) -> pb.SuggestResponse:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not implemented!")
        raise AssertionError

    def _find(self, name: str, context: Context) -> pb.Namespace:
        if name not in self.namespaces:
            context.abort(grpc.StatusCode.NOT_FOUND, f"namespace {name!r} does not exist")
        return self.namespaces[name]


@contextmanager
def serving(service: FakeAdminTrie) -> Iterator[str]:
    """Its address."""
    server = grpc.server(ThreadPoolExecutor(max_workers=8), options=[("grpc.so_reuseport", 0)])
    rpc.add_TrieServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(grace=None).wait()
