"""Snapshots in Redis or Valkey: a hash with a header and numbered chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from trie_service import redis_keys as keys
from trie_service.errors import SnapshotCorruptError, StoreUnavailableError
from trie_service.namespace import NamespaceRecord
from trie_service.snapshot import Snapshot
from trie_service.snapshot_codec import SnapshotDecoder, SnapshotEncoder

HEADER_FIELD: Final = "header"
STAGED_FOR_S: Final = 120  # a snapshot that nobody goes on writing
CHUNKS_PER_READ: Final = 4

Calling = Callable[[], AbstractAsyncContextManager[None]]


class RedisSnapshots:
    """Writes and reads chunk by chunk; encoding and decoding happen in other threads."""

    def __init__(self, redis: Any, calling: Calling) -> None:  # noqa: ANN401 - a client of redis-py
        self._redis = redis
        self._calling = calling

    async def stage(self, key: str, snapshot: Snapshot) -> int:
        """Write a snapshot under a key of its own, which expires; return its bytes."""
        encoder = SnapshotEncoder(snapshot)
        chunks = encoder.chunks()
        num_bytes = number = 0
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            await self._stage_field(key, str(number), chunk)
            num_bytes += len(chunk)
            number += 1
        header = encoder.header()
        await self._stage_field(key, HEADER_FIELD, header)
        return num_bytes + len(header)

    async def drop(self, key: str) -> None:
        """Unlink a key if the store can be reached; else it expires."""
        try:
            async with self._calling():
                await self._redis.unlink(key)
        except StoreUnavailableError:
            return

    async def read(self, record: NamespaceRecord) -> Snapshot | None:
        """The newest snapshot; read again where another one took its place meanwhile."""
        while True:
            (header,) = await self._fields(record, [HEADER_FIELD])
            if header is None:
                return None
            try:
                return await self._read_chunks(record, header)
            except SnapshotCorruptError:
                if await self._fields(record, [HEADER_FIELD]) == [header]:
                    raise

    async def _stage_field(self, key: str, field: str, value: bytes) -> None:
        async with self._calling(), self._redis.pipeline(transaction=False) as pipeline:
            pipeline.hset(key, field, value)
            pipeline.expire(key, STAGED_FOR_S)
            await pipeline.execute()

    async def _read_chunks(self, record: NamespaceRecord, header: bytes) -> Snapshot:
        decoder = await asyncio.to_thread(SnapshotDecoder, header)
        for first in range(0, decoder.num_chunks, CHUNKS_PER_READ):
            numbers = range(first, min(first + CHUNKS_PER_READ, decoder.num_chunks))
            chunks = await self._fields(record, list(map(str, numbers)))
            await asyncio.to_thread(_decode, decoder, chunks)
        return decoder.snapshot()

    async def _fields(self, record: NamespaceRecord, fields: list[str]) -> list[bytes | None]:
        async with self._calling():
            values: list[bytes | None] = await self._redis.hmget(keys.snapshot_key(record), fields)
        return values


def _decode(decoder: SnapshotDecoder, chunks: Sequence[bytes | None]) -> None:
    for chunk in chunks:
        decoder.add(chunk or b"")
