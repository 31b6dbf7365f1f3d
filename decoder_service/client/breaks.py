"""Which failures of a call the same request may survive elsewhere or later.

A server's own errors carry a google.rpc.Status with details in their trailing metadata. Its messages, Status and
RetryInfo, are built here from their published numbers, so that the base installation needs no more than protobuf.
"""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, message_factory
from google.protobuf.message import DecodeError

_DETAILS_KEY = "grpc-status-details-bin"
_PACKAGE = "draftwell.client"
_FIELD = descriptor_pb2.FieldDescriptorProto


def is_break(error: grpc.RpcError) -> bool:
    """Whether the service, or the way to it, went away, rather than the service having refused or failed."""
    assert isinstance(error, grpc.Call)
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return True
    by_transport = error.code() in {grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED}
    return by_transport and _details(error) is None


def retry_delay_s(error: grpc.RpcError) -> float | None:
    """Seconds after which the service asks to be tried again; None where it does not ask."""
    for packed in _unpacked_details(error):
        if packed.type_url.rpartition("/")[2] == "google.rpc.RetryInfo":
            delay = _parsed(_RETRY_INFO, packed.value)
            return None if delay is None else delay.retry_delay.ToTimedelta().total_seconds()
    return None


def _unpacked_details(error: grpc.RpcError) -> list[any_pb2.Any]:
    status = _parsed(_STATUS, _details(error) or b"")
    return [] if status is None else list(status.details)


def _details(error: grpc.RpcError) -> bytes | None:
    assert isinstance(error, grpc.Call)
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY:
            return value if isinstance(value, bytes) else value.encode()
    return None


def _parsed(kind: Any, data: bytes) -> Any:  # noqa: ANN401 - classes that are made at run time
    """The message, None where the bytes are none."""
    try:
        return kind.FromString(data)
    except DecodeError:
        return None


def _message(name: str, number: int, field: str, kind: str, *, repeated: bool) -> Any:  # noqa: ANN401
    """A message type with that one field; others are ignored when it is read."""
    label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
    only = _FIELD(name=field, number=number, label=label, type=_FIELD.TYPE_MESSAGE, type_name=kind)
    file = descriptor_pb2.FileDescriptorProto(
        name=f"draftwell/client/{name}.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[any_pb2.DESCRIPTOR.name, duration_pb2.DESCRIPTOR.name],
        message_type=[descriptor_pb2.DescriptorProto(name=name, field=[only])],
    )
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


_STATUS = _message("Status", 3, "details", ".google.protobuf.Any", repeated=True)
_RETRY_INFO = _message("RetryInfo", 1, "retry_delay", ".google.protobuf.Duration", repeated=False)
