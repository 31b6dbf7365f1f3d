"""Text to tokens and back, by the decoder that owns the tokenizer, or whatever knows the same one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import grpc
import numpy as np
from draftwell.decoder.v1 import decoder_pb2 as pb

from trie_service.admin.connection import CALL_TIMEOUT_S, Decoder
from trie_service.admin.corpus import Conversation
from trie_service.admin.corpus.document import TokenArray

Text = str | Conversation


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a namespace must agree with."""

    fingerprint: str
    size: int
    default_namespace: str  # of the decoder's requests that do not say


@dataclass(frozen=True, slots=True)
class Refusal:
    """A text that the tokenizer does not take."""

    reason: str


class Tokenizer(Protocol):
    """Knows what token ids mean. Its calls raise AdminError."""

    def vocabulary(self) -> Vocabulary:
        """Fingerprint, size and namespace."""
        ...

    def tokenize(self, texts: Sequence[Text]) -> list[TokenArray | Refusal]:
        """The token ids of each text."""
        ...

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each token alone."""
        ...


class RemoteTokenizer:
    """A decoder's tokenizer, by gRPC. Its calls raise AdminError."""

    def __init__(self, decoder: Decoder) -> None:
        self._stub = decoder.stub
        self._peer = decoder.peer
        self._vocabulary: Vocabulary | None = None

    def vocabulary(self) -> Vocabulary:
        """Fingerprint, size and the decoder's own namespace."""
        if self._vocabulary is None:
            with self._peer.calling():
                model = self._stub.GetModel(pb.GetModelRequest(), timeout=CALL_TIMEOUT_S)
            self._vocabulary = Vocabulary(model.fingerprint, model.vocab_size, model.default_namespace)
        return self._vocabulary

    def tokenize(self, texts: Sequence[Text]) -> list[TokenArray | Refusal]:
        """Ask for all texts at once."""
        with self._peer.calling():
            calls = [self._stub.Tokenize.future(_request(text), timeout=CALL_TIMEOUT_S) for text in texts]
            return [_answer(call) for call in calls]

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each token alone."""
        if not tokens:
            return []
        request = pb.DetokenizeRequest(token_ids=tokens, pieces=True)
        with self._peer.calling():
            return list(self._stub.Detokenize(request, timeout=CALL_TIMEOUT_S).pieces)


def _request(text: Text) -> pb.TokenizeRequest:
    if isinstance(text, str):
        return pb.TokenizeRequest(text=text)
    messages = [pb.ChatMessage(role=message.role, content=message.content) for message in text.messages]
    return pb.TokenizeRequest(chat=pb.Chat(messages=messages))


def _answer(call: grpc.CallFuture[pb.TokenizeResponse]) -> TokenArray | Refusal:
    try:
        return np.array(call.result().token_ids, dtype=np.int64)
    except grpc.RpcError:
        if call.code() is not grpc.StatusCode.INVALID_ARGUMENT:
            raise
        return Refusal(call.details() or "the decoder refuses it")
