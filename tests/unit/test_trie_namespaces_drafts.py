"""What is drafted from namespaces: with a shared second one, most often, in large messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from index_replicas import CHAT, draft, learn, replica, until
from namespace_checks import holds

from trie_service.drafter import MAX_NODES_PER_MESSAGE
from trie_service.errors import FingerprintMismatchError, InvalidArgumentError, NamespaceNotFoundError
from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceRef
from trie_service.query import DraftQuery
from trie_service.top_drafts import SAMPLING


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
