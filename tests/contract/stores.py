"""What the tests of the stores put into them, and how they read it back."""

from __future__ import annotations

from uuid import uuid4

import numpy as np

from trie_service.namespace import NamespaceRecord, NamespaceRef
from trie_service.sequence import TokenSequence
from trie_service.store import START, Cursors, LogEntry, Store


def record_of(name: str, fingerprint: str = "fp") -> NamespaceRecord:
    """A namespace to create."""
    return NamespaceRecord.new(NamespaceRef(name, fingerprint), vocab_size=1000)


def sequence_of(*tokens: int, context_len: int = 0, sequence_id: str = "") -> TokenSequence:
    """A sequence to append, with a name of its own unless it is given."""
    return TokenSequence(sequence_id or uuid4().hex, np.array(tokens, dtype=np.int32), context_len)


async def read_log(store: Store, record: NamespaceRecord) -> list[LogEntry]:
    """All of a namespace's log."""
    changes = (await store.registry()).changes
    entries: list[LogEntry] = []
    while True:
        position = entries[-1].position if entries else START
        batch = await store.read(Cursors(changes, {record: position}), wait_s=0)
        if not batch.logs:
            return entries
        entries.extend(batch.logs[record])
