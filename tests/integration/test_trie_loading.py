"""What a replica says before it serves."""

from __future__ import annotations

import grpc
import pytest
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1 import trie_pb2_grpc as rpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from trie_service.config import TrieConfig
from trie_service.drafting import DraftLimits
from trie_service.health import DRAFT_SERVICES, LEARN_SERVICE, Health
from trie_service.index import DraftIndex
from trie_service.limits import ServiceLimits
from trie_service.memory_store import MemoryStore
from trie_service.options import IndexOptions
from trie_service.service import listening
from trie_service.serving import ServingState

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING
OPTIONS = IndexOptions(
    max_order=8,
    limits=ServiceLimits(max_bytes=1 << 20),
    auto_create=True,
    default_limits=DraftLimits(max_nodes=8),
)


async def test_health_follows_the_state_and_calls_before_it_serves_are_unavailable() -> None:
    index, health = DraftIndex(MemoryStore(), OPTIONS), Health()
    await health.set(index.serving.state)
    config = TrieConfig.load({"listen": "127.0.0.1:0"})
    async with listening(config, index, health) as address, grpc.aio.insecure_channel(address) as channel:
        checker, trie = health_pb2_grpc.HealthStub(channel), rpc.TrieServiceStub(channel)

        async def statuses() -> list[int]:
            names = (*DRAFT_SERVICES, LEARN_SERVICE)
            return [
                (await checker.Check(health_pb2.HealthCheckRequest(service=name))).status for name in names
            ]

        assert await statuses() == [NOT_SERVING] * 3
        info = await trie.GetServerInfo(pb.GetServerInfoRequest())
        assert info.state == pb.SERVING_STATE_LOADING
        query = pb.DraftQuery(namespace=pb.NamespaceRef(name="chat"), context=[1])
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await trie.Suggest(pb.SuggestRequest(query=query))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "loading" in str(caught.value.details())
        await health.set(ServingState.DEGRADED)
        assert await statuses() == [SERVING, SERVING, NOT_SERVING]
        await health.set(ServingState.SERVING)
        assert await statuses() == [SERVING] * 3
