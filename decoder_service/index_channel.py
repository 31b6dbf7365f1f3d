"""How this service reaches the trie service."""

from __future__ import annotations

from typing import Final

import grpc

OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.max_receive_message_length", 16 << 20),
)


def open_index_channel(target: str) -> grpc.Channel:
    """A plaintext channel that connects when it is used and reconnects by itself."""
    return grpc.insecure_channel(target, options=OPTIONS)


def error_text(error: grpc.RpcError) -> str:
    """Status and details of a failed call, for people."""
    return f"{error.code().name}: {error.details()}"
