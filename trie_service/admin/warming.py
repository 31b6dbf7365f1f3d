"""Warms a namespace: a corpus in, acknowledged sequences out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from draftwell.trie.v1 import trie_pb2 as pb

from trie_service.admin.corpus import BadLine, Document, EndOfSource, Item, TokenIds
from trie_service.admin.errors import AdminError
from trie_service.admin.learning_calls import Group, LearningCalls
from trie_service.admin.lessons import learn_requests
from trie_service.admin.tokenizer import Refusal, Tokenizer

MAX_GROUP_SEQUENCES = 256
MAX_GROUP_TOKENS = 1 << 16
ITEMS_AT_ONCE = 64  # tokenized together


@dataclass(slots=True)
class Tally:
    """What was acknowledged, and what was passed over, so far."""

    num_sequences: int = 0
    num_tokens: int = 0  # context not counted
    num_documents: int = 0
    num_empty: int = 0  # documents with nothing to learn
    num_bad: int = 0  # lines that are no documents
    end: int = 0  # bytes of the corpus


@dataclass(frozen=True, slots=True)
class WarmPlan:
    """Where documents go, and what becomes of those that cannot."""

    namespace: pb.NamespaceRef
    vocab_size: int  # 0: not known
    tokenizer: Tokenizer | None
    on_bad: Callable[[BadLine], None]


class Warmer:
    """Sends documents to one namespace; without calls it only counts. Raises AdminError, grpc.RpcError."""

    def __init__(self, plan: WarmPlan, calls: LearningCalls | None) -> None:
        self._plan = plan
        self._calls = calls
        self.tally = Tally()

    @property
    def sends(self) -> bool:
        """Whether anything reaches an index."""
        return self._calls is not None

    def warm(self, items: Iterable[Item]) -> Iterator[Group]:
        """Learn all documents; yield each group when it is acknowledged."""
        for group in self._groups(items):
            for acknowledged in self._calls.send(group) if self._calls else [group]:
                yield self._counted(acknowledged)
        for acknowledged in self._calls.flush() if self._calls else []:
            yield self._counted(acknowledged)

    def _counted(self, group: Group) -> Group:
        self.tally.num_sequences += len(group.requests)
        self.tally.num_tokens += group.num_tokens
        self.tally.end = group.end
        return group

    def _groups(self, items: Iterable[Item]) -> Iterator[Group]:
        group = Group()
        for item, requests in self._lessons(iter(items)):
            group.requests += requests
            group.places += [item.place for _ in requests if isinstance(item, Document)]
            group.num_tokens += sum(len(request.tokens) - request.context_len for request in requests)
            group.positions[item.source] = None if isinstance(item, EndOfSource) else item.position
            group.end = item.end
            if len(group.requests) >= MAX_GROUP_SEQUENCES or group.num_tokens >= MAX_GROUP_TOKENS:
                yield group
                group = Group()
        if group.positions:
            yield group

    def _lessons(self, items: Iterator[Item]) -> Iterator[tuple[Item, list[pb.LearnRequest]]]:
        while some := list(islice(items, ITEMS_AT_ONCE)):
            for item, tokens in self._tokenized(some):
                if isinstance(item, BadLine):
                    self.tally.num_bad += 1
                    self._plan.on_bad(item)
                yield item, self._requests(item, tokens) if isinstance(item, Document) and tokens else []

    def _requests(self, document: Document, tokens: TokenIds) -> list[pb.LearnRequest]:
        requests = list(learn_requests(self._plan.namespace, document, tokens))
        self.tally.num_documents += 1
        self.tally.num_empty += not requests
        return requests

    def _tokenized(self, items: list[Item]) -> Iterator[tuple[Item, TokenIds | None]]:
        """Items with the tokens of documents; a document that has none becomes a bad line."""
        texts = [
            item for item in items if isinstance(item, Document) and not isinstance(item.content, TokenIds)
        ]
        answers = iter(self._answers(texts))
        for item in items:
            if not isinstance(item, Document):
                yield item, None
            elif isinstance(item.content, TokenIds):
                yield self._checked(item, item.content)
            else:
                yield next(answers)

    def _answers(self, documents: list[Document]) -> Iterator[tuple[Item, TokenIds | None]]:
        tokenizer = self._plan.tokenizer
        if documents and tokenizer is None:
            raise AdminError(
                f"{documents[0].place}: text must be tokenized: name a decoder with --decoder, "
                "or a folder with --tokenizer"
            )
        texts = [document.content for document in documents if not isinstance(document.content, TokenIds)]
        found = tokenizer.tokenize(texts) if tokenizer and texts else []
        for document, tokens in zip(documents, found, strict=True):
            if isinstance(tokens, Refusal):
                yield _bad(document, tokens.reason), None
            else:
                yield self._checked(document, TokenIds(tokens))

    def _checked(self, document: Document, tokens: TokenIds) -> tuple[Item, TokenIds | None]:
        size = self._plan.vocab_size
        if size and len(tokens.ids) and (largest := tokens.ids.max()) >= size:
            reason = f"token id {largest} is not below the namespace's vocabulary size {size}"
            return _bad(document, reason), None
        return document, tokens


class Clock:
    """Tokens a second since it was made."""

    def __init__(self) -> None:
        self._started_at = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._started_at

    def rate(self, num_tokens: int) -> float:
        """Tokens a second, tokenizing and the way to the store included."""
        return num_tokens / max(self.seconds, 1e-9)


def _bad(document: Document, reason: str) -> BadLine:
    return BadLine(document.source, document.place, document.position, reason, document.end)
