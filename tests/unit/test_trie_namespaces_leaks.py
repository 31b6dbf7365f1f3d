"""No draft holds what its namespace never learned."""

from __future__ import annotations

import asyncio
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from index_replicas import learn, replica

from trie_service.drafting import Draft
from trie_service.index import DraftIndex
from trie_service.memory_store import MemoryStore
from trie_service.namespace import NamespaceRef
from trie_service.query import DraftQuery


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
