"""Snapshots, leases and trimming: one suite for every store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np
import pytest
from stores import read_log, record_of, sequence_of

from trie_service.errors import LeaseLostError, NamespaceNotFoundError, SnapshotCorruptError
from trie_service.namespace import NamespaceLimits, NamespaceRecord
from trie_service.sequence import Forgotten
from trie_service.snapshot import Snapshot
from trie_service.store import MAX_RECENT_IDS, START, Cursors, Store, Stored


def snapshot_of(*values: int, position: str = "5-0", number: int = 5) -> Snapshot:
    return Snapshot(position, number, {"a": np.array(values, dtype=np.int32)}, {"who": "é"})


async def until_given(ask: Callable[[], Awaitable[int | None]]) -> int:
    async with asyncio.timeout(5):
        while not (answer := await ask()):  # noqa: ASYNC110 - the store tells nobody
            await asyncio.sleep(0.002)
    return answer


async def write(store: Store, record: NamespaceRecord, snapshot: Snapshot, owner: str = "me") -> int:
    token = await store.acquire_lease(record, owner, ttl_s=60)
    assert token is not None
    await store.write_snapshot(record, snapshot, token)
    return token


async def stored(store: Store, record: NamespaceRecord) -> Stored:
    (kept,) = await store.stored([record])
    return kept


async def test_a_snapshot_is_read_as_it_was_written(store: Store) -> None:
    record = await store.create(record_of("a"))
    assert await store.read_snapshot(record) is None
    await write(store, record, snapshot_of(1, 2, 3))
    found = await store.read_snapshot(record)
    assert found is not None
    assert (found.position, found.number, dict(found.extra)) == ("5-0", 5, {"who": "é"})
    assert found.arrays["a"].tolist() == [1, 2, 3]


async def test_a_newer_snapshot_takes_the_place_of_the_old_one(store: Store) -> None:
    record = await store.create(record_of("a"))
    await write(store, record, snapshot_of(1))
    before = await stored(store, record)
    await write(store, record, snapshot_of(2, number=6, position="6-0"))
    found, after = await store.read_snapshot(record), await stored(store, record)
    assert found is not None
    assert (found.arrays["a"].tolist(), found.position) == ([2], "6-0")
    assert (before.snapshot_number, after.snapshot_number) == (5, 6)
    assert (before.snapshot_position, after.snapshot_position) == ("5-0", "6-0")
    assert after.snapshot_bytes > 0
    assert before.snapshot_ms <= after.snapshot_ms <= after.now_ms


async def test_a_snapshot_never_goes_back(store: Store) -> None:
    record = await store.create(record_of("a"))
    token = await write(store, record, snapshot_of(1))
    with pytest.raises(LeaseLostError):
        await store.write_snapshot(record, snapshot_of(2, number=4), token)
    found = await store.read_snapshot(record)
    assert found is not None
    assert found.arrays["a"].tolist() == [1]


async def test_of_two_who_believe_they_hold_the_lease_only_the_newer_one_writes(store: Store) -> None:
    record = await store.create(record_of("a"))
    old = await store.acquire_lease(record, "one", ttl_s=0.02)
    assert old is not None
    assert await store.acquire_lease(record, "one", ttl_s=0.02) == old
    assert await store.acquire_lease(record, "other", ttl_s=60) is None
    new = await until_given(lambda: store.acquire_lease(record, "other", ttl_s=60))
    assert new > old
    with pytest.raises(LeaseLostError, match="another replica"):
        await store.write_snapshot(record, snapshot_of(1), old)
    with pytest.raises(LeaseLostError):
        await store.trim(record, old, keep_s=0)
    await store.write_snapshot(record, snapshot_of(2), new)
    with pytest.raises(LeaseLostError):
        await store.write_snapshot(record, snapshot_of(3, number=9), old)
    found = await store.read_snapshot(record)
    assert found is not None
    assert found.arrays["a"].tolist() == [2]


async def test_a_lease_that_is_given_back_is_free_but_only_its_owner_gives_it_back(store: Store) -> None:
    record = await store.create(record_of("a"))
    first = await store.acquire_lease(record, "one", ttl_s=60)
    await store.release_lease(record, "other")
    assert await store.acquire_lease(record, "other", ttl_s=60) is None
    await store.release_lease(record, "one")
    second = await store.acquire_lease(record, "other", ttl_s=60)
    assert first is not None
    assert second is not None
    assert second > first


async def test_trimming_drops_what_the_snapshot_holds_and_nothing_else(store: Store) -> None:
    record = await store.create(record_of("a"))
    await store.append(record, [sequence_of(number, number) for number in range(600)])
    entries = await read_log(store, record)
    at = entries[400]
    token = await write(store, record, snapshot_of(1, position=at.position, number=at.number))
    assert await store.trim(record, token, keep_s=3600) == 0
    num_trimmed = 0
    while num_trimmed < 401:  # the clock has to move on first
        num_trimmed += await until_given(lambda: store.trim(record, token, keep_s=0))
    kept = await read_log(store, record)
    assert [entry.number for entry in kept] == list(range(402, 601))
    assert (await stored(store, record)).log_bytes == 199 * 8
    assert (await stored(store, record)).head == 600


async def test_nothing_is_trimmed_without_a_snapshot(store: Store) -> None:
    record = await store.create(record_of("a"))
    await store.append(record, [sequence_of(1)])
    token = await store.acquire_lease(record, "me", ttl_s=60)
    assert token is not None
    assert await store.trim(record, token, keep_s=0) == 0


async def test_a_rejected_snapshot_is_told_until_another_is_written(store: Store) -> None:
    record = await store.create(record_of("a"))
    await write(store, record, snapshot_of(1))
    await store.reject_snapshot(record)
    await store.reject_snapshot(record)
    assert (await stored(store, record)).is_snapshot_rejected
    with pytest.raises(SnapshotCorruptError):
        await store.read_snapshot(record)
    await write(store, record, snapshot_of(2, number=1))
    assert not (await stored(store, record)).is_snapshot_rejected
    assert await store.read_snapshot(record) is not None


async def test_a_new_lineage_is_announced_and_may_go_back(store: Store) -> None:
    record = await store.create(record_of("a"))
    await write(store, record, snapshot_of(1))
    cursors = Cursors((await store.registry()).changes, {})
    token = await write(store, record, snapshot_of(2, number=6))
    await store.write_snapshot(record, snapshot_of(3, number=0, position=START), token, "new")
    assert (await store.read(cursors, wait_s=0)).changed
    (found,) = (await store.registry()).records
    assert found.lineage == "new"


async def test_who_holds_the_text_of_a_lineage_that_is_gone_writes_no_snapshot(store: Store) -> None:
    record = await store.create(record_of("a"))
    token = await write(store, record, snapshot_of(1))
    await store.write_snapshot(record, snapshot_of(2, number=0, position=START), token, "new")
    for lineage in ("", "newer"):
        with pytest.raises(LeaseLostError):
            await store.write_snapshot(record, snapshot_of(3, number=9), token, lineage)
    found = await store.read_snapshot(record)
    assert found is not None
    assert found.arrays["a"].tolist() == [2]
    await store.write_snapshot(replace(record, lineage="new"), snapshot_of(4, number=1), token)


async def test_a_namespace_can_be_created_with_contents(store: Store) -> None:
    record = await store.create(record_of("a"), snapshot_of(1, 2))
    again = await store.create(record_of("a"), snapshot_of(3))
    found = await store.read_snapshot(again)
    assert again == record
    assert found is not None
    assert (found.position, found.number, found.arrays["a"].tolist()) == (START, 0, [1, 2])
    assert (await stored(store, record)).snapshot_ms > 0


async def test_limits_are_kept_and_announced(store: Store) -> None:
    limits = NamespaceLimits(max_bytes=1 << 20, max_tokens_per_second=7, text_ttl_s=60)
    record = await store.create(replace(record_of("a"), limits=limits))
    assert record.limits == limits
    cursors = Cursors((await store.registry()).changes, {})
    await store.update(replace(record, limits=NamespaceLimits(text_ttl_s=1)))
    assert (await store.read(cursors, wait_s=0)).changed
    found = await store.find("a")
    assert found == record
    assert found.limits == NamespaceLimits(text_ttl_s=1)


async def test_what_is_done_to_a_namespace_that_is_gone_says_so(store: Store) -> None:
    gone = await store.create(record_of("a"))
    await write(store, gone, snapshot_of(1))
    await store.delete(gone)
    await store.create(record_of("a"))
    for call in (
        store.update(gone),
        store.acquire_lease(gone, "me", 60),
        store.write_snapshot(gone, snapshot_of(1), 9),
        store.trim(gone, 9, 0),
        store.append(gone, [Forgotten("x")]),
    ):
        with pytest.raises(NamespaceNotFoundError, match="'a' was deleted"):
            await call
    assert await store.read_snapshot(gone) is None
    assert await stored(store, gone) == Stored()


async def test_a_sequence_id_is_learned_once_until_it_is_forgotten(store: Store) -> None:
    record = await store.create(record_of("a"))
    await store.append(record, [sequence_of(1, sequence_id="x"), sequence_of(1, sequence_id="x")])
    await store.append(record, [sequence_of(1, sequence_id="x"), sequence_of(2, sequence_id="y")])
    await store.append(record, [Forgotten("x"), sequence_of(1, sequence_id="x")])
    again = [sequence_of(1, sequence_id="x"), sequence_of(5, 6, 7, context_len=1, sequence_id="z")]
    assert await store.append(record, again) == 2
    assert await store.append(record, again) == 0
    entries = await read_log(store, record)
    names = [entry.forgotten or entry.sequence.sequence_id for entry in entries if entry.is_readable]
    assert names == ["x", "y", "x", "x", "z"]
    assert [entry.number for entry in entries] == [1, 2, 3, 4, 5]
    assert entries[2].forgotten == "x"
    assert entries[2].sequence is None


async def test_ids_are_remembered_within_bounds(store: Store) -> None:
    record = await store.create(record_of("a"))
    for first in range(0, MAX_RECENT_IDS + 1, 1024):
        await store.append(record, [sequence_of(1, sequence_id=str(first + i)) for i in range(1024)])
    head = (await stored(store, record)).head
    await store.append(record, [sequence_of(1, sequence_id=str(head - 1))])
    assert (await stored(store, record)).head == head
    await store.append(record, [sequence_of(1, sequence_id="0")])
    assert (await stored(store, record)).head == head + 1


async def test_entries_tell_when_they_were_appended(store: Store) -> None:
    record = await store.create(record_of("a"))
    before = (await stored(store, record)).now_ms
    await store.append(record, [sequence_of(1)])
    (entry,) = await read_log(store, record)
    assert before <= entry.appended_ms <= (await stored(store, record)).now_ms
