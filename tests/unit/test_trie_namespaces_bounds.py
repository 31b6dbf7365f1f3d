"""Bounds of namespaces and of the service, over a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from index_replicas import CHAT, OPTIONS, draft, learn, replica, until
from namespace_checks import COPY, MIB, digests, holds
from structlog.testing import capture_logs

from trie_service.errors import (
    InvalidArgumentError,
    NamespaceNotFoundError,
    ResourceExhaustedError,
    StoreFullError,
    StoreUnavailableError,
)
from trie_service.index import DraftIndex
from trie_service.learning import LearnItem
from trie_service.limits import LearningRates, ServiceLimits
from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceLimits, NamespaceRecord, NamespaceRef
from trie_service.sequence import Forgotten, TokenSequence
from trie_service.store import Registry


class RefusingStore(MemoryStore):
    """A store that can refuse what is to be learned, and keeps some namespaces where there is no room."""

    refuses = False
    full: frozenset[str] = frozenset()
    num_registry_reads = 0

    def place_of(self, record: NamespaceRecord) -> str:
        """Names begin with where they are kept."""
        return record.name[0]

    async def registry(self) -> Registry:
        """Count it."""
        self.num_registry_reads += 1
        return await super().registry()

    async def append(self, record: NamespaceRecord, items: Sequence[TokenSequence | Forgotten]) -> int:
        """Refuse where it does."""
        if self.refuses:
            raise StoreUnavailableError("refused")
        if self.place_of(record) in self.full:
            raise StoreFullError("full")
        return await super().append(record, items)


async def test_limits_of_a_namespace_change_at_every_replica_while_it_runs() -> None:
    store, options = MemoryStore(), replace(OPTIONS, limits=ServiceLimits(max_bytes=4 * MIB))
    rng = np.random.default_rng(2)
    async with replica(store, options) as one, replica(store, options) as other:
        await learn(one, *(rng.integers(0, 9999, 250).tolist() for _ in range(200)))
        await other.reader.until_caught_up(await record_at(other))
        full = (await other.namespaces.describe(CHAT)).stats.num_bytes
        assert full > MIB
        view = await one.namespaces.update(CHAT, NamespaceLimits(max_bytes=MIB))
        assert view.record.limits.max_bytes == MIB
        for index in (one, other):
            memory = index.namespaces.memory_of(CHAT)
            await until(lambda memory=memory: memory.stats().num_bytes <= MIB)  # type: ignore[misc]
            assert memory.record.limits.max_bytes == MIB
            assert memory.stats().num_evicted_tokens > 0
        assert len(await digests(one, other)) == 1
        await learn(one, [20_001, 20_002, 20_003])
        await until(holds(other, 20_001, drafts=[20_002, 20_003]))
        with pytest.raises(InvalidArgumentError, match="max_bytes"):
            await one.namespaces.update(CHAT, NamespaceLimits(max_bytes=5 * MIB))


async def record_at(index: DraftIndex) -> NamespaceRecord:
    await until(lambda: "chat" in {memory.record.name for memory in index.namespaces.all()})
    return index.namespaces.memory_of(CHAT).record


async def test_a_namespace_learns_no_faster_than_it_may() -> None:
    async with replica(MemoryStore()) as index:
        limits = NamespaceLimits(max_tokens_per_second=1)
        await index.namespaces.create(NamespaceRecord.new(CHAT, 100, limits))
        await learn(index, [1] * 10)
        with pytest.raises(ResourceExhaustedError, match="too fast") as caught:
            await learn(index, [1] * 5)
        assert caught.value.retry_after_s == pytest.approx(5, abs=0.5)
        await index.namespaces.update(CHAT, NamespaceLimits())
        await learn(index, [1] * 500)


async def test_text_expires_at_every_replica_and_stays_expired_after_a_start() -> None:
    store = MemoryStore()
    async with replica(store) as one, replica(store) as other:
        await one.namespaces.create(NamespaceRecord.new(CHAT, 100, NamespaceLimits(text_ttl_s=1)))
        await learn(one, [1, 2])
        await until(holds(other, 1, drafts=[2]))
        await until(holds(one, 1, drafts=[]))
        await until(holds(other, 1, drafts=[]))
        stats = (await other.namespaces.describe(CHAT)).stats
        assert (stats.num_tokens, stats.num_evicted_tokens) == (2, 2)
        await learn(one, [3, 4])
        await until(holds(other, 3, drafts=[4]))
        async with replica(store) as late:
            await until(holds(late, 1, drafts=[]))


async def test_there_are_no_more_namespaces_than_the_service_allows() -> None:
    options = replace(OPTIONS, limits=ServiceLimits(max_bytes=MIB, max_namespaces=2))
    async with replica(MemoryStore(), options) as index:
        await index.namespaces.create(NamespaceRecord.new(CHAT, 10))
        await learn(index, [1], ref=COPY)
        with pytest.raises(ResourceExhaustedError, match="there are 2, and 2 are allowed"):
            await learn(index, [1], ref=NamespaceRef("third", "fp"))
        with pytest.raises(ResourceExhaustedError):
            await index.mover.copy(CHAT, "third")
        await index.namespaces.create(NamespaceRecord.new(CHAT, 10))
        await index.namespaces.delete(COPY)
        await learn(index, [1], ref=NamespaceRef("third", "fp"))


async def test_when_the_service_is_full_the_largest_gives_way_and_gets_more_again_later() -> None:
    limits = ServiceLimits(max_bytes=8 * MIB, max_total_bytes=3 * MIB)
    rng = np.random.default_rng(3)
    async with replica(MemoryStore(), replace(OPTIONS, limits=limits)) as index:
        await learn(index, [1, 2, 3], name="small", ref=COPY)
        for _ in range(20):
            await learn(index, *(rng.integers(0, 9999, 250).tolist() for _ in range(40)))
            await index.reader.until_caught_up(index.namespaces.memory_of(CHAT).record)
            total = sum(memory.stats().num_bytes for memory in index.namespaces.all())
            assert total <= 1.1 * limits.max_total_bytes
        assert draft(index, 1, 2, ref=COPY) == [3]
        large = index.namespaces.memory_of(CHAT)
        assert large.stats().num_evicted_tokens > 0
        assert large.text.max_bytes < limits.max_bytes
        await index.namespaces.delete(CHAT)
        await learn(index, [1, 2, 3])
        await until(holds(index, 1, 2, drafts=[3]))
        assert index.namespaces.memory_of(CHAT).text.max_bytes == limits.max_bytes


async def test_a_call_that_was_refused_for_its_rate_succeeds_when_it_is_repeated() -> None:
    now = 0.0
    async with replica(MemoryStore()) as index:
        index.learner = replace(index.learner, rates=LearningRates(OPTIONS.limits, lambda: now))
        record = NamespaceRecord.new(CHAT, 100, NamespaceLimits(max_tokens_per_second=1))
        await index.namespaces.create(record)

        async def items() -> AsyncIterator[LearnItem]:
            for number in range(600):
                yield LearnItem(CHAT, str(number), np.array([number % 100, 1], dtype=np.int64), 0)

        while True:
            try:
                assert (await index.learner.learn(items())).num_tokens == 1200
                break
            except ResourceExhaustedError as error:
                now += (error.retry_after_s or 0.0) + 1e-6
                await index.reader.until_caught_up(record)
        assert now <= 1200


async def test_what_the_store_did_not_take_does_not_count_as_learned() -> None:
    store = RefusingStore()
    async with replica(store) as index:
        await index.namespaces.create(
            NamespaceRecord.new(CHAT, 100, NamespaceLimits(max_tokens_per_second=1))
        )
        store.refuses = True
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                await learn(index, [1] * 10)
        store.refuses = False
        await learn(index, [1] * 10)


async def test_a_node_without_room_is_told_once_though_others_have_room() -> None:
    store = RefusingStore()
    names = [NamespaceRef(name, "fp") for name in ("a-1", "b-1", "a-2")]
    async with replica(store) as index:
        for ref in names:
            await learn(index, [1], ref=ref)
        with capture_logs() as logs:
            store.full = frozenset("a")
            for ref in 3 * names:
                with suppress(StoreFullError):
                    await learn(index, [1], ref=ref)
            store.full = frozenset()
            for ref in 3 * names:
                await learn(index, [1], ref=ref)
        told = [(entry["event"].split(":")[0], entry["store"]) for entry in logs]
        assert told == [("store is full", "a"), ("store has room again", "a")]


async def test_a_namespace_that_is_nowhere_costs_no_look_at_all_the_others() -> None:
    store = RefusingStore()
    async with replica(store, replace(OPTIONS, auto_create=False)) as index:
        num_reads = store.num_registry_reads
        for _ in range(5):
            with pytest.raises(NamespaceNotFoundError):
                await learn(index, [1], ref=NamespaceRef("none", "fp"))
        assert store.num_registry_reads == num_reads
