"""Connections to the two services, with failures in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from draftwell.decoder.v1 import decoder_pb2_grpc
from draftwell.trie.v1 import trie_pb2_grpc

from trie_service.admin.errors import AdminError

CALL_TIMEOUT_S = 30.0


@contextmanager
def trie_at(address: str) -> Iterator[trie_pb2_grpc.TrieServiceStub]:
    """A trie service; raise AdminError for a call that fails."""
    with _calling(
        "trie service", address, "start one with `trie-service`, or name it with --trie"
    ) as channel:
        yield trie_pb2_grpc.TrieServiceStub(channel)


@contextmanager
def decoder_at(address: str) -> Iterator[decoder_pb2_grpc.DecoderServiceStub]:
    """A decoder service; raise AdminError for a call that fails."""
    with _calling(
        "decoder", address, "start one with `decoder-service`, or name it with --decoder"
    ) as channel:
        yield decoder_pb2_grpc.DecoderServiceStub(channel)


@contextmanager
def _calling(service: str, address: str, remedy: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        try:
            yield channel
        except grpc.RpcError as error:
            code, details = _status(error)
            if code is grpc.StatusCode.UNAVAILABLE and "connect" in details:
                raise AdminError(f"no {service} answers at {address}: {remedy}") from error
            raise AdminError(f"{service} at {address}: {details} ({code.name})") from error


def _status(error: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    assert isinstance(error, grpc.Call)  # of a client's errors that holds, though the types do not say so
    return error.code(), error.details() or ""
