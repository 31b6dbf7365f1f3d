"""What the commands ask the trie service: about itself, and for a namespace of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub

from decoder_service.client.errors import NotFound, translated

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Learned:
    """What a namespace holds."""

    num_sequences: int = 0
    num_tokens: int = 0
    num_pending: int = 0  # entries of the log that are not yet applied


class IndexClient:
    """A connection to one trie service. Raises ClientError where a call fails."""

    def __init__(self, address: str, channel: grpc.Channel) -> None:
        self._address = address
        self._stub = TrieServiceStub(channel)

    def store(self) -> str:
        """Name the store, without credentials."""
        with translated(self._address):
            return self._stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=_TIMEOUT_S).store

    def create_namespace(self, name: str, fingerprint: str, vocab_size: int) -> None:
        """Create an empty namespace."""
        ref = pb.NamespaceRef(name=name, fingerprint=fingerprint)
        request = pb.CreateNamespaceRequest(namespace=ref, vocab_size=vocab_size)
        with translated(self._address):
            self._stub.CreateNamespace(request, timeout=_TIMEOUT_S)

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace."""
        with translated(self._address):
            self._stub.DeleteNamespace(pb.DeleteNamespaceRequest(name=name), timeout=_TIMEOUT_S)

    def learned(self, name: str) -> Learned:
        """Count what a namespace holds; nothing where it is not known yet."""
        try:
            with translated(self._address):
                request = pb.GetNamespaceRequest(name=name)
                stats = self._stub.GetNamespace(request, timeout=_TIMEOUT_S).namespace.stats
        except NotFound:
            return Learned()
        return Learned(stats.num_sequences, stats.num_tokens, stats.num_pending)


@contextmanager
def index_client(address: str) -> Iterator[IndexClient]:
    """Connect to the trie service at ``address``."""
    with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        yield IndexClient(address, channel)
