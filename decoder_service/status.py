"""One table from errors to gRPC status, and the way a call is aborted with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from decoder_service.errors import DecoderError, InvalidRequestError, OverloadedError, StoppingError

ERROR_DOMAIN = "decoder.draftwell"
RETRY_SECONDS = 1

CODE_OF: dict[type[DecoderError], int] = {
    InvalidRequestError: code_pb2.INVALID_ARGUMENT,
    OverloadedError: code_pb2.RESOURCE_EXHAUSTED,
    StoppingError: code_pb2.UNAVAILABLE,
}


@asynccontextmanager
async def aborting(context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[None]:
    """Answer an error of the tree with its status and google.rpc details."""
    try:
        yield
    except DecoderError as error:
        status = _rich_status(error)
        await context.abort(status.code, status.details, status.trailing_metadata)


def _rich_status(error: DecoderError) -> grpc.Status:
    details = [_packed(error_details_pb2.ErrorInfo(reason=type(error).__name__, domain=ERROR_DOMAIN))]
    if isinstance(error, OverloadedError):
        delay = duration_pb2.Duration(seconds=RETRY_SECONDS)
        details.append(_packed(error_details_pb2.RetryInfo(retry_delay=delay)))
    code = CODE_OF.get(type(error), code_pb2.INTERNAL)
    message = status_pb2.Status(code=code, message=str(error), details=details)
    status: grpc.Status = rpc_status.to_status(message)
    return status


def _packed(detail: Any) -> any_pb2.Any:  # noqa: ANN401 - any message
    packed = any_pb2.Any()
    packed.Pack(detail)
    return packed
