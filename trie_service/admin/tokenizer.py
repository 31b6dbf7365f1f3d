"""Text to tokens and back, by the decoder that owns the tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1.decoder_pb2_grpc import DecoderServiceStub

from trie_service.admin.connection import CALL_TIMEOUT_S
from trie_service.admin.corpus import Conversation


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a namespace must agree with."""

    fingerprint: str
    size: int
    default_namespace: str  # of the decoder's requests that do not say


class RemoteTokenizer:
    """A decoder's tokenizer. Its calls raise grpc.RpcError."""

    def __init__(self, decoder: DecoderServiceStub) -> None:
        self._decoder = decoder

    def vocabulary(self) -> Vocabulary:
        """Fingerprint, size and the decoder's own namespace."""
        model = self._decoder.GetModel(pb.GetModelRequest(), timeout=CALL_TIMEOUT_S)
        return Vocabulary(model.fingerprint, model.vocab_size, model.default_namespace)

    def ask(self, content: str | Conversation) -> Callable[[], list[int]]:
        """Ask for the token ids of a text or a conversation; calling the result waits for them."""
        call = self._decoder.Tokenize.future(_request(content), timeout=CALL_TIMEOUT_S)
        return lambda: list(call.result().token_ids)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each token alone."""
        request = pb.DetokenizeRequest(token_ids=tokens, pieces=True)
        return list(self._decoder.Detokenize(request, timeout=CALL_TIMEOUT_S).pieces)


def _request(content: str | Conversation) -> pb.TokenizeRequest:
    if isinstance(content, str):
        return pb.TokenizeRequest(text=content)
    messages = [pb.ChatMessage(role=message.role, content=message.content) for message in content.messages]
    return pb.TokenizeRequest(chat=pb.Chat(messages=messages))
