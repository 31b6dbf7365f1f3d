"""Keeps an index up to date with the store, and tells how the replica fares."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import structlog

from trie_service.errors import NodeUnavailableError, StoreUnavailableError
from trie_service.index import DraftIndex
from trie_service.serving import ServingState
from trie_service.store import Store

READ_WAIT_S = 1.0
FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 2.0

log = structlog.get_logger()


class Follower:
    """Reads the logs into memory, first to their end and then for ever."""

    def __init__(self, store: Store, index: DraftIndex) -> None:
        self._store = store
        self._index = index
        self._refused: set[str] = set()

    async def catch_up(self) -> None:
        """Rebuild memory from the store; raise StoreUnavailableError without it."""
        await self._reconcile()
        while await self._read(wait_s=0.0) or await self._index.namespaces.refresh_trimmed():
            pass

    async def run(self) -> None:
        """Follow until cancelled, through any outage of the store."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                await self._follow()
            except NodeUnavailableError:  # the store has said so; where no node answers a read says it
                pass
            except StoreUnavailableError as error:
                if self._index.serving.state is not ServingState.DEGRADED:
                    log.warning("store lost: drafts go on, learning does not", error=str(error))
                    backoff_s = FIRST_BACKOFF_S
                self._index.serving.state = ServingState.DEGRADED
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))
            backoff_s = min(2 * backoff_s, LONGEST_BACKOFF_S)

    async def _follow(self) -> None:
        try:
            await self.catch_up()
        except NodeUnavailableError:  # what the others keep is read all the same
            await self._read(wait_s=0.0)
        if self._index.serving.state is ServingState.DEGRADED:
            log.info("store is back and memory has caught up", store=self._store.description)
        self._index.serving.state = ServingState.SERVING
        while True:
            if not await self._read(READ_WAIT_S):
                await self._look_around()

    async def _look_around(self) -> None:
        """Notice what no entry of a log would tell."""
        with suppress(NodeUnavailableError):
            if await self._index.namespaces.store_changed():
                await self._reconcile()
        await self._index.namespaces.refresh_trimmed()

    async def _read(self, wait_s: float) -> bool:
        """Apply what is new; False where nothing was."""
        cursors = self._index.namespaces.cursors()
        batch = await self._store.read(cursors, wait_s)
        if batch.changed:
            await self._reconcile()
        for record, entries in batch.logs.items():
            if unreadable := sum(not entry.is_readable for entry in entries):
                log.error("log entries make no sense, skipped", namespace=record.name, entries=unreadable)
        await self._index.reader.apply(batch, cursors)
        return bool(batch.logs)

    async def _reconcile(self) -> None:
        await self._index.namespaces.reconcile()
        refusals = self._index.namespaces.refusals()
        for name in refusals.keys() - self._refused:
            log.error("namespace refused", namespace=name, error=refusals[name])
        self._refused = set(refusals)
