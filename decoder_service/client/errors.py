"""What may go wrong between a client and a service, and the one table from gRPC status to error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc


class ClientError(Exception):
    """A call failed. The message is the server's own wherever it sent one."""


class Unreachable(ClientError):
    """Nothing answers at the address, or the service there is going down."""


class InvalidRequest(ClientError):
    """A value in the request makes no sense; the message names it."""


class NotFound(ClientError):
    """The request names something that does not exist."""


class PreconditionFailed(ClientError):
    """The service is not in a state for this request, for example another model's namespace."""


class Overloaded(ClientError):
    """The service's queue is full; try again later."""


class DeadlineExceeded(ClientError):
    """The caller's timeout ran out."""


class Cancelled(ClientError):
    """The call was cancelled, here or by the service."""


class ServerError(ClientError):
    """The service failed in a way that is not the caller's fault."""


_ERRORS: dict[grpc.StatusCode, type[ClientError]] = {
    grpc.StatusCode.UNAVAILABLE: Unreachable,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.FAILED_PRECONDITION: PreconditionFailed,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Overloaded,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: Cancelled,
}


def error_of(error: grpc.RpcError, address: str) -> ClientError:
    """The client's error for gRPC's; one that names the address where nothing answers there."""
    assert isinstance(error, grpc.Call)
    status, details = error.code(), error.details() or ""
    kind = _ERRORS.get(status, ServerError)
    if kind is Unreachable:
        return Unreachable(f"cannot reach a service at {address}: {details}")
    if kind is DeadlineExceeded:
        return DeadlineExceeded(f"{address} did not answer in full before the timeout")
    return kind(details or f"{status.name} from {address}")


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Raise gRPC's errors as the client's."""
    try:
        yield
    except grpc.RpcError as error:
        raise error_of(error, address) from error
