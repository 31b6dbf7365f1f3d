"""Entries that a log should not hold stop nobody."""

from __future__ import annotations

import numpy as np
import pytest
from index_replicas import CHAT, draft, learn, replica, until

from trie_service.memory_store import MemoryStore
from trie_service.sequence import TokenSequence
from trie_service.service import compile_index
from trie_service.store import Batch, LogEntry


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """No test waits for the compiler."""
    compile_index()


async def test_an_entry_whose_number_was_read_already_is_passed_over() -> None:
    async with replica(MemoryStore()) as index:
        await learn(index, [1, 2], [3, 4])
        await until(lambda: bool(index.namespaces.all()) and draft(index, 3) == [4])
        (record,) = index.namespaces.cursors().logs
        (memory,) = index.namespaces.all()
        again = TokenSequence("again", np.array([7, 8], dtype=np.int32))
        for position in ("9999999999999-0", "9999999999999-11", "9999999999999-9"):
            await index.reader.apply(Batch(changed=False, logs={record: [LogEntry(position, 1, again)]}))
        assert memory.position == "9999999999999-11"
        assert draft(index, 7) == []
        assert (await index.namespaces.describe(CHAT)).stats.num_sequences == 2
