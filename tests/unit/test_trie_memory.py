"""The memory of one namespace while it is copied."""

from __future__ import annotations

import asyncio

import pytest

from trie_service import memory as memory_module
from trie_service.memory import NamespaceMemory
from trie_service.namespace import NamespaceLimits, NamespaceRecord, NamespaceRef


async def test_a_log_is_left_alone_until_the_last_copy_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "MANY_WORDS", -1)
    record = NamespaceRecord.new(NamespaceRef("chat", "fp"), 10)
    memory = NamespaceMemory(record, NamespaceLimits(max_bytes=1 << 20), max_order=4)
    assert not memory.is_busy
    first, second = asyncio.create_task(memory.digest()), asyncio.create_task(memory.digest())
    await first
    assert not second.done()
    assert memory.is_busy
    await second
    assert not memory.is_busy
