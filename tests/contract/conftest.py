"""The stores that one suite runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from redis import Redis
from valkey_cluster import valkey_cluster

from trie_service.embedded_store import EmbeddedServer
from trie_service.memory_store import MemoryStore
from trie_service.redis_store import RedisStore
from trie_service.store import Store

MAX_LOG_BYTES = 1 << 20


@pytest.fixture(scope="session")
def cluster_ports() -> Iterator[list[int]]:
    """A cluster that the tests share."""
    with valkey_cluster() as cluster:
        yield cluster.ports


@pytest.fixture(params=["memory", "redis", "cluster"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    if request.param == "memory":
        yield MemoryStore()
        return
    opened = _redis_store() if request.param == "redis" else _cluster_store(request)
    async with opened as opened_store:
        await opened_store.connect()
        yield opened_store
        await opened_store.close()


@pytest.fixture(params=["redis", "cluster"])
async def large_store(request: pytest.FixtureRequest) -> AsyncIterator[RedisStore]:
    """An empty store of each kind that is no memory, for logs of any size."""
    opened = _redis_store(1 << 30) if request.param == "redis" else _cluster_store(request, 1 << 30)
    async with opened as opened_store:
        yield opened_store
        await opened_store.close()


@asynccontextmanager
async def _redis_store(max_log_bytes: int = MAX_LOG_BYTES) -> AsyncIterator[RedisStore]:
    server = EmbeddedServer(None)
    await server.start()
    yield RedisStore(server.url, max_log_bytes=max_log_bytes)
    await server.stop()


@asynccontextmanager
async def _cluster_store(
    request: pytest.FixtureRequest, max_log_bytes: int = MAX_LOG_BYTES
) -> AsyncIterator[RedisStore]:
    ports = request.getfixturevalue("cluster_ports")
    for port in ports:
        with Redis(port=port) as node:
            node.flushall()
    yield RedisStore(f"redis+cluster://127.0.0.1:{ports[0]}", max_log_bytes=max_log_bytes)
