"""One suite for every store."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from stores import read_log, record_of, sequence_of

from trie_service.errors import NamespaceNotFoundError
from trie_service.store import START, Cursors, Store


async def test_a_created_namespace_is_in_the_registry(store: Store) -> None:
    record = await store.create(record_of("a"))
    assert (await store.registry()).records == (record,)
    assert await store.find("a") == record
    assert await store.find("b") is None


async def test_creating_again_returns_the_namespace_that_exists(store: Store) -> None:
    first = await store.create(record_of("a", "one"))
    assert await store.create(record_of("a", "two")) == first


async def test_a_deleted_namespace_is_gone_with_its_log(store: Store) -> None:
    record = await store.create(record_of("a"))
    await store.append(record, [sequence_of(1, 2)])
    assert await store.delete(record)
    assert not await store.delete(record)
    assert await store.find("a") is None
    assert (await store.registry()).records == ()
    assert await read_log(store, record) == []


async def test_it_is_remembered_which_incarnation_was_deleted(store: Store) -> None:
    old = await store.create(record_of("a"))
    assert not await store.was_deleted(old)
    await store.delete(old)
    new = await store.create(record_of("a"))
    assert await store.was_deleted(old)
    assert not await store.was_deleted(new)


async def test_a_namespace_created_again_starts_with_an_empty_log(store: Store) -> None:
    old = await store.create(record_of("a"))
    await store.append(old, [sequence_of(1, 2)])
    await store.delete(old)
    new = await store.create(record_of("a"))
    assert new.incarnation != old.incarnation
    assert await read_log(store, new) == []
    with pytest.raises(NamespaceNotFoundError, match="'a' was deleted"):
        await store.append(old, [sequence_of(3)])
    assert await read_log(store, old) == []


async def test_the_log_returns_what_was_appended_in_order(store: Store) -> None:
    record = await store.create(record_of("a"))
    await store.append(
        record, [sequence_of(1, 2, 999, context_len=1, sequence_id="x"), sequence_of(4, sequence_id="s")]
    )
    await store.append(record, [sequence_of(5, 6, sequence_id="ÿ")])
    entries = await read_log(store, record)
    assert [entry.sequence.tokens.tolist() for entry in entries] == [[1, 2, 999], [4], [5, 6]]
    assert [entry.sequence.sequence_id for entry in entries] == ["x", "s", "ÿ"]
    assert [entry.sequence.context_len for entry in entries] == [1, 0, 0]
    assert [entry.number for entry in entries] == [1, 2, 3]
    assert entries[0].sequence.tokens.dtype == np.int32


async def test_reading_goes_on_after_the_cursor(store: Store) -> None:
    record = await store.create(record_of("a"))
    sequences = [sequence_of(number) for number in range(300)]
    await store.append(record, sequences)
    entries = await read_log(store, record)
    assert [entry.sequence.tokens.tolist() for entry in entries] == [[number] for number in range(300)]
    assert [kept.head for kept in await store.stored([record])] == [300]


async def test_logs_do_not_mix(store: Store) -> None:
    first, second = await store.create(record_of("a")), await store.create(record_of("b"))
    await store.append(first, [sequence_of(1)])
    await store.append(second, [sequence_of(2)])
    assert [entry.sequence.tokens.tolist() for entry in await read_log(store, second)] == [[2]]
    assert [kept.head for kept in await store.stored([first, second])] == [1, 1]


async def test_a_waiting_reader_wakes_for_an_entry(store: Store) -> None:
    record = await store.create(record_of("a"))
    cursors = Cursors((await store.registry()).changes, {record: START})
    reading = asyncio.create_task(store.read(cursors, wait_s=10))
    await asyncio.sleep(0)
    await store.append(record, [sequence_of(7)])
    batch = await asyncio.wait_for(reading, timeout=5)
    assert batch.logs[record][0].sequence.tokens.tolist() == [7]
    assert not batch.changed


@pytest.mark.parametrize("change", ["create", "delete"])
async def test_a_waiting_reader_wakes_for_a_changed_namespace(store: Store, change: str) -> None:
    record = await store.create(record_of("a"))
    cursors = Cursors((await store.registry()).changes, {record: START})
    reading = asyncio.create_task(store.read(cursors, wait_s=10))
    await asyncio.sleep(0)
    if change == "create":
        await store.create(record_of("b"))
    else:
        await store.delete(record)
    assert (await asyncio.wait_for(reading, timeout=5)).changed


async def test_a_read_without_news_ends_in_time(store: Store) -> None:
    record = await store.create(record_of("a"))
    cursors = Cursors((await store.registry()).changes, {record: START})
    batch = await asyncio.wait_for(store.read(cursors, wait_s=0.05), timeout=5)
    assert not batch.logs
    assert not batch.changed


async def test_the_identity_stays(store: Store) -> None:
    identity = await store.identity()
    await store.create(record_of("a"))
    assert await store.identity() == identity == (await store.registry()).store_id


async def test_an_unknown_format_version_is_told(store: Store) -> None:
    await store.create(replace(record_of("a"), format_version=7))
    (found,) = (await store.registry()).records
    assert found.format_version == 7
    assert not found.is_readable
