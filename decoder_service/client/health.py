"""Asks a service for its health by grpc.health.v1, without that package.

Its request without a service name is an empty message, and its answer is one enum in field 1; so the
base installation needs no more than grpc.
"""

from __future__ import annotations

import time

import grpc

from decoder_service.client.errors import DeadlineExceeded, translated

_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"  # field 1, a varint: SERVING
_POLL_S = 0.1


def wait_until_serving(channel: grpc.Channel, address: str, timeout_s: float) -> None:
    """Return once the service says that it serves; raise DeadlineExceeded after ``timeout_s``."""
    check = channel.unary_unary(_CHECK, request_serializer=bytes, response_deserializer=bytes)
    deadline_s = time.monotonic() + timeout_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        if _serves(check, address, left_s):
            return
        time.sleep(min(_POLL_S, left_s))
    raise DeadlineExceeded(f"no service at {address} was ready within {timeout_s:g} s")


def _serves(check: grpc.UnaryUnaryMultiCallable[bytes, bytes], address: str, left_s: float) -> bool:
    try:
        with translated(address):
            return check(b"", timeout=left_s, wait_for_ready=True) == _SERVING
    except DeadlineExceeded:
        return False
