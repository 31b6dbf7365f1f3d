"""Reads what is new in many logs, a bounded number of bytes at a time.

Where all logs together may bring too much, some are read after the others. A cluster cannot block on streams
of several slots, so there they are asked again and again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias

from trie_service.errors import StoreUnavailableError
from trie_service.read_quota import ReadQuota
from trie_service.redis_keys import CHANGES_KEY
from trie_service.redis_nodes import Ask, RedisNodes

POLL_S: Final = 0.02
POLL_S_PER_LOG: Final = 0.0002  # a thousand namespaces are asked five times a second

Entries: TypeAlias = Sequence[tuple[bytes, Mapping[bytes, bytes]]]
Found: TypeAlias = dict[str, Entries]  # by key; only of those that have something new
Positions: TypeAlias = Mapping[str, str]  # by key; reading goes on after them

CallingFor = Callable[[float], AbstractAsyncContextManager[None]]


class RedisLogs:
    """Reads streams, that of the changes among them."""

    def __init__(self, redis: Any, calling: CallingFor, nodes: RedisNodes) -> None:  # noqa: ANN401 - redis-py's
        self._redis = redis
        self._calling = calling
        self._nodes = nodes
        self._quota = ReadQuota()
        self._first = 0  # of the logs, the one to read next

    async def read(self, positions: Positions, wait_s: float) -> Found:
        """Entries after the positions; wait up to ``wait_s`` for the first."""
        if self._nodes.is_cluster:
            return await self._poll(positions, wait_s)
        if self._quota.num_logs >= len(positions):
            return await self._xread(positions, wait_s)
        found = await self._sweep(positions)
        return found if found or wait_s <= 0 else await self._xread(positions, wait_s)

    async def _poll(self, positions: Positions, wait_s: float) -> Found:
        end = time.monotonic() + wait_s
        while True:
            found = await self._sweep(positions)
            if found or time.monotonic() >= end:
                return found
            await asyncio.sleep(POLL_S + POLL_S_PER_LOG * len(positions))

    async def _sweep(self, positions: Positions) -> Found:
        """Read some logs after the others until one has something new, or none has."""
        keys, found, num_read = list(positions), Found(), 0
        while num_read < len(keys) and not found.keys() - {CHANGES_KEY}:
            num_logs = min(self._quota.num_logs, len(keys) - num_read)
            places = range(self._first, self._first + num_logs)
            some = {key: positions[key] for key in (keys[place % len(keys)] for place in places)}
            found |= await (self._ask(some) if self._nodes.is_cluster else self._xread(some, 0.0))
            self._first = (self._first + num_logs) % len(keys)
            num_read += num_logs
        return found

    async def _xread(self, positions: Positions, wait_s: float) -> Found:
        count = self._quota.entries_of_each(len(positions))
        block_ms = max(1, int(wait_s * 1000)) if wait_s > 0 else None
        async with self._noted() as found, self._calling(wait_s):
            reply = await self._redis.xread(dict(positions), count=count, block=block_ms)
            found |= {key.decode(): entries for key, entries in reply or []}
        return found

    async def _ask(self, positions: Positions) -> Found:
        count, num_losses = self._quota.entries_of_each(len(positions)), self._nodes.num_losses
        asks = [Ask(key, partial(_put_xrange, key, after, count)) for key, after in positions.items()]
        async with self._noted() as found:
            replies = await self._nodes.ask(asks)
            found |= {key: entries for key, entries in zip(positions, replies, strict=True) if entries}
        if self._nodes.num_losses > num_losses:
            self._quota.note_failure()
        return found

    @asynccontextmanager
    async def _noted(self) -> AsyncIterator[Found]:
        """Let the quota learn from what is found within."""
        found = Found()
        try:
            yield found
        except StoreUnavailableError:
            self._quota.note_failure()
            raise
        sizes = [sum(map(len, fields.values())) for entries in found.values() for _, fields in entries]
        self._quota.note(len(sizes), sum(sizes))


def _put_xrange(key: str, position: str, count: int, pipeline: Any) -> None:  # noqa: ANN401 - redis-py's
    pipeline.xrange(key, min=f"({position}", count=count)
