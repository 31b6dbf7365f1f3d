"""Namespaces as a whole over a store in memory: copies and files."""

from __future__ import annotations

import numpy as np
import pytest
from index_replicas import CHAT, draft, learn, replica, until
from namespace_checks import COPY, MIB, bytes_of, digests, holds

from trie_service.errors import AlreadyExistsError, ExportFileError, NamespaceNotFoundError
from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceLimits, NamespaceRecord, NamespaceRef


async def test_a_copy_holds_the_same_and_goes_its_own_way() -> None:
    store = MemoryStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2, 3], name="a")
        await one.mover.copy(CHAT, "copy")
        await until(holds(other, 1, drafts=[2, 3], ref=COPY))
        assert await digests(one, other, ref=COPY) == await digests(one)
        await learn(one, [7, 8], ref=COPY)
        await one.learner.forget(COPY, "a")
        await until(holds(other, 7, drafts=[8], ref=COPY))
        await until(holds(other, 1, drafts=[], ref=COPY))
        assert draft(one, 7) == []
        assert draft(one, 1) == [2, 3]
        with pytest.raises(AlreadyExistsError, match="'copy' exists"):
            await one.mover.copy(CHAT, "copy")
        with pytest.raises(NamespaceNotFoundError):
            await one.mover.copy(NamespaceRef("none"), "x")
        async with replica(store) as late:
            assert await digests(late, one, ref=COPY) == await digests(one, ref=COPY)


async def test_what_is_exported_and_imported_elsewhere_is_the_same() -> None:
    rng = np.random.default_rng(1)
    limits = NamespaceLimits(max_tokens_per_second=10**6, text_ttl_s=1000)
    async with replica(MemoryStore()) as source, replica(MemoryStore()) as target:
        await source.namespaces.create(NamespaceRecord.new(CHAT, 50, limits))
        await learn(source, *(rng.integers(0, 50, 40).tolist() for _ in range(20)))
        await learn(source, [1, 2, 3, 4], name="gone")
        await learn(source, rng.integers(0, 50, 1500).tolist(), name="kept", context_len=30)
        await source.learner.forget(CHAT, "gone")
        data = await source.mover.export(CHAT)
        view = await target.mover.import_file(bytes_of(data[:100], data[100:]), "")
        assert (view.record.name, view.record.fingerprint, view.record.vocab_size) == ("chat", "fp", 50)
        assert view.record.limits == limits
        assert await digests(source, target) == await digests(source)
        assert await target.learner.forget(CHAT, "kept") == 1470
        renamed = await target.mover.import_file(bytes_of(data), "copy")
        assert renamed.record.name == "copy"
        assert await digests(target, ref=COPY) == await digests(source)
        with pytest.raises(AlreadyExistsError):
            await target.mover.import_file(bytes_of(data), "")


async def test_a_bad_file_leaves_nothing_behind() -> None:
    store = MemoryStore()
    async with replica(MemoryStore()) as source, replica(store) as target:
        await learn(source, [1, 2, 3])
        data = await source.mover.export(CHAT)
        for bad in (b"", data[:-1], data + b"x", data[:60] + b"!" + data[61:], b"x" * (2 * MIB)):
            with pytest.raises(ExportFileError):
                await target.mover.import_file(bytes_of(bad), "")
        assert (await store.registry()).records == ()
        assert await target.namespaces.describe_all() == []
