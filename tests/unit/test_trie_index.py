"""The index's verbs over a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest
from index_replicas import CHAT, OPTIONS, BreakableStore, draft, learn, replica, until

from trie_service.errors import (
    FingerprintMismatchError,
    InvalidArgumentError,
    NamespaceNotFoundError,
    NotReadyError,
    StoreUnavailableError,
    UnsupportedFormatError,
)
from trie_service.index import DraftIndex
from trie_service.learning import LearnItem, Receipt
from trie_service.memory_store import MemoryStore
from trie_service.namespace import MAX_VOCAB_SIZE, NamespaceRecord, NamespaceRef
from trie_service.query import DraftQuery
from trie_service.sequence import MAX_SEQUENCE_LEN
from trie_service.serving import ServingState
from trie_service.snapshot import Snapshot


async def test_what_was_learned_is_drafted() -> None:
    async with replica(MemoryStore()) as index:
        assert await learn(index, [1, 2, 3, 4]) == Receipt(1, 4)
        await until(lambda: draft(index, 1, 2) == [3, 4])
        assert draft(index, 1, 2, max_nodes=1) == [3]


async def test_context_is_matched_but_never_drafted() -> None:
    async with replica(MemoryStore()) as index:
        assert await learn(index, [1, 2, 3, 4], context_len=2) == Receipt(1, 2)
        await until(lambda: draft(index, 1, 2) == [3, 4])
        assert draft(index, 1) == []


async def test_learned_at_one_replica_is_drafted_by_another() -> None:
    store = MemoryStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2, 3])
        await until(lambda: "chat" in {record.name for record in other.namespaces.cursors().logs})
        await until(lambda: draft(other, 1) == [2, 3])


async def test_a_replica_that_starts_later_holds_everything() -> None:
    store = MemoryStore()
    async with replica(store) as one:
        await learn(one, *([number, number + 1] for number in range(0, 500, 2)))
        async with replica(store) as late:
            stats = (await late.namespaces.describe(CHAT)).stats
            assert (stats.num_sequences, stats.num_tokens, stats.num_pending) == (250, 500, 0)
            assert draft(late, 498) == [499]


async def test_a_long_sequence_is_learned_whole() -> None:
    async with replica(MemoryStore()) as index:
        tokens = list(np.random.default_rng(1).permutation(5000))
        await learn(index, tokens)
        await until(
            lambda: index.namespaces.cursors().logs != {} and draft(index, tokens[-2]) == [tokens[-1]]
        )
        assert all(draft(index, tokens[at], max_nodes=1) == [tokens[at + 1]] for at in range(0, 4999, 7))
        assert (await index.namespaces.describe(CHAT)).stats.num_sequences == 1


async def test_statistics_count_lookups_hits_and_nodes() -> None:
    async with replica(MemoryStore()) as index:
        await learn(index, [1, 2, 3])
        await until(lambda: draft(index, 1) == [2, 3])
        before = (await index.namespaces.describe(CHAT)).stats
        draft(index, 1)
        draft(index, 99)
        after = (await index.namespaces.describe(CHAT)).stats
        assert after.num_lookups - before.num_lookups == 2
        assert after.num_hits - before.num_hits == 1
        assert after.num_drafted_nodes - before.num_drafted_nodes == 2
        assert after.num_bytes > 0


async def test_learning_creates_a_namespace_only_with_a_fingerprint_and_only_where_allowed() -> None:
    async with replica(MemoryStore()) as index:
        with pytest.raises(InvalidArgumentError, match="only with a fingerprint"):
            await learn(index, [1], ref=NamespaceRef("new"))
        await learn(index, [1], ref=NamespaceRef("new", "fp"))
        assert (await index.namespaces.describe(NamespaceRef("new"))).record.vocab_size == MAX_VOCAB_SIZE
    async with replica(MemoryStore(), replace(OPTIONS, auto_create=False)) as index:
        with pytest.raises(NamespaceNotFoundError, match="'new' does not exist"):
            await learn(index, [1], ref=NamespaceRef("new", "fp"))


async def test_another_fingerprint_is_refused_by_every_verb() -> None:
    other = NamespaceRef("chat", "other")
    async with replica(MemoryStore()) as index:
        await index.namespaces.create(NamespaceRecord.new(CHAT, 100))
        with pytest.raises(FingerprintMismatchError, match="'fp', not 'other'"):
            await index.namespaces.create(NamespaceRecord.new(other, 100))
        with pytest.raises(FingerprintMismatchError):
            await learn(index, [1], ref=other)
        with pytest.raises(FingerprintMismatchError):
            draft(index, 1, ref=other)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "{x}", "x" * 129, "a\n"])
async def test_a_bad_name_is_refused_by_every_verb(name: str) -> None:
    ref = NamespaceRef(name, "fp")
    async with replica(MemoryStore()) as index:
        with pytest.raises(InvalidArgumentError, match="namespace name"):
            NamespaceRecord.new(ref, 10)
        for call in (
            index.namespaces.delete(ref),
            index.namespaces.describe(ref),
            learn(index, [1], ref=ref),
        ):
            with pytest.raises(InvalidArgumentError, match="namespace name"):
                await call
        with pytest.raises(InvalidArgumentError, match="namespace name"):
            draft(index, 1, ref=ref)


async def test_bad_sequences_are_refused_with_the_offending_value() -> None:
    async with replica(MemoryStore()) as index:
        await index.namespaces.create(NamespaceRecord.new(CHAT, 100))
        with pytest.raises(InvalidArgumentError, match="has no tokens"):
            await learn(index, [])
        with pytest.raises(InvalidArgumentError, match=r"token id 100 at index 1 .* vocabulary size 100"):
            await learn(index, [1, 100])
        with pytest.raises(InvalidArgumentError, match="context_len 2 leaves nothing"):
            await learn(index, [1, 2], context_len=2)
        with pytest.raises(InvalidArgumentError, match="split it"):
            await learn(index, [1] * (MAX_SEQUENCE_LEN + 1))
        assert (await index.namespaces.describe(CHAT)).stats.num_sequences == 0


@pytest.mark.parametrize("vocab_size", [0, MAX_VOCAB_SIZE + 1])
def test_an_absurd_vocabulary_is_refused(vocab_size: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"vocab_size {vocab_size}"):
        NamespaceRecord.new(CHAT, vocab_size)


async def test_absurd_queries_are_refused_with_the_offending_value() -> None:
    async with replica(MemoryStore()) as index:
        await index.namespaces.create(NamespaceRecord.new(CHAT, 100))
        context = np.array([1], dtype=np.int64)
        with pytest.raises(InvalidArgumentError, match="max_nodes 5000"):
            index.drafter.draft(DraftQuery(CHAT, context, max_nodes=5000))
        with pytest.raises(InvalidArgumentError, match="max_depth 1000"):
            index.drafter.draft(DraftQuery(CHAT, context, max_depth=1000))
        for probability in (-0.1, 1.5, float("nan")):
            with pytest.raises(InvalidArgumentError, match="min_probability"):
                index.drafter.draft(DraftQuery(CHAT, context, min_probability=probability))
        with pytest.raises(InvalidArgumentError, match="token id 4294967295 "):
            draft(index, 1, 2**32 - 1)
        assert draft(index) == []


async def test_a_deleted_namespace_is_forgotten_everywhere() -> None:
    store = MemoryStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2])
        await until(lambda: bool(other.namespaces.cursors().logs))
        await one.namespaces.delete(CHAT)
        with pytest.raises(NamespaceNotFoundError):
            draft(one, 1)
        await until(lambda: not other.namespaces.cursors().logs)
        with pytest.raises(NamespaceNotFoundError):
            await one.namespaces.delete(CHAT)


async def test_a_namespace_created_again_holds_nothing_of_the_old_one() -> None:
    store = MemoryStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2])
        await until(lambda: bool(other.namespaces.cursors().logs) and draft(other, 1) == [2])
        await one.namespaces.delete(CHAT)
        await learn(one, [1, 3])
        await until(lambda: bool(other.namespaces.cursors().logs) and draft(other, 1) == [3])


async def test_learning_into_a_namespace_deleted_meanwhile_says_so() -> None:
    store = MemoryStore()
    async with replica(store) as index:
        view = await index.namespaces.create(NamespaceRecord.new(CHAT, 100))

        async def items() -> AsyncIterator[LearnItem]:
            yield LearnItem(CHAT, "", np.array([1], dtype=np.int64), 0)
            await store.delete(view.record)

        with pytest.raises(NamespaceNotFoundError, match="deleted while it learned"):
            await index.learner.learn(items())


async def test_learning_goes_to_the_namespace_that_took_the_place_of_a_deleted_one() -> None:
    store = MemoryStore()
    async with replica(store) as index:
        view = await index.namespaces.create(NamespaceRecord.new(CHAT, 100))
        await store.delete(view.record)
        await store.create(NamespaceRecord.new(CHAT, 100))
        assert await learn(index, [1, 2]) == Receipt(1, 2)
        await until(lambda: bool(index.namespaces.cursors().logs) and draft(index, 1) == [2])


async def test_a_namespace_in_an_unknown_format_is_refused_and_harms_no_other() -> None:
    store = MemoryStore()
    await store.create(replace(NamespaceRecord.new(NamespaceRef("future", "fp"), 10), format_version=2))
    async with replica(store) as index:
        future = NamespaceRef("future", "fp")
        with pytest.raises(UnsupportedFormatError, match=r"stored in format 2 .* reads format 1"):
            draft(index, 1, ref=future)
        with pytest.raises(UnsupportedFormatError):
            await learn(index, [1], ref=future)
        with pytest.raises(UnsupportedFormatError):
            await index.namespaces.create(NamespaceRecord.new(future, 10))
        with pytest.raises(UnsupportedFormatError):
            await index.namespaces.delete(future)
        await learn(index, [1, 2])
        await until(lambda: draft(index, 1) == [2])


class SlowNewerStore(MemoryStore):
    """A newer version has written its snapshots, and reading them takes as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.is_asked = asyncio.Event()

    async def read_snapshot(self, record: NamespaceRecord) -> Snapshot | None:
        """Refuse, in time."""
        self.is_asked.set()
        await self.may_answer.wait()
        raise UnsupportedFormatError("the snapshot is in format 7")


