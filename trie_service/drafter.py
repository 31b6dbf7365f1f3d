"""Answers questions to the index from memory: many at once, from a namespace and a shared one beside it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from trie_service.draft_union import SourcedDraft, united
from trie_service.drafting import Draft, DraftLimits
from trie_service.errors import FingerprintMismatchError, InvalidArgumentError, TrieServiceError
from trie_service.memory import NamespaceMemory
from trie_service.namespaces import Namespaces
from trie_service.query import DraftQuery
from trie_service.sequence import Int32Array

MAX_NODES_PER_MESSAGE: Final = 1 << 16
NODES_AT_ONCE: Final = 1024  # about a millisecond of work; then others get their turn


class _Question(NamedTuple):
    """One context to look up in one memory."""

    memory: NamespaceMemory
    context: Int32Array  # [len]
    limits: DraftLimits


class _Plan(NamedTuple):
    """What a query comes to."""

    own: _Question
    shared: _Question | None


@dataclass(frozen=True, slots=True)
class Drafter:
    """Drafts from the namespaces of one replica."""

    namespaces: Namespaces
    defaults: DraftLimits

    def draft(self, query: DraftQuery) -> SourcedDraft:
        """Draft for one context.

        Raises NamespaceNotFoundError, FingerprintMismatchError, InvalidArgumentError, NotReadyError or
        UnsupportedFormatError.
        """
        return _drafts_of([self._plan(query)])[0]

    async def draft_all(self, queries: Sequence[DraftQuery]) -> list[SourcedDraft | TrieServiceError]:
        """Draft for many contexts; a query that fails harms no other. Others get a turn in between.

        Raises InvalidArgumentError where the queries ask for too many nodes together.
        """
        max_nodes = [query.max_nodes or self.defaults.max_nodes for query in queries]
        if sum(max_nodes) > MAX_NODES_PER_MESSAGE:
            raise InvalidArgumentError(
                f"the max_nodes of the queries of a message sum up to {sum(max_nodes)}, "
                f"more than {MAX_NODES_PER_MESSAGE}"
            )
        answers: list[SourcedDraft | TrieServiceError] = []
        for piece in _pieces(max_nodes):
            if answers:
                await asyncio.sleep(0)
            answers += self._answers(queries[piece])
        return answers

    def _answers(self, queries: Sequence[DraftQuery]) -> list[SourcedDraft | TrieServiceError]:
        plans = [self._plan_or_error(query) for query in queries]
        drafts = iter(_drafts_of([plan for plan in plans if isinstance(plan, _Plan)]))
        return [next(drafts) if isinstance(plan, _Plan) else plan for plan in plans]

    def _plan_or_error(self, query: DraftQuery) -> _Plan | TrieServiceError:
        try:
            return self._plan(query)
        except TrieServiceError as error:
            return error

    def _plan(self, query: DraftQuery) -> _Plan:
        memory = self.namespaces.memory_of(query.namespace)
        limits = query.limits(self.defaults)
        own = _Question(memory, memory.newest(query.context), limits)
        if query.shared_namespace is None:
            return _Plan(own, None)
        shared = self.namespaces.memory_of(query.shared_namespace)
        if shared.record.fingerprint != memory.record.fingerprint:
            raise FingerprintMismatchError(
                f"shared namespace {shared.record.name!r} has fingerprint {shared.record.fingerprint!r}, "
                f"and namespace {memory.record.name!r} has {memory.record.fingerprint!r}"
            )
        return _Plan(own, _Question(shared, shared.newest(query.context), limits))


def _pieces(max_nodes: Sequence[int]) -> Iterator[slice]:
    """Ranges of queries that ask for about NODES_AT_ONCE nodes together."""
    start = num_nodes = 0
    for end, num in enumerate(max_nodes):
        if end > start and num_nodes + num > NODES_AT_ONCE:
            yield slice(start, end)
            start, num_nodes = end, 0
        num_nodes += num
    if start < len(max_nodes):
        yield slice(start, len(max_nodes))


def _drafts_of(plans: Sequence[_Plan]) -> list[SourcedDraft]:
    own = _drafts_for([plan.own for plan in plans])
    shared = iter(_drafts_for([plan.shared for plan in plans if plan.shared is not None]))
    return [
        SourcedDraft.of_own(draft)
        if plan.shared is None
        else united(draft, next(shared), plan.own.limits.max_nodes)
        for plan, draft in zip(plans, own, strict=True)
    ]


def _drafts_for(questions: Sequence[_Question]) -> list[Draft]:
    """A draft for each, in their order; those to one memory are answered in one call."""
    places: dict[NamespaceMemory, list[int]] = defaultdict(list)
    for place, question in enumerate(questions):
        places[question.memory].append(place)
    found: dict[int, Draft] = {}
    for memory, asked in places.items():
        contexts, limits = [questions[at].context for at in asked], [questions[at].limits for at in asked]
        found |= zip(asked, memory.draft(contexts, limits), strict=True)
    return [found[place] for place in range(len(questions))]
