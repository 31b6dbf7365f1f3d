"""Between the wire and the index's own nouns."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
from draftwell.trie.v1 import trie_pb2 as pb

from trie_service.drafting import Draft
from trie_service.errors import TrieServiceError
from trie_service.index import NamespaceView, ServingState
from trie_service.learning import LearnItem, Receipt
from trie_service.namespace import NamespaceRef
from trie_service.query import DraftQuery
from trie_service.status import code_of

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
    )


async def learn_items(messages: AsyncIterator[pb.LearnRequest]) -> AsyncIterator[LearnItem]:
    """The sequences of a Learn stream."""
    async for message in messages:
        yield LearnItem(
            namespace=ref_of(message.namespace),
            sequence_id=message.sequence_id,
            tokens=np.array(message.tokens, dtype=np.int64),
            context_len=message.context_len,
        )


def tree_message(draft: Draft) -> pb.DraftTree:
    """A draft as flat arrays."""
    return pb.DraftTree(
        tokens=draft.tokens.tolist(),
        parents=draft.parents.tolist(),
        match_orders=draft.orders.tolist(),
        counts=draft.counts.tolist(),
        totals=draft.totals.tolist(),
        probabilities=draft.probabilities.tolist(),
    )


def error_answer(error: TrieServiceError) -> pb.DraftAnswer:
    """The answer to a query that failed."""
    return pb.DraftAnswer(error=pb.DraftError(code=code_of(error), message=str(error)))


def receipt_message(receipt: Receipt) -> pb.LearnResponse:
    """What was acknowledged."""
    return pb.LearnResponse(num_sequences=receipt.num_sequences, num_tokens=receipt.num_tokens)


def namespace_message(view: NamespaceView) -> pb.Namespace:
    """A namespace with its statistics."""
    record, stats = view.record, view.stats
    return pb.Namespace(
        name=record.name,
        fingerprint=record.fingerprint,
        vocab_size=record.vocab_size,
        stats=pb.NamespaceStats(
            num_sequences=stats.num_sequences,
            num_tokens=stats.num_tokens,
            num_nodes=stats.num_nodes,
            num_bytes=stats.num_bytes,
            num_lookups=stats.num_lookups,
            num_hits=stats.num_hits,
            num_drafted_nodes=stats.num_drafted_nodes,
            num_pending=stats.num_pending,
        ),
    )
