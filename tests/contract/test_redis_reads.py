"""Reads of the logs in Redis are bounded in bytes, and miss nothing."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from stores import record_of, sequence_of

from trie_service.namespace import NamespaceRecord
from trie_service.redis_store import RedisStore
from trie_service.sequence import MAX_SEQUENCE_LEN, TokenSequence
from trie_service.store import START, Batch, Cursors

MIB = 1 << 20
MOST_BYTES = 16 * MIB  # of a first read, which knows nothing of the logs; half of it for later ones


async def read_all(
    store: RedisStore, records: list[NamespaceRecord]
) -> tuple[dict[str, list[str]], list[int]]:
    """Names of the sequences of each log, and the bytes of each read."""
    names, sizes = defaultdict(list), []
    changes = (await store.registry()).changes
    positions = dict.fromkeys(records, START)
    while (batch := await store.read(Cursors(changes, positions), wait_s=0)).logs:
        sizes.append(bytes_of(batch))
        for record, entries in batch.logs.items():
            names[record.name] += [entry.sequence.sequence_id for entry in entries if entry.sequence]
            positions[record] = entries[-1].position
    return names, sizes


def bytes_of(batch: Batch) -> int:
    logs = batch.logs.values()
    return sum(entry.sequence.tokens.nbytes for entries in logs for entry in entries if entry.sequence)


@pytest.mark.parametrize(("num_logs", "num_entries"), [(1, 48), (48, 1), (8, 6)])
async def test_large_entries_are_read_a_few_at_a_time(
    large_store: RedisStore, num_logs: int, num_entries: int
) -> None:
    large = np.zeros(MAX_SEQUENCE_LEN, dtype=np.int32)
    records = [await large_store.create(record_of(f"n{number}")) for number in range(num_logs)]
    expected = [str(number) for number in range(num_entries)]
    for record in records:
        for name in expected:
            await large_store.append(record, [TokenSequence(name, large)])
    names, sizes = await read_all(large_store, records)
    assert dict(names) == {record.name: expected for record in records}
    assert sizes[0] <= MOST_BYTES
    assert max(sizes[1:]) <= MOST_BYTES // 2


async def test_many_logs_with_little_in_them_are_read_together(large_store: RedisStore) -> None:
    records = [await large_store.create(record_of(f"n{number}")) for number in range(300)]
    for record in records:
        await large_store.append(record, [sequence_of(1), sequence_of(2)])
    names, sizes = await read_all(large_store, records)
    assert [len(names[record.name]) for record in records] == [2] * 300
    assert len(sizes) < 20
    await large_store.append(records[7], [sequence_of(3)])
    changes = (await large_store.registry()).changes
    heads = await large_store.stored(records)
    assert [head.head for head in heads].count(3) == 1
    again, sizes = await read_all(large_store, records)
    assert sum(map(len, again.values())) == 601
    assert len(sizes) < 6
    assert not (await large_store.read(Cursors(changes, {}), wait_s=0)).logs
