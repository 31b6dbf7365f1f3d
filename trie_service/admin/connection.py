"""Connections to the two services, with failures in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc
from draftwell.decoder.v1 import decoder_pb2_grpc
from draftwell.trie.v1 import trie_pb2_grpc

from trie_service.admin.errors import AdminError

CALL_TIMEOUT_S = 30.0
LONG_CALL_TIMEOUT_S = 900.0  # of calls whose work grows with what a namespace holds

_OUT_OF_REACH = ("connect", "dns", "resolve", "socket closed", "connection reset")
_IN_WORDS = {
    grpc.StatusCode.UNIMPLEMENTED: "it does not know this command: it is older than trie-admin",
    grpc.StatusCode.DEADLINE_EXCEEDED: "no answer in time: it is busy or stuck, try again",
}


@dataclass(frozen=True, slots=True)
class Peer:
    """A service, as messages name it."""

    kind: str
    address: str
    remedy: str

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Translate the failure of a call to this service into an AdminError of one line."""
        try:
            yield
        except grpc.RpcError as error:
            raise AdminError(self._in_words(error)) from error

    def _in_words(self, error: grpc.RpcError) -> str:
        assert isinstance(error, grpc.Call)  # of a client's errors that holds, though the types do not say so
        code, details = error.code(), " ".join((error.details() or "").split())
        if code is grpc.StatusCode.UNAVAILABLE and any(word in details.lower() for word in _OUT_OF_REACH):
            return f"no {self.kind} answers at {self.address}: {self.remedy}"
        return f"{self.kind} at {self.address}: {_IN_WORDS.get(code, details)} ({code.name})"


@contextmanager
def trie_at(address: str) -> Iterator[trie_pb2_grpc.TrieServiceStub]:
    """A trie service; raise AdminError for a call that fails."""
    peer = Peer("trie service", address, "start one with `trie-service`, or name it with --trie")
    with _channel_to(address) as channel, peer.calling():
        yield trie_pb2_grpc.TrieServiceStub(channel)


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder service; calls are made within ``peer.calling()``."""

    stub: decoder_pb2_grpc.DecoderServiceStub
    peer: Peer


@contextmanager
def decoder_at(address: str) -> Iterator[Decoder]:
    """A decoder service."""
    peer = Peer("decoder", address, "start one with `decoder-service`, or name it with --decoder")
    with _channel_to(address) as channel:
        yield Decoder(decoder_pb2_grpc.DecoderServiceStub(channel), peer)


def _channel_to(address: str) -> grpc.Channel:
    return grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),))
