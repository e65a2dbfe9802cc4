"""Responses that take long. They end when the client disconnects or the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing

from starlette.types import ASGIApp, Receive, Scope, Send

from legato.server.error_formats import send_error
from legato.server.http_errors import RequestRefused
from legato.sse import HEADERS, KEEP_ALIVE_COMMENT, KEEP_ALIVE_INTERVAL_S, answer_until_disconnect, run_until, with_keep_alives


class ClosableResponse:
    """A response that ends at the latest when `closing` is set."""

    def __init__(self, inner: ASGIApp, closing: asyncio.Event) -> None:
        self._inner = inner
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await run_until(self._inner(scope, receive, send), self._closing.wait()):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class EventStreamResponse:
    """A response with encoded server-sent events."""

    def __init__(self, lines: AsyncGenerator[bytes, None], closing: asyncio.Event, headers: Mapping[str, str]) -> None:
        self._lines = lines
        self._closing = closing
        self._headers = [*HEADERS, *((name.encode(), value.encode()) for name, value in headers.items())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await ClosableResponse(self._respond, self._closing)(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        await answer_until_disconnect(self._send(send), receive)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        async with aclosing(self._lines) as lines, aclosing(with_keep_alives(lines, KEEP_ALIVE_INTERVAL_S)) as lines_or_pauses:
            async for line in lines_or_pauses:
                await send({"type": "http.response.body", "body": KEEP_ALIVE_COMMENT if line is None else line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class DeferredResponse:
    """A response that is made when the session is idle. The wait ends when the client disconnects or the server stops."""

    def __init__(self, make_response: Callable[[], Awaitable[ASGIApp]], closing: asyncio.Event) -> None:
        self._make_response = make_response
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await run_until(answer_until_disconnect(self._send(scope, receive, send), receive), self._closing.wait()):
            do = "the input is recorded, and work on it resumes when the server is started again"
            await send_error(RequestRefused(503, "ending", "the server is stopping", do=do), scope, receive, send)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._make_response())(scope, receive, send)
