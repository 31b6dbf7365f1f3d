"""What only the store in Redis promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import numpy as np
import pytest
from redis.asyncio import Redis

from trie_service.embedded_store import EmbeddedServer
from trie_service.errors import StoreFullError, StoreUnavailableError, UnsupportedFormatError
from trie_service.namespace import NamespaceRecord, NamespaceRef
from trie_service.redis_keys import log_key, meta_key
from trie_service.redis_store import RedisStore, without_credentials
from trie_service.sequence import TokenSequence
from trie_service.store import START, Cursors

BOUND = 4000  # bytes: 1000 tokens


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


def record_of(name: str) -> NamespaceRecord:
    return NamespaceRecord.new(NamespaceRef(name, "fp"), vocab_size=1000)


def sequence_of(num_tokens: int) -> TokenSequence:
    return TokenSequence(uuid4().hex, np.zeros(num_tokens, dtype=np.int32))


async def test_a_log_keeps_the_newest_tokens_up_to_its_bound_and_little_more(
    server: EmbeddedServer, store: RedisStore
) -> None:
    record = await store.create(record_of("a"))
    rng = np.random.default_rng(7)
    for _ in range(200):
        lengths = rng.integers(1, 60, size=rng.integers(1, 20))
        await store.append(record, [sequence_of(int(length)) for length in lengths])
    async with Redis.from_url(server.url) as redis:
        entries = await redis.xrange(log_key(record))
        meta = await redis.hgetall(meta_key("a"))
    held = sum(len(fields[b"t"]) for _, fields in entries)
    assert BOUND <= held <= 2 * BOUND
    assert int(meta[b"log_bytes"]) == held
    numbers = [int(fields[b"n"]) for _, fields in entries]
    assert numbers == list(range(numbers[0], int(meta[b"appended"]) + 1))


async def test_a_deletion_that_was_cut_short_leaves_no_namespace(
    server: EmbeddedServer, store: RedisStore
) -> None:
    await store.create(record_of("a"))
    async with Redis.from_url(server.url) as redis:
        await redis.delete(meta_key("a"))
    assert (await store.registry()).records == ()
    created = await store.create(record_of("a"))
    assert (await store.registry()).records == (created,)


async def test_a_namespace_created_while_another_of_its_name_is_deleted_is_kept(
    server: EmbeddedServer, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = await store.create(record_of("a")), record_of("a")
    other, srem = RedisStore(server.url, max_log_bytes=BOUND), Redis.srem

    async def srem_late(redis: Redis, *words: str) -> None:
        await other.create(new)
        await srem(redis, *words)

    monkeypatch.setattr(Redis, "srem", srem_late)
    assert await store.delete(old)
    assert (await store.registry()).records == (new,)
    await other.close()


async def test_a_full_store_deletes(server: EmbeddedServer, store: RedisStore) -> None:
    record = await store.create(record_of("a"))
    async with Redis.from_url(server.url) as redis:
        await redis.config_set("maxmemory", "1")
        assert await redis.execute_command("CONFIG", "GET", "maxmemory")
        with pytest.raises(StoreFullError):
            await store.append(record, [sequence_of(1)])
        with pytest.raises(StoreFullError):
            await store.delete(record)  # the announcement needs room, the deletion does not
        await redis.config_set("maxmemory", "0")
    assert await store.was_deleted(record)
    assert (await store.registry()).records == ()


async def test_an_entry_that_makes_no_sense_is_told_and_stops_nobody(
    server: EmbeddedServer, store: RedisStore
) -> None:
    record = await store.create(record_of("a"))
    good = {"n": 1, "i": "s", "c": 0, "t": b"\x01\0\0\0"}
    async with Redis.from_url(server.url) as redis:
        for change in ({"t": b"\x01"}, {"t": b"\xff\xff\xff\xff"}, {"c": "x"}, {"i": b"\xff"}, {"t": ""}, {}):
            await redis.xadd(log_key(record), good | change)
        await redis.xadd(log_key(record), {"other": 1})
    entries = (await store.read(Cursors(START, {record: START}), wait_s=0)).logs[record]
    assert [entry.sequence is not None for entry in entries] == [False] * 5 + [True, False]


async def test_a_namespace_that_makes_no_sense_is_refused_and_stops_nobody(
    server: EmbeddedServer, store: RedisStore
) -> None:
    good = await store.create(record_of("good"))
    for name, field in (("a", "vocab_size"), ("b", "max_bytes"), ("c", "format"), ("d", "fingerprint")):
        await store.create(record_of(name))
        async with Redis.from_url(server.url) as redis:
            await redis.hset(meta_key(name), field, b"\xff")
    records = {record.name: record for record in (await store.registry()).records}
    assert records.pop("good") == good
    assert set(records) == set("abcd")
    for record in records.values():
        with pytest.raises(UnsupportedFormatError, match=f"'{record.name}' is stored in a format"):
            record.check_format()


async def test_a_store_that_is_gone_is_unavailable(server: EmbeddedServer, store: RedisStore) -> None:
    await store.connect()
    await server.stop()
    with pytest.raises(StoreUnavailableError, match=r"valkey\.sock"):
        await store.registry()


def test_credentials_are_never_shown() -> None:
    assert without_credentials("rediss://user:secret@host:6380/2?password=x") == "rediss://host:6380/2"
    assert without_credentials("unix:///run/redis.sock?password=x") == "unix:///run/redis.sock"
