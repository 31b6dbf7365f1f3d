"""The gRPC face of the index: convert, call one verb, convert back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1 import trie_pb2_grpc as rpc

from trie_service import __version__, convert
from trie_service.errors import InvalidArgumentError
from trie_service.index import DraftIndex
from trie_service.metrics import Metrics
from trie_service.moving import in_pieces
from trie_service.namespace import NamespaceRef
from trie_service.status import aborting

MAX_QUERIES_PER_MESSAGE = 1024

Context = grpc.aio.ServicerContext[Any, Any]


class TrieServicer(rpc.TrieServiceServicer):
    """Answers the calls of draftwell.trie.v1.TrieService."""

    def __init__(self, index: DraftIndex, metrics: Metrics) -> None:
        self._index = index
        self._metrics = metrics
        self._started_at = time.monotonic()

    async def Draft(
        self, request_iterator: AsyncIterator[pb.DraftRequest], context: Context
    ) -> AsyncIterator[pb.DraftResponse]:
        """Draft for batches of contexts; a query that fails harms no other."""
        max_order = self._index.max_match_order
        async with aborting(context):
            async for request in request_iterator:
                if len(request.queries) > MAX_QUERIES_PER_MESSAGE:
                    raise InvalidArgumentError(
                        f"{len(request.queries)} queries in one message, more than {MAX_QUERIES_PER_MESSAGE}"
                    )
                with self._metrics.timing_draft():
                    queries = [convert.query_of(query, max_order) for query in request.queries]
                    answers = await self._index.drafter.draft_all(queries)
                yield pb.DraftResponse(id=request.id, answers=map(convert.answer_message, answers))

    async def Suggest(self, request: pb.SuggestRequest, context: Context) -> pb.SuggestResponse:
        """Draft for one context."""
        async with aborting(context):
            with self._metrics.timing_draft():
                draft = self._index.drafter.draft(
                    convert.query_of(request.query, self._index.max_match_order)
                )
            return pb.SuggestResponse(draft=convert.tree_message(draft))

    async def Learn(
        self, request_iterator: AsyncIterator[pb.LearnRequest], context: Context
    ) -> pb.LearnResponse:
        """Learn a stream of sequences."""
        async with aborting(context):
            receipt = await self._index.learner.learn(convert.learn_items(request_iterator))
            return convert.receipt_message(receipt)

    async def Forget(self, request: pb.ForgetRequest, context: Context) -> pb.ForgetResponse:
        """Take back what one sequence taught."""
        async with aborting(context):
            ref = convert.ref_of(request.namespace)
            num_tokens = await self._index.learner.forget(ref, request.sequence_id)
            return pb.ForgetResponse(num_tokens=num_tokens)

    async def CreateNamespace(
        self, request: pb.CreateNamespaceRequest, context: Context
    ) -> pb.CreateNamespaceResponse:
        """Create a namespace."""
        async with aborting(context):
            view = await self._index.namespaces.create(convert.record_of(request))
            return pb.CreateNamespaceResponse(namespace=convert.namespace_message(view))

    async def GetNamespace(
        self, request: pb.GetNamespaceRequest, context: Context
    ) -> pb.GetNamespaceResponse:
        """Describe one namespace."""
        async with aborting(context):
            view = await self._index.namespaces.describe(NamespaceRef(request.name))
            return pb.GetNamespaceResponse(namespace=convert.namespace_message(view))

    async def ListNamespaces(
        self, request: pb.ListNamespacesRequest, context: Context
    ) -> pb.ListNamespacesResponse:
        """Describe all namespaces."""
        async with aborting(context):
            views = await self._index.namespaces.describe_all()
            return pb.ListNamespacesResponse(namespaces=map(convert.namespace_message, views))

    async def UpdateNamespace(
        self, request: pb.UpdateNamespaceRequest, context: Context
    ) -> pb.UpdateNamespaceResponse:
        """Change the limits of a namespace."""
        async with aborting(context):
            limits = convert.limits_of(request.limits)
            view = await self._index.namespaces.update(NamespaceRef(request.name), limits)
            return pb.UpdateNamespaceResponse(namespace=convert.namespace_message(view))

    async def DeleteNamespace(
        self, request: pb.DeleteNamespaceRequest, context: Context
    ) -> pb.DeleteNamespaceResponse:
        """Delete a namespace everywhere."""
        async with aborting(context):
            await self._index.namespaces.delete(NamespaceRef(request.name))
            return pb.DeleteNamespaceResponse()

    async def CopyNamespace(
        self, request: pb.CopyNamespaceRequest, context: Context
    ) -> pb.CopyNamespaceResponse:
        """Make a new namespace that holds what another one holds."""
        async with aborting(context):
            view = await self._index.mover.copy(NamespaceRef(request.source), request.target)
            return pb.CopyNamespaceResponse(namespace=convert.namespace_message(view))

    async def ExportNamespace(
        self, request: pb.ExportNamespaceRequest, context: Context
    ) -> AsyncIterator[pb.ExportNamespaceResponse]:
        """Write a namespace out as one file."""
        async with aborting(context):
            data = await self._index.mover.export(NamespaceRef(request.name))
            total_bytes = len(data)
            for piece in in_pieces(data):
                yield pb.ExportNamespaceResponse(data=piece, total_bytes=total_bytes)
                total_bytes = 0

    async def ImportNamespace(
        self, request_iterator: AsyncIterator[pb.ImportNamespaceRequest], context: Context
    ) -> pb.ImportNamespaceResponse:
        """Make a new namespace from a file."""
        async with aborting(context):
            first = await anext(request_iterator, pb.ImportNamespaceRequest())
            pieces = convert.file_pieces(first, request_iterator)
            view = await self._index.mover.import_file(pieces, first.name)
            return pb.ImportNamespaceResponse(namespace=convert.namespace_message(view))

    async def GetTopDrafts(
        self, request: pb.GetTopDraftsRequest, context: Context
    ) -> pb.GetTopDraftsResponse:
        """What is drafted most."""
        async with aborting(context):
            top = self._index.top_drafts(NamespaceRef(request.name), request.limit)
            return pb.GetTopDraftsResponse(drafts=map(convert.top_draft_message, top))

    async def VerifyNamespace(
        self, request: pb.VerifyNamespaceRequest, context: Context
    ) -> pb.VerifyNamespaceResponse:
        """Check what this replica holds and what is stored."""
        async with aborting(context):
            return convert.findings_message(await self._index.verifier.verify(NamespaceRef(request.name)))

    async def WriteSnapshot(
        self, request: pb.WriteSnapshotRequest, context: Context
    ) -> pb.WriteSnapshotResponse:
        """Write a namespace's snapshot now."""
        async with aborting(context):
            receipt = await self._index.snapshots.write(NamespaceRef(request.name))
            return pb.WriteSnapshotResponse(
                num_bytes=receipt.num_bytes,
                num_tokens=receipt.num_tokens,
                num_trimmed=receipt.num_trimmed,
            )

    async def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: Context
    ) -> pb.GetServerInfoResponse:
        """Describe this replica."""
        return pb.GetServerInfoResponse(
            version=__version__,
            state=convert.STATE_OF[self._index.serving.state],
            store=self._index.store_description,
            uptime_seconds=time.monotonic() - self._started_at,
            max_match_order=self._index.max_match_order,
        )
