"""Warms a namespace: documents in, acknowledged sequences out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub

from trie_service.admin.corpus import Document, TokenIds
from trie_service.admin.errors import AdminError
from trie_service.admin.tokenizer import RemoteTokenizer

SEQUENCES_PER_CALL = 128
TOKENIZE_AHEAD = 16
MAX_SEQUENCE_ID_LEN = 256


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A document and its tokens."""

    document: Document
    tokens: Sequence[int]


@dataclass(frozen=True, slots=True)
class WarmReport:
    """What was acknowledged, and how fast."""

    num_sequences: int
    num_tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Tokenizing and the way to the store included."""
        return self.num_tokens / max(self.seconds, 1e-9)


@dataclass(frozen=True, slots=True)
class Warmer:
    """Sends documents to one namespace. Its calls raise grpc.RpcError."""

    trie: TrieServiceStub
    namespace: pb.NamespaceRef
    tokenizer: RemoteTokenizer | None

    def warm(self, documents: Iterable[Document], on_bytes: Callable[[int], None]) -> WarmReport:
        """Learn all documents that are not empty; tell ``on_bytes`` how much of the files is acknowledged."""
        started = time.perf_counter()
        num_sequences = num_tokens = 0
        tokenized = self._tokenize(documents)
        while group := list(islice(tokenized, SEQUENCES_PER_CALL)):
            receipt = self.trie.Learn(iter([self._request(item) for item in group if item.tokens]))
            num_sequences += receipt.num_sequences
            num_tokens += receipt.num_tokens
            on_bytes(sum(item.document.num_bytes for item in group))
        return WarmReport(num_sequences, num_tokens, time.perf_counter() - started)

    def _tokenize(self, documents: Iterable[Document]) -> Iterator[Tokenized]:
        """Documents with their tokens, in order; a few questions run ahead of the answers."""
        asked: deque[tuple[Document, Callable[[], Sequence[int]]]] = deque()
        for document in documents:
            asked.append((document, self._ask(document)))
            if len(asked) > TOKENIZE_AHEAD:
                ahead, answer = asked.popleft()
                yield Tokenized(ahead, answer())
        for document, answer in asked:
            yield Tokenized(document, answer())

    def _ask(self, document: Document) -> Callable[[], Sequence[int]]:
        content = document.content
        if isinstance(content, TokenIds):
            return lambda: content.ids
        if self.tokenizer is None:
            raise AdminError(f"{document.name}: text must be tokenized: name a decoder with --decoder")
        return self.tokenizer.ask(content)

    def _request(self, item: Tokenized) -> pb.LearnRequest:
        name = item.document.name
        try:
            return pb.LearnRequest(
                namespace=self.namespace, sequence_id=name[-MAX_SEQUENCE_ID_LEN:], tokens=item.tokens
            )
        except ValueError as error:
            raise AdminError(f"{name}: a token id is none: {error}") from error
