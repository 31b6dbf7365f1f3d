"""Ends open streams of requests when the service stops: a decoder keeps one open for as long as it lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isasyncgenfunction
from typing import Any, TypeAlias

import grpc

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
Messages: TypeAlias = AsyncIterator[Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class StreamDrain(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in its stubs alone
    """Lets two-way streams read requests until ``close``; what was read by then is answered.

    To a handler, and to its caller, it looks as if the caller had asked for nothing more. Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._is_closed = False
        self._waits: set[asyncio.Timeout] = set()  # one for each stream that waits for a request

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Give a two-way method requests that end with the service; leave the others as they are."""
        handler = await continuation(handler_call_details)  # None: no such method
        answer: Callable[[Messages, Context], Messages] | None = getattr(handler, "stream_stream", None)
        if not isasyncgenfunction(answer):
            return handler

        async def answer_until_closed(requests: Messages, context: Context) -> Messages:
            async for response in answer(self._until_closed(requests), context):
                yield response

        return grpc.stream_stream_rpc_method_handler(
            answer_until_closed, handler.request_deserializer, handler.response_serializer
        )

    def close(self) -> None:
        """End all streams, those to come too."""
        self._is_closed = True
        for wait in self._waits:
            wait.reschedule(asyncio.get_running_loop().time())

    async def _until_closed(self, requests: Messages) -> Messages:
        while not self._is_closed:
            try:
                request = await self._next(requests)
            except (StopAsyncIteration, TimeoutError):
                return
            yield request

    async def _next(self, requests: Messages) -> object:
        async with asyncio.timeout(None) as wait:
            self._waits.add(wait)
            try:
                return await anext(requests)
            finally:
                self._waits.discard(wait)
