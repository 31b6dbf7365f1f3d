"""Sequences of a namespace over a store in memory: forgotten, learned again, told of."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
from index_replicas import CHAT, BreakableStore, draft, learn, replica, until
from namespace_checks import bytes_of, digests, holds

from trie_service.errors import InvalidArgumentError, SequenceNotFoundError, StoreUnavailableError
from trie_service.learning import LearnItem
from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceLimits, NamespaceRecord
from trie_service.sequence import Forgotten


async def test_a_forgotten_sequence_is_drafted_by_no_replica_any_more() -> None:
    store = MemoryStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2, 3], name="mine", context_len=1)
        await learn(one, [4, 5], name="other")
        await until(holds(other, 4, drafts=[5]))
        assert await one.learner.forget(CHAT, "mine") == 2
        assert draft(one, 1) == []
        await until(holds(other, 1, drafts=[]))
        assert draft(other, 4) == [5]
        assert len(await digests(one, other)) == 1
        stats = (await other.namespaces.describe(CHAT)).stats
        assert (stats.num_sequences, stats.num_tokens, stats.num_forgotten_sequences) == (2, 4, 1)
        with pytest.raises(SequenceNotFoundError, match="no sequence 'mine'"):
            await one.learner.forget(CHAT, "mine")
        async with replica(store) as late:
            assert draft(late, 1) == []
            assert await digests(late) == await digests(one)


async def test_a_sequence_that_was_just_acknowledged_can_be_forgotten_at_another_replica() -> None:
    store = MemoryStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2])
        await until(holds(other, 1, drafts=[2]))
        for number in range(20):
            await learn(one, [10 + number, 3], name=str(number))
            assert await other.learner.forget(CHAT, str(number)) == 2


async def test_a_forgotten_sequence_may_be_learned_again() -> None:
    async with replica(MemoryStore()) as index:
        await learn(index, [1, 2], name="a")
        await index.learner.forget(CHAT, "a")
        await learn(index, [1, 2], name="a")
        await until(holds(index, 1, drafts=[2]))


async def test_a_sequence_is_learned_once_however_often_it_is_sent() -> None:
    store = MemoryStore()
    async with replica(store) as index:
        view = await index.namespaces.create(NamespaceRecord.new(CHAT, 100))
        await learn(index, [1, 2], name="a")
        await learn(index, [1, 2], name="a")
        await store.append(view.record, [Forgotten("unknown")])
        await index.reader.until_caught_up(index.namespaces.memory_of(CHAT).record)
        stats = (await index.namespaces.describe(CHAT)).stats
        assert (stats.num_sequences, stats.num_tokens, stats.num_forgotten_sequences) == (1, 2, 0)


async def test_entries_in_flight_to_a_namespace_made_anew_with_fewer_tokens_are_refused_not_lost() -> None:
    store = MemoryStore()
    async with replica(store) as index:
        view = await index.namespaces.create(NamespaceRecord.new(CHAT, 100))

        async def items() -> AsyncIterator[LearnItem]:
            yield LearnItem(CHAT, "", np.array([1, 50], dtype=np.int64), 0)
            await store.delete(view.record)
            await store.create(NamespaceRecord.new(CHAT, 10))

        with pytest.raises(InvalidArgumentError, match=r"token id 50 .* vocabulary size 10"):
            await index.learner.learn(items())


async def test_figures_of_the_store_and_of_the_log_are_told() -> None:
    async with replica(MemoryStore()) as index:
        await learn(index, [1, 2, 3])
        await until(holds(index, 1, drafts=[2, 3]))
        stats = (await index.namespaces.describe(CHAT)).stats
        assert stats.log_bytes > 0
        assert stats.snapshot_age_s is None
        assert 0 <= stats.replication_lag_s < 5
        findings = await index.verifier.verify(CHAT)
        assert (findings.problems, findings.num_applied) == ([], 1)


async def test_without_the_store_nothing_is_changed() -> None:
    store = BreakableStore()
    async with replica(store) as index:
        await learn(index, [1, 2], name="a")
        await until(holds(index, 1, drafts=[2]))
        store.is_broken = True
        await until(lambda: index.serving.state.value == "degraded")
        for call in (
            index.learner.forget(CHAT, "a"),
            index.mover.copy(CHAT, "copy"),
            index.mover.export(CHAT),
            index.mover.import_file(bytes_of(b""), ""),
            index.namespaces.update(CHAT, NamespaceLimits()),
            index.verifier.verify(CHAT),
        ):
            with pytest.raises(StoreUnavailableError, match="out of reach"):
                await call
        assert draft(index, 1) == [2]
