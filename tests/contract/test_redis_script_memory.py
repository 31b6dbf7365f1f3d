"""The scripts take little of a log into their memory at once, however large its entries are."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
from redis.asyncio import Redis
from stores import record_of, sequence_of

from trie_service.embedded_store import EmbeddedServer
from trie_service.redis_store import RedisStore
from trie_service.sequence import MAX_SEQUENCE_LEN, TokenSequence
from trie_service.snapshot import Snapshot
from trie_service.store import START

MIB = 1 << 20
BOUND = 48 * MIB
MOST_AT_ONCE = 16 * MIB
LARGE = np.zeros(MAX_SEQUENCE_LEN, dtype=np.int32)  # a mebibyte


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    embedded = EmbeddedServer(None)
    await embedded.start()
    yield embedded
    await embedded.stop()


@pytest.fixture
async def store(server: EmbeddedServer) -> AsyncIterator[RedisStore]:
    redis_store = RedisStore(server.url, max_log_bytes=BOUND)
    yield redis_store
    await redis_store.close()


@pytest.fixture
async def redis(server: EmbeddedServer) -> AsyncIterator[Redis]:
    async with Redis.from_url(server.url) as client:
        yield client


async def peak(redis: Redis) -> int:
    """Bytes at the peak since the last call, above what is held now."""
    info = await redis.info("memory")
    await redis.config_resetstat()
    return int(info["used_memory_peak"]) - int(info["used_memory"])


async def num_calls(redis: Redis) -> int:
    """Calls of scripts since the last look at the peak."""
    statistics = await redis.info("commandstats")
    return int(statistics.get("cmdstat_eval", {}).get("calls", 0))


async def test_an_append_to_a_full_log_of_large_entries(store: RedisStore, redis: Redis) -> None:
    record = await store.create(record_of("a"))
    for number in range(48):
        await store.append(record, [TokenSequence(f"large {number}", LARGE)])
    await peak(redis)
    await store.append(record, [sequence_of(1) for _ in range(256)])
    assert await peak(redis) < MOST_AT_ONCE
    (stored,) = await store.stored([record])
    assert (stored.head, stored.log_bytes) == (48 + 256, BOUND + 4 * 256)
    await store.append(record, [TokenSequence("last", LARGE)])
    (stored,) = await store.stored([record])
    assert BOUND <= stored.log_bytes <= BOUND + MIB


async def test_a_trim_of_large_entries(store: RedisStore, redis: Redis) -> None:
    record = await store.create(record_of("a"))
    for number in range(40):
        await store.append(record, [TokenSequence(f"large {number}", LARGE)])
    await store.append(record, [sequence_of(1) for _ in range(1000)])
    token = await store.acquire_lease(record, "me", 10)
    assert token is not None
    (stored,) = await store.stored([record])
    await store.write_snapshot(record, Snapshot(START, stored.head - 3, {}, {}), token)
    await peak(redis)
    calls = await num_calls(redis)
    assert await store.trim(record, token, keep_s=-1) == stored.head - 3
    assert 5 <= await num_calls(redis) - calls <= 12
    assert await peak(redis) < 40 * MIB + MOST_AT_ONCE
    (stored,) = await store.stored([record])
    assert stored.log_bytes == 3 * 4
