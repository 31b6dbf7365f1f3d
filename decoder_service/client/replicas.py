"""The addresses of equal decoders, and a connection to each."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import grpc
from draftwell.decoder.v1.decoder_pb2_grpc import DecoderServiceStub

from decoder_service.client.errors import InvalidRequest

_CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", 10_000),  # a host that is gone says nothing
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),  # a restarted decoder is found again soon
    ("grpc.max_reconnect_backoff_ms", 2000),
)
_SCHEMES_WITH_COMMAS = ("ipv4:", "ipv6:")  # such a target is a list already


class Replicas:
    """Any of them continues any stream; one is in use until it fails. Threads may share it."""

    def __init__(self, addresses: str | Sequence[str]) -> None:
        self.addresses = _split(addresses)
        self._channels = {
            address: grpc.insecure_channel(address, options=_CHANNEL_OPTIONS) for address in self.addresses
        }
        self._stubs = {address: DecoderServiceStub(channel) for address, channel in self._channels.items()}
        self._current = self.addresses[0]
        self._lock = threading.Lock()
        self.is_closed = False

    @property
    def current(self) -> str:
        """The address in use."""
        return self._current

    def stub(self, address: str) -> DecoderServiceStub:
        """The methods of the decoder there."""
        return self._stubs[address]

    def channel(self, address: str) -> grpc.Channel:
        """The connection to the decoder there."""
        return self._channels[address]

    def leave(self, address: str) -> None:
        """Use the next address from now on, unless somebody has left this one already."""
        with self._lock:
            if self._current == address:
                place = self.addresses.index(address) + 1
                self._current = self.addresses[place % len(self.addresses)]

    def close(self) -> None:
        """Close all connections; calls that still run are cancelled."""
        self.is_closed = True
        for channel in self._channels.values():
            channel.close()


def _split(addresses: str | Sequence[str]) -> tuple[str, ...]:
    """Each address once, in order; raise InvalidRequest where there is none."""
    if isinstance(addresses, str):
        addresses = [addresses] if addresses.startswith(_SCHEMES_WITH_COMMAS) else addresses.split(",")
    named = [address.strip() for address in addresses]
    found = tuple(dict.fromkeys(address for address in named if address))
    if not found:
        raise InvalidRequest("no address of a decoder is given")
    return found
