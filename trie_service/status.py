"""One table from errors to gRPC status, and the way a call is aborted with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from trie_service.errors import (
    AlreadyExistsError,
    ExportFileError,
    FingerprintMismatchError,
    InvalidArgumentError,
    LeaseLostError,
    NamespaceNotFoundError,
    NodeUnavailableError,
    NotReadyError,
    ResourceExhaustedError,
    SequenceNotFoundError,
    SnapshotCorruptError,
    StoreFullError,
    StoreUnavailableError,
    TrieServiceError,
    UnsupportedFormatError,
)

ERROR_DOMAIN = "trie.draftwell"

INTERNAL: int = code_pb2.INTERNAL

CODE_OF: dict[type[TrieServiceError], int] = {
    InvalidArgumentError: code_pb2.INVALID_ARGUMENT,
    ExportFileError: code_pb2.INVALID_ARGUMENT,
    NamespaceNotFoundError: code_pb2.NOT_FOUND,
    SequenceNotFoundError: code_pb2.NOT_FOUND,
    AlreadyExistsError: code_pb2.ALREADY_EXISTS,
    ResourceExhaustedError: code_pb2.RESOURCE_EXHAUSTED,
    FingerprintMismatchError: code_pb2.FAILED_PRECONDITION,
    UnsupportedFormatError: code_pb2.FAILED_PRECONDITION,
    StoreUnavailableError: code_pb2.UNAVAILABLE,
    NodeUnavailableError: code_pb2.UNAVAILABLE,
    StoreFullError: code_pb2.RESOURCE_EXHAUSTED,
    LeaseLostError: code_pb2.ABORTED,
    SnapshotCorruptError: code_pb2.DATA_LOSS,
    NotReadyError: code_pb2.UNAVAILABLE,
}


def code_of(error: TrieServiceError) -> int:
    """The gRPC status code of an error, as a number."""
    return CODE_OF.get(type(error), INTERNAL)


@asynccontextmanager
async def aborting(context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[None]:
    """Answer an error of the tree with its status and a google.rpc.ErrorInfo."""
    try:
        yield
    except TrieServiceError as error:
        status = _rich_status(error)
        await context.abort(status.code, status.details, status.trailing_metadata)


def _rich_status(error: TrieServiceError) -> grpc.Status:
    details = [error_details_pb2.ErrorInfo(reason=error.reason, domain=ERROR_DOMAIN)]
    if isinstance(error, ResourceExhaustedError) and error.retry_after_s is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(int(error.retry_after_s * 1e9))
        details.append(retry)
    message = status_pb2.Status(code=code_of(error), message=str(error), details=map(_packed, details))
    status: grpc.Status = rpc_status.to_status(message)
    return status


def _packed(detail: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
