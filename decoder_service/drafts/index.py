"""Drafts from the trie service: one message a step for the whole batch, under a deadline.

The service may be absent, slow, wrong or gone at any moment: then drafts are empty, and the reason is kept
for the requests' warnings.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import grpc
import numpy as np
import numpy.typing as npt
from draftwell.trie.v1 import trie_pb2

from decoder_service.circuit_breaker import CircuitBreaker
from decoder_service.draft import NO_OPINION, NUM_OPINIONS, UNKNOWN_TOKEN, DraftAsk, DraftTree, Source
from decoder_service.drafts.index_stream import IndexStream
from decoder_service.forest import Int32Array

NOT_FOUND = 5  # gRPC status code

LEAST_PATH: Final = 1e-6  # of a parent, so that nothing is divided by zero
FAILURES_BEFORE_RESET: Final = 10  # in a row; a busy moment is no reason to change the stream


@dataclass(frozen=True, slots=True)
class IndexConfig:
    """How the index is asked."""

    fingerprint: str  # of the model's tokenizer and vocabulary
    vocab_size: int  # token ids are below this
    deadline_s: float = 0.010  # from begin() on
    context_len: int = 32  # newest tokens that are sent
    max_depth: int = 40
    min_probability: float = 0.002  # of a path, by the index's own estimate


class IndexSource:
    """Asks the trie service. Its state is that of one step; nothing is kept for a request."""

    source = Source.INDEX

    def __init__(
        self, channel: grpc.Channel, config: IndexConfig, breaker: CircuitBreaker | None = None
    ) -> None:
        self.last_wait_ms = 0.0  # that the last collect() was blocked
        self._config = config
        self._stream = IndexStream(channel)
        self._breaker = breaker or CircuitBreaker()
        self._asks: Sequence[DraftAsk] = ()
        self._last_id = 0
        self._deadline: float | None = None  # None: nothing was sent
        self._refusals: dict[str, trie_pb2.DraftError] = {}  # by namespace

    @property
    def status(self) -> str:
        """ "ready", or why the service as a whole gives no drafts."""
        if self._breaker.is_open:
            return f"the trie service does not answer within {self._config.deadline_s * 1000:g} ms"
        if not self._stream.is_open:
            return self._stream.error
        return "ready"

    def warning(self, namespace: str, *, learns: bool = False) -> str:
        """Why requests of a namespace get no drafts now; empty when they do.

        A request that ``learns`` creates a namespace that does not exist yet: that is no warning to it.
        """
        if (status := self.status) != "ready":
            return f"no drafts from the index: {status}"
        refusal = self._refusals.get(namespace)
        if refusal is None or (learns and refusal.code == NOT_FOUND):
            return ""
        return f"no drafts from the index: {refusal.message}"

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Wait for the stream to open; False when that takes longer."""
        return self._stream.wait_until_open(timeout_s)

    def begin(self, asks: Sequence[DraftAsk]) -> None:
        """Send the asks, unless there is no stream or the service keeps failing."""
        self._asks = asks
        self._deadline = None
        now = time.monotonic()
        if not asks or not self._breaker.allows(now):
            return
        self._last_id += 1
        request = trie_pb2.DraftRequest(id=self._last_id, queries=[self._query(ask) for ask in asks])
        if self._stream.send(request):
            self._deadline = now + self._config.deadline_s

    def collect(self) -> list[DraftTree]:
        """One draft for each ask of the last ``begin``; all empty when the answer is late."""
        self.last_wait_ms = 0.0
        if self._deadline is None:
            return [DraftTree.empty() for _ in self._asks]
        started = time.monotonic()
        answer = self._stream.wait_for_answer(max(self._deadline - started, 0.0))
        now = time.monotonic()
        self.last_wait_ms = (now - started) * 1000
        if answer is None or len(answer.answers) != len(self._asks):
            self._fail(now)
            return [DraftTree.empty() for _ in self._asks]
        self._breaker.succeed()
        return [self._tree(ask, part) for ask, part in zip(self._asks, answer.answers, strict=True)]

    def close(self, request_id: int) -> None:
        """Nothing is kept for a request."""

    def stop(self) -> None:
        """End the stream. Nothing may be asked afterwards."""
        self._stream.stop()

    def _fail(self, now: float) -> None:
        self._breaker.fail(now)
        if self._breaker.num_failures % FAILURES_BEFORE_RESET == 0:
            self._stream.reset()

    def _query(self, ask: DraftAsk) -> trie_pb2.DraftQuery:
        config = self._config
        return trie_pb2.DraftQuery(
            namespace=trie_pb2.NamespaceRef(name=ask.namespace, fingerprint=config.fingerprint),
            context=ask.text[-config.context_len :].tolist(),
            limits=trie_pb2.DraftLimits(
                max_nodes=ask.max_nodes,
                min_probability=config.min_probability,
                max_depth=config.max_depth,
            ),
        )

    def _tree(self, ask: DraftAsk, answer: trie_pb2.DraftAnswer) -> DraftTree:
        if answer.HasField("error"):
            return self._refused(ask, answer.error)
        try:
            tree = tree_of(answer.draft, self._config.vocab_size, int(ask.text[-1]))
        except ValueError as error:
            return self._refused(ask, trie_pb2.DraftError(message=f"a malformed draft: {error}"))
        self._refusals.pop(ask.namespace, None)
        return tree

    def _refused(self, ask: DraftAsk, refusal: trie_pb2.DraftError) -> DraftTree:
        self._refusals[ask.namespace] = refusal
        return DraftTree.empty()


def tree_of(draft: trie_pb2.DraftTree, vocab_size: int, newest: int = UNKNOWN_TOKEN) -> DraftTree:
    """The draft under the ``newest`` token as arrays; raise ValueError for one that is no tree of this vocabulary."""
    columns = (draft.tokens, draft.parents, draft.match_orders, draft.counts, draft.totals)
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"arrays of lengths {[len(column) for column in columns]}")
    wide = np.array(columns, dtype=np.int64)  # [5, n]
    num_nodes = wide.shape[1]
    if num_nodes and wide[0].max() >= vocab_size:
        raise ValueError(f"token {wide[0].max()} is outside the vocabulary of {vocab_size}")
    if ((wide[1] < -1) | (wide[1] >= np.arange(num_nodes))).any():
        raise ValueError("a parent that does not come before its child")
    tokens, parents, orders, counts, totals = np.minimum(wide, np.iinfo(np.int32).max).astype(np.int32)
    return DraftTree(tokens, parents, orders, counts, totals, _opinions(draft, parents), newest)


def _opinions(draft: trie_pb2.DraftTree, parents: Int32Array) -> npt.NDArray[np.float32]:
    """The service's own estimate of each token, given its context; an older service sends none."""
    if len(draft.probabilities) != len(parents):
        return np.empty((0, NUM_OPINIONS), dtype=np.float32)
    paths = np.array([*draft.probabilities, 1.0], dtype=np.float32)  # the last entry is for NO_PARENT
    opinions = np.full((len(parents), NUM_OPINIONS), NO_OPINION, dtype=np.float32)
    opinions[:, 0] = np.clip(paths[:-1] / np.maximum(paths[parents], LEAST_PATH), 0.0, 1.0)
    return opinions