async def test_a_namespace_that_is_refused_stays_so_while_it_is_read_again() -> None:
    store = SlowNewerStore()
    await store.create(NamespaceRecord.new(CHAT, 10))
    store.may_answer.set()
    async with replica(store) as index:
        with pytest.raises(UnsupportedFormatError):
            draft(index, 1)
        store.may_answer.clear()
        store.is_asked.clear()
        reading = asyncio.create_task(index.namespaces.reconcile())
        await store.is_asked.wait()
        with pytest.raises(UnsupportedFormatError, match="format 7"):
            draft(index, 1)
        store.may_answer.set()
        await reading


async def test_nothing_is_answered_while_loading() -> None:
    index = DraftIndex(MemoryStore(), OPTIONS)
    with pytest.raises(NotReadyError, match="loading"):
        draft(index, 1)
    with pytest.raises(NotReadyError):
        await learn(index, [1])
    with pytest.raises(NotReadyError):
        await index.namespaces.create(NamespaceRecord.new(CHAT, 10))
    with pytest.raises(NotReadyError):
        await index.namespaces.describe_all()


async def test_without_the_store_drafts_go_on_learning_does_not_and_all_recovers() -> None:
    store = BreakableStore()
    states: list[ServingState] = []
    async with replica(store) as index:
        index.serving.on_state = states.append
        await learn(index, [1, 2])
        await until(lambda: draft(index, 1) == [2])
        store.is_broken = True
        await until(lambda: index.serving.state is ServingState.DEGRADED)
        assert draft(index, 1) == [2]
        with pytest.raises(StoreUnavailableError, match="out of reach"):
            await learn(index, [3, 4])
        assert (await index.namespaces.describe(CHAT)).stats.num_sequences == 1
        store.is_broken = False
        await until(lambda: index.serving.state is ServingState.SERVING)
        await learn(index, [3, 4])
        await until(lambda: draft(index, 3) == [4])
        assert states == [ServingState.DEGRADED, ServingState.SERVING]


async def test_an_emptied_store_takes_nothing_from_memory_and_learns_on() -> None:
    store = BreakableStore()
    async with replica(store) as one, replica(store) as other:
        await learn(one, [1, 2])
        await until(lambda: bool(other.namespaces.cursors().logs) and draft(other, 1) == [2])
        store.empty()
        await learn(one, [3, 4])
        await until(lambda: draft(other, 3) == [4])
        await until(lambda: draft(one, 3) == [4])
        assert draft(one, 1) == draft(other, 1) == [2]
