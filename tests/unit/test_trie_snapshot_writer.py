"""Who writes snapshots, and what becomes of the others, over a store in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from index_replicas import CHAT, OPTIONS, BreakableStore, draft, learn, replica, until
from structlog.testing import capture_logs

from trie_service.errors import LeaseLostError, NamespaceNotFoundError, StoreFullError
from trie_service.index import DraftIndex
from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceRecord, NamespaceRef
from trie_service.service import compile_index
from trie_service.snapshot import Snapshot
from trie_service.snapshot_policy import SnapshotPolicy

ALWAYS = replace(OPTIONS, snapshots=SnapshotPolicy(interval_s=0, log_bytes=0, keep_s=-1, grace_s=0))
PATIENT = replace(OPTIONS, snapshots=SnapshotPolicy(interval_s=0, log_bytes=0, keep_s=-1, grace_s=3600))


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """No test waits for the compiler."""
    compile_index()


class FullStore(MemoryStore):
    """A store without room for snapshots."""

    async def write_snapshot(
        self, record: NamespaceRecord, snapshot: Snapshot, token: int, new_lineage: str = ""
    ) -> int:
        """Fail."""
        raise StoreFullError("full")


async def log_numbers(store: MemoryStore, index: DraftIndex) -> list[int]:
    cursors = index.namespaces.cursors()
    batch = await store.read(replace(cursors, logs=dict.fromkeys(cursors.logs, "0-0")), wait_s=0)
    return [entry.number for entries in batch.logs.values() for entry in entries]


async def learned(index: DraftIndex, *sequences: Sequence[int]) -> None:
    await learn(index, *sequences)
    await until(lambda: all(draft(index, tokens[0]) == list(tokens[1:]) for tokens in sequences))


async def test_what_is_due_is_written_and_the_log_is_trimmed() -> None:
    store = MemoryStore()
    async with replica(store, ALWAYS) as index:
        await learned(index, [1, 2], [3, 4])
        await index.snapshots.write_due()
        assert await log_numbers(store, index) == []
        async with replica(store, ALWAYS) as late:
            assert draft(late, 3) == [4]


async def test_nothing_is_written_twice() -> None:
    async with replica(MemoryStore(), ALWAYS) as index:
        await learned(index, [1, 2])
        with capture_logs() as logs:
            for _ in range(5):
                await index.snapshots.write_due()
        assert [entry["event"] for entry in logs].count("snapshot written") <= 1


async def test_while_another_replica_writes_the_call_says_so() -> None:
    store = MemoryStore()
    async with replica(store) as index:
        await learned(index, [1, 2])
        (memory,) = index.namespaces.all()
        await store.acquire_lease(memory.record, "another", ttl_s=60)
        with pytest.raises(LeaseLostError, match="another replica is writing"):
            await index.snapshots.write(CHAT)
        await store.release_lease(memory.record, "another")
        receipt = await index.snapshots.write(CHAT)
        assert (receipt.num_tokens, receipt.num_trimmed) == (2, 0)
        with pytest.raises(NamespaceNotFoundError):
            await index.snapshots.write(NamespaceRef("none"))


async def test_a_full_store_is_told_once_and_not_asked_at_once_again() -> None:
    async with replica(FullStore(), ALWAYS) as index:
        await learned(index, [1, 2])
        with capture_logs() as logs:
            for _ in range(5):
                await index.snapshots.write_due()
        assert [entry["event"] for entry in logs] == ["snapshot not written, trying again later"]
        assert draft(index, 1) == [2]


async def test_replicas_take_over_the_snapshot_that_replaces_a_damaged_one() -> None:
    store = MemoryStore()
    async with replica(store, PATIENT) as whole:
        await learned(whole, [1, 2])
        await whole.snapshots.write(CHAT)
        (memory,) = whole.namespaces.all()
        await store.reject_snapshot(memory.record)
        async with replica(store, PATIENT) as late:
            assert draft(late, 1) == []
            await late.snapshots.write_due()
            assert draft(late, 1) == []
            await whole.snapshots.write_due()
            await until(lambda: draft(late, 1) == [2])
            assert draft(whole, 1) == [2]


async def test_replicas_of_an_emptied_store_agree_on_one_memory() -> None:
    store = BreakableStore()
    async with replica(store) as one, replica(store) as other:
        await learned(one, [1, 2])
        await until(lambda: bool(other.namespaces.all()) and draft(other, 1) == [2])
        before = other.namespaces.all()[0].record.lineage
        store.empty()
        await learn(one, [3, 4])
        await until(lambda: draft(other, 3) == draft(one, 3) == [4])
        lineages = {index.namespaces.all()[0].record.lineage for index in (one, other)}
        assert len(lineages) == 1
        assert lineages != {before}
        assert draft(one, 1) == draft(other, 1) == [2]
