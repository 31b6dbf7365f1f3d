"""Namespaces over a store in memory: limits, forgetting, copies, files, a shared second one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index_replicas import CHAT, OPTIONS, BreakableStore, draft, learn, replica, until

from trie_service.drafter import MAX_NODES_PER_MESSAGE
from trie_service.drafting import Draft
from trie_service.errors import (
    AlreadyExistsError,
    ExportFileError,
    FingerprintMismatchError,
    InvalidArgumentError,
    NamespaceNotFoundError,
    ResourceExhaustedError,
    SequenceNotFoundError,
    StoreUnavailableError,
)
from trie_service.index import DraftIndex
from trie_service.learning import LearnItem
from trie_service.limits import ServiceLimits
from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceLimits, NamespaceRecord, NamespaceRef
from trie_service.query import DraftQuery
from trie_service.sequence import Forgotten
from trie_service.top_drafts import SAMPLING

MIB = 1 << 20
COPY = NamespaceRef("copy", "fp")


async def digests(*indexes: DraftIndex, ref: NamespaceRef = CHAT) -> set[str]:
    found = [await index.verifier.verify(ref) for index in indexes]
    assert all(one.problems == [] for one in found)
    return {one.digest for one in found}


def holds(
    index: DraftIndex, *context: int, drafts: list[int], ref: NamespaceRef = CHAT
) -> Callable[[], bool]:
    def is_held() -> bool:
        try:
            return draft(index, *context, ref=ref) == drafts
        except NamespaceNotFoundError:
            return False

    return is_held


async def bytes_of(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


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


async def test_a_shared_namespace_is_drafted_from_beside_the_own_and_learns_nothing() -> None:
    shared = NamespaceRef("corpus", "fp")
    async with replica(MemoryStore()) as index:
        await learn(index, [1, 2, 3])
        await learn(index, [1, 7, 8], [5, 6], ref=shared)
        await until(holds(index, 1, drafts=[2, 3]))
        await until(holds(index, 5, drafts=[6], ref=shared))
        query = DraftQuery(CHAT, np.array([1]), shared_namespace=shared)
        found = index.drafter.draft(query)
        origins = dict(zip(found.draft.tokens.tolist(), found.origins.tolist(), strict=True))
        assert origins == {2: 0, 3: 0, 7: 1, 8: 1}
        assert len(index.drafter.draft(replace(query, max_nodes=3)).draft) == 3
        only_shared = index.drafter.draft(DraftQuery(CHAT, np.array([5]), shared_namespace=shared))
        assert only_shared.draft.tokens.tolist() == [6]
        assert draft(index, 5) == []
        assert index.drafter.draft(DraftQuery(CHAT, np.array([1]))).origins.tolist() == [0, 0]


async def test_a_shared_namespace_must_exist_and_be_of_the_same_tokenizer() -> None:
    async with replica(MemoryStore()) as index:
        await learn(index, [1, 2])
        await learn(index, [1, 2], ref=NamespaceRef("corpus", "other"))
        context = np.array([1])
        for shared, error in (
            (NamespaceRef("none"), NamespaceNotFoundError),
            (NamespaceRef("corpus"), FingerprintMismatchError),
            (NamespaceRef("corpus", "fp"), FingerprintMismatchError),
        ):
            with pytest.raises(error):
                index.drafter.draft(DraftQuery(CHAT, context, shared_namespace=shared))


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


async def test_what_is_drafted_most_is_told_until_it_is_forgotten() -> None:
    async with replica(MemoryStore()) as index:
        await learn(index, [1, 2, 3], name="a")
        await learn(index, [4, 5, 6], name="b")
        await until(holds(index, 4, drafts=[5, 6]))
        for _ in range(4 * SAMPLING):
            draft(index, 9, 1)
        for _ in range(SAMPLING):
            draft(index, 4, 5)
        top = index.top_drafts(CHAT, 0)
        assert [(entry.context, entry.tokens) for entry in top] == [((1,), (2, 3)), ((4, 5), (6,))]
        assert top[0].num_drafts > top[1].num_drafts
        assert index.top_drafts(CHAT, 1) == top[:1]
        await index.learner.forget(CHAT, "a")
        assert [entry.context for entry in index.top_drafts(CHAT, 0)] == [(4, 5)]


async def test_a_message_may_not_ask_for_too_many_nodes() -> None:
    async with replica(MemoryStore()) as index:
        await learn(index, [1, 2])
        await until(holds(index, 1, drafts=[2]))
        query = DraftQuery(CHAT, np.array([1]), max_nodes=1024)
        num_queries = MAX_NODES_PER_MESSAGE // 1024
        assert len(await index.drafter.draft_all([query] * num_queries)) == num_queries
        with pytest.raises(InvalidArgumentError, match=str(MAX_NODES_PER_MESSAGE + 8)):
            await index.drafter.draft_all([query] * num_queries + [DraftQuery(CHAT, np.array([1]))])


async def test_others_get_their_turn_while_a_large_message_is_answered() -> None:
    async with replica(MemoryStore()) as index:
        await learn(index, [1, 2])
        await until(holds(index, 1, drafts=[2]))
        turns: list[int] = []

        async def other() -> None:
            while True:
                turns.append(1)
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        await index.drafter.draft_all([DraftQuery(CHAT, np.array([1]), max_nodes=1024)] * 32)
        task.cancel()
        assert len(turns) >= 16


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


def grams_of(found: Draft, context: list[int]) -> list[tuple[int, ...]]:
    """For each node what it matched and the node itself."""
    paths: list[list[int]] = []
    grams = []
    for token, parent, order in zip(
        found.tokens.tolist(), found.parents.tolist(), found.orders.tolist(), strict=True
    ):
        path = paths[parent] if parent >= 0 else context
        grams.append((*path[len(path) - order :], token))
        paths.append([*path, token])
    return grams


def contains(texts: list[list[int]], gram: tuple[int, ...]) -> bool:
    return any(
        tuple(text[at : at + len(gram)]) == gram for text in texts for at in range(len(text) - len(gram) + 1)
    )


tokens = st.integers(0, 5)
texts = st.lists(tokens, min_size=2, max_size=12)
tenants = st.sampled_from(["a", "b"])
steps = st.one_of(
    st.tuples(st.just("learn"), tenants, texts),
    st.tuples(st.just("learn"), tenants, texts),
    st.tuples(st.just("forget"), tenants, st.just([])),
    st.tuples(st.just("delete"), tenants, st.just([])),
    st.tuples(st.just("copy"), tenants, st.just([])),
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(steps, min_size=2, max_size=8), st.lists(texts, min_size=1, max_size=4))
def test_no_draft_holds_an_ngram_that_its_namespace_never_learned(
    operations: list[tuple[str, str, list[int]]], contexts: list[list[int]]
) -> None:
    asyncio.run(play(operations, contexts))


async def play(operations: list[tuple[str, str, list[int]]], contexts: list[list[int]]) -> None:
    """Two tenants learn, forget, are deleted and copied; every draft is looked at after every step."""
    learned: dict[str, dict[str, list[int]]] = {}
    async with replica(MemoryStore()) as index:
        for number, (verb, tenant, text) in enumerate(operations):
            ref = NamespaceRef(tenant, "fp")
            if verb == "learn":
                await learn(index, text, ref=ref, name=str(number))
                learned.setdefault(tenant, {})[str(number)] = text
            elif tenant in learned and verb == "forget" and learned[tenant]:
                name = next(iter(learned[tenant]))
                await index.learner.forget(ref, name)
                del learned[tenant][name]
            elif tenant in learned and verb == "delete":
                await index.namespaces.delete(ref)
                del learned[tenant]
            elif tenant in learned and verb == "copy":
                await index.mover.copy(ref, f"copy-{number}")
                learned[f"copy-{number}"] = dict(learned[tenant])
            for name in learned:
                await index.reader.until_caught_up(index.namespaces.memory_of(NamespaceRef(name)).record)
            check_drafts(index, {name: list(held.values()) for name, held in learned.items()}, contexts)


def check_drafts(index: DraftIndex, learned: dict[str, list[list[int]]], contexts: list[list[int]]) -> None:
    for (own, own_texts), shared, context in product(learned.items(), [None, *learned], contexts):
        shared_ref = None if shared is None else NamespaceRef(shared)
        query = DraftQuery(NamespaceRef(own), np.array(context), max_nodes=64, shared_namespace=shared_ref)
        found = index.drafter.draft(query)
        sources = (own_texts, learned[shared] if shared else [])
        for gram, origin in zip(grams_of(found.draft, context), found.origins.tolist(), strict=True):
            assert contains(sources[origin], gram)
