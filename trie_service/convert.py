"""Between the wire and the index's own nouns."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
from draftwell.trie.v1 import trie_pb2 as pb

from trie_service.draft_union import SourcedDraft
from trie_service.errors import TrieServiceError
from trie_service.learning import LearnItem, Receipt
from trie_service.memory import NamespaceStats
from trie_service.namespace import NamespaceLimits, NamespaceRecord, NamespaceRef
from trie_service.namespaces import NamespaceView
from trie_service.query import DraftQuery
from trie_service.serving import ServingState
from trie_service.status import code_of
from trie_service.top_drafts import TopDraft
from trie_service.verifying import Findings

STATE_OF = {
    ServingState.LOADING: pb.SERVING_STATE_LOADING,
    ServingState.SERVING: pb.SERVING_STATE_SERVING,
    ServingState.DEGRADED: pb.SERVING_STATE_DEGRADED,
}


def ref_of(message: pb.NamespaceRef) -> NamespaceRef:
    """A namespace as the caller names it."""
    return NamespaceRef(message.name, message.fingerprint)


def query_of(message: pb.DraftQuery, max_match_order: int) -> DraftQuery:
    """A query; of its context only what the index can match."""
    return DraftQuery(
        namespace=ref_of(message.namespace),
        context=np.array(message.context[-max_match_order:], dtype=np.int64),
        max_nodes=message.limits.max_nodes,
        min_probability=message.limits.min_probability,
        max_depth=message.limits.max_depth,
        shared_namespace=ref_of(message.shared_namespace) if message.HasField("shared_namespace") else None,
    )


def limits_of(message: pb.NamespaceLimits) -> NamespaceLimits:
    """Bounds of a namespace."""
    return NamespaceLimits(
        max_bytes=message.max_bytes,
        max_tokens_per_second=message.max_tokens_per_second,
        text_ttl_s=message.text_ttl_seconds,
    )


def record_of(message: pb.CreateNamespaceRequest) -> NamespaceRecord:
    """A namespace to create; raise InvalidArgumentError for one that cannot be."""
    return NamespaceRecord.new(ref_of(message.namespace), message.vocab_size, limits_of(message.limits))


async def learn_items(messages: AsyncIterator[pb.LearnRequest]) -> AsyncIterator[LearnItem]:
    """The sequences of a Learn stream."""
    async for message in messages:
        yield LearnItem(
            namespace=ref_of(message.namespace),
            sequence_id=message.sequence_id,
            tokens=np.array(message.tokens, dtype=np.int64),
            context_len=message.context_len,
        )


async def file_pieces(
    first: pb.ImportNamespaceRequest, rest: AsyncIterator[pb.ImportNamespaceRequest]
) -> AsyncIterator[bytes]:
    """The bytes of an Import stream."""
    yield first.data
    async for message in rest:
        yield message.data


def tree_message(found: SourcedDraft) -> pb.DraftTree:
    """A draft as flat arrays."""
    draft = found.draft
    return pb.DraftTree(
        tokens=draft.tokens.tolist(),
        parents=draft.parents.tolist(),
        match_orders=draft.orders.tolist(),
        counts=draft.counts.tolist(),
        totals=draft.totals.tolist(),
        probabilities=draft.probabilities.tolist(),
        origins=found.origins.tolist() if found.origins.any() else (),
    )


def answer_message(answer: SourcedDraft | TrieServiceError) -> pb.DraftAnswer:
    """The answer to one query of a batch."""
    if isinstance(answer, TrieServiceError):
        return pb.DraftAnswer(error=pb.DraftError(code=code_of(answer), message=str(answer)))
    return pb.DraftAnswer(draft=tree_message(answer))


def top_draft_message(top: TopDraft) -> pb.TopDraft:
    """A text that is drafted often."""
    return pb.TopDraft(context=top.context, tokens=top.tokens, num_drafts=top.num_drafts)


def findings_message(findings: Findings) -> pb.VerifyNamespaceResponse:
    """What a check found."""
    return pb.VerifyNamespaceResponse(
        problems=findings.problems, digest=findings.digest, num_applied=findings.num_applied
    )


def receipt_message(receipt: Receipt) -> pb.LearnResponse:
    """What was acknowledged."""
    return pb.LearnResponse(num_sequences=receipt.num_sequences, num_tokens=receipt.num_tokens)


def namespace_message(view: NamespaceView) -> pb.Namespace:
    """A namespace with its statistics."""
    record = view.record
    return pb.Namespace(
        name=record.name,
        fingerprint=record.fingerprint,
        vocab_size=record.vocab_size,
        stats=stats_message(view.stats),
        limits=pb.NamespaceLimits(
            max_bytes=record.limits.max_bytes,
            max_tokens_per_second=record.limits.max_tokens_per_second,
            text_ttl_seconds=record.limits.text_ttl_s,
        ),
    )


def stats_message(stats: NamespaceStats) -> pb.NamespaceStats:
    """What a replica holds of a namespace."""
    return pb.NamespaceStats(
        num_sequences=stats.num_sequences,
        num_tokens=stats.num_tokens,
        num_nodes=stats.num_nodes,
        num_bytes=stats.num_bytes,
        num_lookups=stats.num_lookups,
        num_hits=stats.num_hits,
        num_drafted_nodes=stats.num_drafted_nodes,
        num_pending=stats.num_pending,
        num_evicted_tokens=stats.num_evicted_tokens,
        num_forgotten_sequences=stats.num_forgotten_sequences,
        replication_lag_seconds=stats.replication_lag_s,
        snapshot_age_seconds=stats.snapshot_age_s,
        snapshot_bytes=stats.snapshot_bytes,
        log_bytes=stats.log_bytes,
    )
