"""A store that came back without its newest writes: replicas agree, and lose nothing that was learned since."""

from __future__ import annotations

from dataclasses import replace

import pytest
from index_replicas import CHAT, OPTIONS, BreakableStore, draft, learn, replica, until
from structlog.testing import capture_logs

from trie_service.errors import UnsupportedFormatError
from trie_service.follow import Follower
from trie_service.index import DraftIndex
from trie_service.namespace import NamespaceRecord
from trie_service.service import compile_index
from trie_service.serving import ServingState
from trie_service.snapshot import Snapshot
from trie_service.snapshot_policy import SnapshotPolicy

EAGER = replace(OPTIONS, snapshots=SnapshotPolicy(interval_s=0, log_bytes=0, keep_s=-1))
RARE = replace(OPTIONS, snapshots=SnapshotPolicy(interval_s=3600))


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """No test waits for the compiler."""
    compile_index()


class NewerStore(BreakableStore):
    """A store whose snapshots a newer version has written."""

    is_newer = False

    async def read_snapshot(self, record: NamespaceRecord) -> Snapshot | None:
        """Refuse where newer."""
        if self.is_newer:
            raise UnsupportedFormatError("the snapshot is in format 2")
        return await super().read_snapshot(record)


def drafted(index: DraftIndex, *pairs: tuple[int, int]) -> bool:
    return bool(index.namespaces.all()) and all(draft(index, first) == [second] for first, second in pairs)


async def test_what_is_learned_under_numbers_that_come_again_is_drafted() -> None:
    store = BreakableStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2], [3, 4], [5, 6])
        await until(lambda: drafted(one, (5, 6)) and drafted(other, (5, 6)))
        store.lose_newest("chat", 2)
        await learn(one, [7, 8])
        await until(lambda: all(drafted(index, (7, 8)) for index in (one, other)))
        await learn(one, [9, 10], [11, 12])
        await until(lambda: all(drafted(index, (9, 10), (11, 12), (1, 2)) for index in (one, other)))


async def test_no_snapshot_covers_numbers_that_come_again() -> None:
    store = BreakableStore()
    async with replica(store, EAGER) as one:
        await learn(one, [1, 2], [3, 4], [5, 6])
        await until(lambda: drafted(one, (5, 6)))
        store.lose_newest("chat", 2)
        await one.snapshots.write_due()
        await learn(one, [7, 8])
        async with replica(store, EAGER) as late:
            assert drafted(late, (7, 8))
        await one.snapshots.write_due()
        async with replica(store, EAGER) as late:
            assert drafted(late, (7, 8))


async def test_replicas_agree_on_the_memory_of_one_that_still_has_what_was_lost() -> None:
    store = BreakableStore()
    async with replica(store, RARE) as one, replica(store, RARE) as other:
        await learn(one, [1, 2])
        await until(lambda: drafted(one, (1, 2)) and drafted(other, (1, 2)))
        await one.snapshots.write(CHAT)
        await learn(one, [3, 4], [5, 6])
        await until(lambda: drafted(one, (5, 6)) and drafted(other, (5, 6)))
        store.lose_newest("chat", 1)
        with capture_logs() as logs:
            await one.snapshots.write_due()
            await other.snapshots.write_due()
        lost = [entry for entry in logs if "lost" in entry["event"]]
        assert len(lost) in {1, 2}
        (record,) = (await store.registry()).records
        held = [index.namespaces.all for index in (one, other)]
        await until(lambda: all(found()[0].record.lineage == record.lineage for found in held))
        async with replica(store, RARE) as late:
            assert drafted(late, (1, 2), (3, 4), (5, 6))


async def test_a_namespace_that_the_store_lost_is_restored_from_memory() -> None:
    store = BreakableStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2])
        await until(lambda: drafted(one, (1, 2)) and drafted(other, (1, 2)))
        store.lose("chat")
        for index in (one, other):
            await index.namespaces.reconcile()
        assert drafted(one, (1, 2))
        await until(lambda: drafted(other, (1, 2)))
        async with replica(store) as late:
            assert drafted(late, (1, 2))


async def test_a_namespace_that_was_deleted_is_not_restored() -> None:
    store = BreakableStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2])
        await until(lambda: drafted(one, (1, 2)) and drafted(other, (1, 2)))
        await one.namespaces.delete(CHAT)
        await until(lambda: other.namespaces.all() == [])
        assert (await store.registry()).records == ()


async def test_a_namespace_deleted_after_the_store_was_emptied_is_not_restored_by_a_slow_replica() -> None:
    store = BreakableStore()
    slow = DraftIndex(store, OPTIONS)
    async with replica(store) as one:
        await learn(one, [1, 2])
        await until(lambda: drafted(one, (1, 2)))
        await Follower(store, slow).catch_up()
        slow.serving.state = ServingState.SERVING
        assert drafted(slow, (1, 2))
        store.empty()
        await one.namespaces.reconcile()
        assert drafted(one, (1, 2))
        await one.namespaces.delete(CHAT)
        await slow.namespaces.reconcile()
        assert slow.namespaces.all() == []
        assert (await store.registry()).records == ()


async def test_a_deletion_that_nobody_announced_is_noticed() -> None:
    store = BreakableStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2])
        await until(lambda: drafted(one, (1, 2)) and drafted(other, (1, 2)))
        await store.delete_silently("chat")
        await other.snapshots.write_due()
        assert other.namespaces.all() == []


async def test_what_was_trimmed_unread_is_loaded_though_nothing_new_is_learned() -> None:
    store = BreakableStore()
    async with replica(store, EAGER) as one:
        await learn(one, [1, 2])
        await until(lambda: drafted(one, (1, 2)))
        slow = DraftIndex(store, EAGER)
        follower = Follower(store, slow)
        await follower.catch_up()
        await learn(one, [3, 4])
        await until(lambda: drafted(one, (3, 4)))
        assert (await one.snapshots.write(CHAT)).num_trimmed == 2
        await follower.catch_up()
        (memory,) = slow.namespaces.all()
        assert memory.num_applied == 2


async def test_a_snapshot_of_a_newer_version_stops_no_replica_that_missed_entries() -> None:
    store = NewerStore()
    async with replica(store, EAGER) as one:
        await learn(one, [1, 2])
        await until(lambda: drafted(one, (1, 2)))
        old = DraftIndex(store, EAGER)
        follower = Follower(store, old)
        await follower.catch_up()
        await learn(one, [3, 4])
        await until(lambda: drafted(one, (3, 4)))
        await one.snapshots.write(CHAT)
        store.is_newer = True
        await follower.catch_up()
        assert old.namespaces.all() == []
        assert "format 2" in old.namespaces.refusals()["chat"]
