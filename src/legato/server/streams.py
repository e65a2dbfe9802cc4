"""Answers that take their time. May know: ASGI. Decides: that they end when whoever asked has left, or the server ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing

from starlette.types import ASGIApp, Receive, Scope, Send

from legato.server.answering import Refused
from legato.server.error_shapes import refuse
from legato.sse import HEADERS, KEEP_ALIVE, PULSE, run_until, while_there, with_pauses


class Stream:
    """An answer that ends, at the latest, when `closing` is set."""

    def __init__(self, inner: ASGIApp, closing: asyncio.Event) -> None:
        self._inner = inner
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await run_until(self._inner(scope, receive, send), self._closing.wait()):
            await send({"type": "http.response.body", "body": b"", "more_body": False})


class Lines:
    """Server-sent events that somebody has written."""

    def __init__(self, lines: AsyncGenerator[bytes, None], closing: asyncio.Event, headers: Mapping[str, str]) -> None:
        self._lines = lines
        self._closing = closing
        self._headers = [*HEADERS, *((name.encode(), value.encode()) for name, value in headers.items())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Stream(self._answer, self._closing)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await while_there(self._send(send), receive)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        async with aclosing(self._lines) as lines, aclosing(with_pauses(lines, KEEP_ALIVE)) as told:
            async for line in told:
                await send({"type": "http.response.body", "body": PULSE if line is None else line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Waiting:
    """An answer that is there when something has happened. Nobody waits for it any more than whoever asked."""

    def __init__(self, answer: Callable[[], Awaitable[ASGIApp]], closing: asyncio.Event) -> None:
        self._answer = answer
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await run_until(while_there(self._send(scope, receive, send), receive), self._closing.wait()):
            do = "what was said is recorded, and goes on when the server is there again"
            await refuse(Refused(503, "ending", "the server ends", do=do), scope, receive, send)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._answer())(scope, receive, send)
