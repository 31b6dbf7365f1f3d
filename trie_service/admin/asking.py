"""Asks the index what it would draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub

from trie_service.admin.connection import CALL_TIMEOUT_S
from trie_service.admin.errors import AdminError
from trie_service.admin.tokenizer import Refusal, Tokenizer

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Question:
    """What may follow this text, or these token ids?"""

    namespace: str
    content: str | Sequence[int]
    max_nodes: int  # 0: the server's default


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A context, its draft and the text of each node."""

    context: Sequence[int]
    draft: pb.DraftTree
    pieces: Sequence[str]  # [node], the token id as text where no tokenizer is at hand


def ask_index(trie: TrieServiceStub, tokenizer: Tokenizer | None, question: Question) -> Suggestion:
    """One draft; raise AdminError for a context that is none and grpc.RpcError for a call that fails."""
    context = _context(tokenizer, question.content)
    fingerprint = tokenizer.vocabulary().fingerprint if tokenizer else ""
    try:
        query = pb.DraftQuery(
            namespace=pb.NamespaceRef(name=question.namespace, fingerprint=fingerprint),
            context=context,
            limits=pb.DraftLimits(max_nodes=question.max_nodes),
        )
    except ValueError as error:
        raise AdminError(f"a token id is none: {error}") from error
    draft = trie.Suggest(pb.SuggestRequest(query=query), timeout=CALL_TIMEOUT_S).draft
    return Suggestion(context, draft, pieces_of(tokenizer, draft.tokens))


def pieces_of(tokenizer: Tokenizer | None, tokens: Sequence[int]) -> list[str]:
    """The text of each token alone; its id where no tokenizer is at hand."""
    return tokenizer.pieces(tokens) if tokenizer else [str(token) for token in tokens]


def namespace_for(tokenizer: Tokenizer | None, name: str | None) -> str:
    """The namespace of that name; without one the decoder's own, or "default" where no decoder is asked."""
    if name is not None:
        return name
    return tokenizer.vocabulary().default_namespace if tokenizer else DEFAULT_NAMESPACE


def _context(tokenizer: Tokenizer | None, content: str | Sequence[int]) -> Sequence[int]:
    if not isinstance(content, str):
        return content
    assert tokenizer is not None
    (tokens,) = tokenizer.tokenize([content])
    if isinstance(tokens, Refusal):
        raise AdminError(tokens.reason)
    return [int(token) for token in tokens]


def vocabulary_ref(trie: TrieServiceStub, tokenizer: Tokenizer, namespace: str) -> pb.NamespaceRef:
    """The namespace for a tokenizer's tokens, created where there is none.

    Raises grpc.RpcError where it belongs to another tokenizer.
    """
    vocabulary = tokenizer.vocabulary()
    ref = pb.NamespaceRef(name=namespace, fingerprint=vocabulary.fingerprint)
    request = pb.CreateNamespaceRequest(namespace=ref, vocab_size=vocabulary.size)
    trie.CreateNamespace(request, timeout=CALL_TIMEOUT_S)
    return ref
