"""The standard health service.

The empty name and ``draftwell.trie.v1.TrieService`` are SERVING while drafts are answered;
``draftwell.trie.v1.TrieService.Learn`` only while sequences can be learned too: the store being out of reach
must not take a replica out of rotation.
"""

from __future__ import annotations

import asyncio

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as aio_health  # type: ignore[attr-defined]  # not in the stubs

from trie_service.serving import ServingState

DRAFT_SERVICES = ("", "draftwell.trie.v1.TrieService")
LEARN_SERVICE = "draftwell.trie.v1.TrieService.Learn"


class Health:
    """Says what the replica's state means to those who ask."""

    def __init__(self) -> None:
        self._servicer = aio_health.HealthServicer()
        self._updates: set[asyncio.Task[None]] = set()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve it."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    def note(self, state: ServingState) -> None:
        """Make a change of state known, soon."""
        update = asyncio.ensure_future(self.set(state))
        self._updates.add(update)
        update.add_done_callback(self._updates.discard)

    async def set(self, state: ServingState) -> None:
        """Make a state known."""
        for service in DRAFT_SERVICES:
            await self._servicer.set(service, _status(serving=state is not ServingState.LOADING))
        await self._servicer.set(LEARN_SERVICE, _status(serving=state is ServingState.SERVING))

    async def stop(self) -> None:
        """Nothing is served any more, for good."""
        await self._servicer.enter_graceful_shutdown()


def _status(*, serving: bool) -> int:
    statuses = health_pb2.HealthCheckResponse
    status: int = statuses.SERVING if serving else statuses.NOT_SERVING
    return status
