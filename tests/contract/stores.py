"""The stores that one suite runs on, and what its tests put into them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import numpy as np
import pytest

from trie_service.embedded_store import EmbeddedServer
from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceRecord, NamespaceRef
from trie_service.redis_store import RedisStore
from trie_service.sequence import TokenSequence
from trie_service.store import START, Cursors, LogEntry, Store

MAX_LOG_BYTES = 1 << 20


@pytest.fixture(params=["memory", "redis"])
async def any_store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An empty store of each kind."""
    if request.param == "memory":
        yield MemoryStore()
        return
    server = EmbeddedServer(None)
    await server.start()
    redis_store = RedisStore(server.url, max_log_bytes=MAX_LOG_BYTES)
    await redis_store.connect()
    yield redis_store
    await redis_store.close()
    await server.stop()


def record_of(name: str, fingerprint: str = "fp") -> NamespaceRecord:
    """A namespace to create."""
    return NamespaceRecord.new(NamespaceRef(name, fingerprint), vocab_size=1000)


def sequence_of(*tokens: int, context_len: int = 0, sequence_id: str = "") -> TokenSequence:
    """A sequence to append, with a name of its own unless it is given."""
    return TokenSequence(sequence_id or uuid4().hex, np.array(tokens, dtype=np.int32), context_len)


async def read_log(store: Store, record: NamespaceRecord) -> list[LogEntry]:
    """All of a namespace's log."""
    changes = (await store.registry()).changes
    entries: list[LogEntry] = []
    while True:
        position = entries[-1].position if entries else START
        batch = await store.read(Cursors(changes, {record: position}), wait_s=0)
        if not batch.logs:
            return entries
        entries.extend(batch.logs[record])
