"""Asks a service for its health by grpc.health.v1, without that package.

Its request without a service name is an empty message, and its answer is one enum in field 1; so the
base installation needs no more than grpc.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import grpc

from decoder_service.client.errors import DeadlineExceeded, translated

_CHECK = "/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"  # field 1, a varint: SERVING
_POLL_S = 0.1
_TURN_S = 1.0  # for one of several


def wait_until_serving(channels: Mapping[str, grpc.Channel], timeout_s: float) -> None:
    """Return once a service at one of the addresses says that it serves; raise DeadlineExceeded after ``timeout_s``."""
    checks = {
        address: channel.unary_unary(_CHECK, request_serializer=bytes, response_deserializer=bytes)
        for address, channel in channels.items()
    }
    most_s = timeout_s if len(checks) == 1 else _TURN_S
    deadline_s = time.monotonic() + timeout_s
    while (left_s := deadline_s - time.monotonic()) > 0:
        if any(_serves(check, address, min(left_s, most_s)) for address, check in checks.items()):
            return
        time.sleep(min(_POLL_S, left_s))
    raise DeadlineExceeded(f"no service at {' or '.join(checks)} was ready within {timeout_s:g} s")


def _serves(check: grpc.UnaryUnaryMultiCallable[bytes, bytes], address: str, left_s: float) -> bool:
    try:
        with translated(address):
            return check(b"", timeout=left_s, wait_for_ready=True) == _SERVING
    except DeadlineExceeded:
        return False
