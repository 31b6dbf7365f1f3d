"""Writes snapshots and trims the logs behind them, one replica at a time for each namespace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from uuid import uuid4

import structlog

from trie_service.errors import (
    LeaseLostError,
    NamespaceNotFoundError,
    StoreUnavailableError,
    TrieServiceError,
)
from trie_service.memory import NamespaceMemory
from trie_service.namespace import NamespaceRef
from trie_service.namespaces import Namespaces
from trie_service.serving import Serving, ServingState
from trie_service.snapshot_policy import SnapshotPolicy
from trie_service.store import Store, Stored

LONGEST_PAUSE_S = 1.0
RETRY_S = 10.0  # after a failure; encoding it all again is not cheap

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SnapshotReceipt:
    """What was written, and what could be dropped for it."""

    num_bytes: int  # in the store
    num_tokens: int
    num_trimmed: int  # entries of the log


class SnapshotWriter:
    """Looks every second or so for namespaces whose snapshot is due. Drafts never wait for it."""

    def __init__(
        self, store: Store, namespaces: Namespaces, serving: Serving, policy: SnapshotPolicy
    ) -> None:
        self._store = store
        self._namespaces = namespaces
        self._serving = serving
        self._policy = policy
        self._owner = uuid4().hex
        self._since_ms: dict[str, int] = {}  # when a snapshot was first found wanting, by incarnation
        self._retry_at: dict[str, float] = {}  # after a failure, by incarnation
        self._is_writing = asyncio.Lock()

    async def run(self) -> None:
        """Work until cancelled, through any outage of the store."""
        pause_s = min(LONGEST_PAUSE_S, self._policy.interval_s / 4)
        while True:
            await asyncio.sleep(pause_s)
            if self._serving.state is ServingState.SERVING:
                with suppress(StoreUnavailableError):  # the follower says so
                    await self.write_due()

    async def write_due(self) -> None:
        """Write the snapshots that are due; part with namespaces that are gone."""
        memories = self._namespaces.all()
        numbers = [memory.num_applied for memory in memories]
        stored = await self._store.stored([memory.record for memory in memories])
        for memory, number, found in zip(memories, numbers, stored, strict=True):
            memory.note_stored(found)
            if self._is_due(memory, number, found):
                await self._write_or_tell(memory)
        pairs = zip(memories, stored, strict=True)
        if gone := [memory for memory, found in pairs if found.is_gone]:
            await self._namespaces.part_with(gone)
        self._keep({memory.record.incarnation for memory in memories})

    async def write(self, ref: NamespaceRef) -> SnapshotReceipt:
        """Write a namespace's snapshot now.

        Raises LeaseLostError while another replica does, and the errors of the store and of an unknown namespace.
        """
        memory = self._namespaces.memory_of(ref)
        self._serving.require_store()
        receipt = await self._write(memory)
        if receipt is None:
            raise LeaseLostError(f"another replica is writing the snapshot of namespace {ref.name!r}")
        return receipt

    def _is_due(self, memory: NamespaceMemory, number: int, stored: Stored) -> bool:
        if stored.is_out_of_reach:
            return False
        incarnation = memory.record.incarnation
        since_ms = self._since_ms.setdefault(incarnation, stored.now_ms)
        if time.monotonic() < self._retry_at.get(incarnation, 0.0):
            return False
        if not memory.is_partial and (memory.is_ahead or stored.has_lost(number)):
            return True
        return self._policy.is_due(stored, since_ms=since_ms, is_partial=memory.is_partial)

    def _keep(self, incarnations: set[str]) -> None:
        for times in (self._since_ms, self._retry_at):
            for gone in times.keys() - incarnations:
                del times[gone]

    async def _write_or_tell(self, memory: NamespaceMemory) -> None:
        record = memory.record
        try:
            await self._write(memory)
            self._retry_at.pop(record.incarnation, None)
        except NamespaceNotFoundError:
            return  # deleted meanwhile
        except (LeaseLostError, StoreUnavailableError) as error:
            if record.incarnation not in self._retry_at:
                log.warning(
                    "snapshot not written, trying again later", namespace=record.name, error=str(error)
                )
            self._retry_at[record.incarnation] = time.monotonic() + RETRY_S

    async def _write(self, memory: NamespaceMemory) -> SnapshotReceipt | None:
        """None where another replica is at it."""
        started = time.monotonic()
        async with self._is_writing, self._leased(memory) as token:
            if token is None:
                return None
            receipt = await self._write_leased(memory, token)
        self._since_ms.pop(memory.record.incarnation, None)
        log.info(
            "snapshot written",
            namespace=memory.record.name,
            num_bytes=receipt.num_bytes,
            num_tokens=receipt.num_tokens,
            num_trimmed=receipt.num_trimmed,
            seconds=round(time.monotonic() - started, 3),
        )
        return receipt

    async def _write_leased(self, memory: NamespaceMemory, token: int) -> SnapshotReceipt:
        number = memory.num_applied
        (stored,) = await self._store.stored([memory.record])
        if stored.has_lost(number):
            stored = await self._namespaces.read_again(memory)
        record, num_tokens = memory.record, memory.text.trie.num_tokens
        # Text that is in no log and no snapshot may be in memory: all are to hold the same.
        lineage = uuid4().hex if stored.is_snapshot_rejected or memory.is_ahead else ""
        snapshot = await memory.snapshot()
        num_bytes = await self._store.write_snapshot(record, snapshot, token, lineage)
        memory.record = replace(memory.record, lineage=lineage or record.lineage)
        memory.is_partial = memory.is_ahead = False
        num_trimmed = await self._store.trim(record, token, self._policy.keep_s)
        return SnapshotReceipt(num_bytes, num_tokens, num_trimmed)

    @asynccontextmanager
    async def _leased(self, memory: NamespaceMemory) -> AsyncIterator[int | None]:
        token = await self._store.acquire_lease(memory.record, self._owner, self._policy.lease_s)
        if token is None:
            yield None
            return
        renewal = asyncio.create_task(self._renew(memory))
        try:
            yield token
        finally:
            renewal.cancel()
            with suppress(TrieServiceError):
                await self._store.release_lease(memory.record, self._owner)

    async def _renew(self, memory: NamespaceMemory) -> None:
        """Keep the lease while it is needed. Where that fails, the switch to the new snapshot is refused."""
        with suppress(TrieServiceError):
            while True:
                await asyncio.sleep(self._policy.lease_s / 3)
                await self._store.acquire_lease(memory.record, self._owner, self._policy.lease_s)
