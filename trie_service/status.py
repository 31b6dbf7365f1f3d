"""One table from errors to gRPC status, and the way a call is aborted with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from trie_service.errors import (
    FingerprintMismatchError,
    InvalidArgumentError,
    NamespaceNotFoundError,
    NotReadyError,
    StoreUnavailableError,
    TrieServiceError,
    UnsupportedFormatError,
)

ERROR_DOMAIN = "trie.draftwell"

INTERNAL: int = code_pb2.INTERNAL

CODE_OF: dict[type[TrieServiceError], int] = {
    InvalidArgumentError: code_pb2.INVALID_ARGUMENT,
    NamespaceNotFoundError: code_pb2.NOT_FOUND,
    FingerprintMismatchError: code_pb2.FAILED_PRECONDITION,
    UnsupportedFormatError: code_pb2.FAILED_PRECONDITION,
    StoreUnavailableError: code_pb2.UNAVAILABLE,
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
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=ERROR_DOMAIN))
    message = status_pb2.Status(code=code_of(error), message=str(error), details=[info])
    status: grpc.Status = rpc_status.to_status(message)
    return status
