"""Entries that a log should not hold stop nobody, and what was read before memory went back is read anew."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from index_replicas import CHAT, OPTIONS, BreakableStore, draft, learn, replica, until
from structlog.testing import capture_logs

from trie_service import log_reader
from trie_service.errors import StoreUnavailableError
from trie_service.export_file import decode
from trie_service.index import DraftIndex
from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceRecord
from trie_service.sequence import TokenSequence
from trie_service.service import compile_index
from trie_service.serving import ServingState
from trie_service.store import START, LogEntry, Stored


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """No test waits for the compiler."""
    compile_index()


async def learned(index: DraftIndex, *tokens: int) -> None:
    await learn(index, tokens)
    await until(lambda: bool(index.namespaces.all()) and draft(index, tokens[0]) == list(tokens[1:]))


@pytest.mark.parametrize("numbers", [(1, 2, 1), (1_000_000,), (1, 1_000_000, 2)])
async def test_foreign_entries_with_numbers_of_their_own_stop_nobody(numbers: tuple[int, ...]) -> None:
    store = BreakableStore()
    async with replica(store) as index:
        await learned(index, 1, 2)
        await learned(index, 3, 4)
        await index.snapshots.write(CHAT)
        (head,) = await store.stored([index.namespaces.all()[0].record])
        for at, number in enumerate(numbers):
            foreign = TokenSequence(f"foreign {at}", np.array([7, 8], dtype=np.int32))
            store.slip_in("chat", LogEntry(f"{head.now_ms}-{1000 + at}", number, foreign))
        await learned(index, 5, 6)
        await index.snapshots.write(CHAT)
        await learned(index, 9, 10)
        await index.snapshots.write_due()
        with capture_logs() as logs:
            await index.snapshots.write_due()
        assert logs == []
        async with replica(store) as late:
            assert [draft(late, token) for token in (1, 3, 5, 9)] == [[2], [4], [6], [10]]


@pytest.mark.parametrize("position", [START, "1-0"])
async def test_what_was_read_before_memory_went_back_is_not_applied(position: str) -> None:
    store = MemoryStore()
    async with replica(store) as index:
        await learned(index, 1, 2)
        (memory,) = index.namespaces.all()
        cursors = index.namespaces.cursors()
        await store.append(memory.record, [TokenSequence("late", np.array([3, 4], dtype=np.int32))])
        batch = await store.read(cursors, wait_s=0)
        await memory.rewind(Stored(snapshot_position=position))
        await index.reader.apply(replace(batch, changed=False), cursors)
        assert (memory.position, memory.num_applied) == (position, 0)


async def stuck(store: MemoryStore, num_entries: int) -> DraftIndex:
    """An index that nobody reads the log for, that far behind."""
    record = await store.create(NamespaceRecord.new(CHAT, 100))
    index = DraftIndex(store, OPTIONS)
    await index.namespaces.reconcile()
    index.serving.state = ServingState.SERVING
    for number in range(num_entries):
        await store.append(record, [TokenSequence(str(number), np.array([3, number], dtype=np.int32))])
    return index


async def test_a_log_that_is_not_read_is_told_with_how_much_of_it_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_reader, "STALLED_S", 0.02)
    index = await stuck(MemoryStore(), 3)
    with pytest.raises(StoreUnavailableError, match=r"'chat'.* 3 entries"):
        await index.mover.export(CHAT)


async def test_a_log_is_waited_for_as_long_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "STALLED_S", 0.5)
    store = MemoryStore()
    index = await stuck(store, 8)
    exporting = asyncio.create_task(index.mover.export(CHAT))
    for _ in range(8):
        await asyncio.wait([exporting], timeout=0.1)  # all of it takes longer than a stall
        cursors = index.namespaces.cursors()
        batch = await store.read(cursors, wait_s=0)
        first = {record: entries[:1] for record, entries in batch.logs.items()}
        await index.reader.apply(replace(batch, logs=first), cursors)
    assert len(decode(await exporting).rows) == 8
