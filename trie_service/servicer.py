"""The gRPC face of the index: convert, call one verb, convert back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1 import trie_pb2_grpc as rpc

from trie_service import __version__, convert
from trie_service.errors import InvalidArgumentError, TrieServiceError
from trie_service.index import DraftIndex
from trie_service.namespace import NamespaceRef
from trie_service.status import aborting

MAX_QUERIES_PER_MESSAGE = 1024

Context = grpc.aio.ServicerContext[Any, Any]


class TrieServicer(rpc.TrieServiceServicer):
    """Answers the calls of draftwell.trie.v1.TrieService."""

    def __init__(self, index: DraftIndex) -> None:
        self._index = index
        self._started_at = time.monotonic()

    async def Draft(
        self, request_iterator: AsyncIterator[pb.DraftRequest], context: Context
    ) -> AsyncIterator[pb.DraftResponse]:
        """Draft for batches of contexts; a query that fails harms no other."""
        async with aborting(context):
            async for request in request_iterator:
                if len(request.queries) > MAX_QUERIES_PER_MESSAGE:
                    raise InvalidArgumentError(
                        f"{len(request.queries)} queries in one message, more than {MAX_QUERIES_PER_MESSAGE}"
                    )
                answers = [self._answer(query) for query in request.queries]
                yield pb.DraftResponse(id=request.id, answers=answers)

    async def Suggest(self, request: pb.SuggestRequest, context: Context) -> pb.SuggestResponse:
        """Draft for one context."""
        async with aborting(context):
            draft = self._index.draft(convert.query_of(request.query, self._index.max_match_order))
            return pb.SuggestResponse(draft=convert.tree_message(draft))

    async def Learn(
        self, request_iterator: AsyncIterator[pb.LearnRequest], context: Context
    ) -> pb.LearnResponse:
        """Learn a stream of sequences."""
        async with aborting(context):
            receipt = await self._index.learn(convert.learn_items(request_iterator))
            return convert.receipt_message(receipt)

    async def CreateNamespace(
        self, request: pb.CreateNamespaceRequest, context: Context
    ) -> pb.CreateNamespaceResponse:
        """Create a namespace."""
        async with aborting(context):
            view = await self._index.create(convert.ref_of(request.namespace), request.vocab_size)
            return pb.CreateNamespaceResponse(namespace=convert.namespace_message(view))

    async def GetNamespace(
        self, request: pb.GetNamespaceRequest, context: Context
    ) -> pb.GetNamespaceResponse:
        """Describe one namespace."""
        async with aborting(context):
            view = await self._index.describe(NamespaceRef(request.name))
            return pb.GetNamespaceResponse(namespace=convert.namespace_message(view))

    async def ListNamespaces(
        self, request: pb.ListNamespacesRequest, context: Context
    ) -> pb.ListNamespacesResponse:
        """Describe all namespaces."""
        async with aborting(context):
            views = await self._index.describe_all()
            return pb.ListNamespacesResponse(namespaces=map(convert.namespace_message, views))

    async def DeleteNamespace(
        self, request: pb.DeleteNamespaceRequest, context: Context
    ) -> pb.DeleteNamespaceResponse:
        """Delete a namespace everywhere."""
        async with aborting(context):
            await self._index.delete(NamespaceRef(request.name))
            return pb.DeleteNamespaceResponse()

    async def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: Context
    ) -> pb.GetServerInfoResponse:
        """Describe this replica."""
        return pb.GetServerInfoResponse(
            version=__version__,
            state=convert.STATE_OF[self._index.state],
            store=self._index.store_description,
            uptime_seconds=time.monotonic() - self._started_at,
            max_match_order=self._index.max_match_order,
        )

    def _answer(self, message: pb.DraftQuery) -> pb.DraftAnswer:
        try:
            draft = self._index.draft(convert.query_of(message, self._index.max_match_order))
        except TrieServiceError as error:
            return convert.error_answer(error)
        return pb.DraftAnswer(draft=convert.tree_message(draft))
