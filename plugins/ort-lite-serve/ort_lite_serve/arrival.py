"""Time limits for the arrival of requests: head and body together, however few bytes each packet brings."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ort_lite_serve.http import BEGIN

HEAD = 64 << 10
"""The most bytes of a request's head."""
GRACE = 1.0
"""Seconds that the application has to answer before the connection is closed."""


def protocol(seconds: float) -> type[HttpToolsProtocol]:
    """Return uvicorn's HTTP protocol with a limit of `seconds` on the arrival of each request."""
    return type("TimedProtocol", (_TimedProtocol,), {"seconds": seconds})


class _TimedProtocol(HttpToolsProtocol):
    seconds = 0.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._timer: asyncio.TimerHandle | None = None
        self._begin, self._head, self._has_head = 0.0, 0, False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._start()
        super().data_received(data)
        if not self._has_head:
            self._head += len(data)
            if self._head > HEAD and not self.transport.is_closing():
                self.send_400_response(f"The head of a request may have {HEAD} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start()  # for a request that begins after another one, in the same packet

    def on_headers_complete(self) -> None:
        self.scope[BEGIN], self._has_head = self._begin, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop()
        super().on_message_complete()

    def _start(self) -> None:
        if self._timer is None:
            self._begin, self._head, self._has_head = self.loop.time(), 0, False
            self._timer = self.loop.call_later(self.seconds + GRACE, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


class TimedCalls(grpc.aio.ServerInterceptor):
    """An interceptor that ends calls whose message does not arrive within a number of seconds.

    gRPC calls a unary handler only once the message has arrived. This interceptor turns it into a handler of a stream of
    messages, which is called at once and reads the same bytes.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        """Return a handler that waits for the message, for a limited time, and then calls the original one."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler

        async def answer(messages: Any, context: Any) -> Any:
            try:
                async with asyncio.timeout(self._seconds):
                    request = await anext(messages)
            except TimeoutError:
                text = f"the request did not come within {self._seconds:.3g} s"
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)
            except StopAsyncIteration:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request has no message")
            return await handler.unary_unary(request, context)

        return grpc.stream_unary_rpc_method_handler(answer, handler.request_deserializer, handler.response_serializer)
