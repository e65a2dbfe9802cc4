"""Answers that go on for as long as somebody listens. May know: ASGI. Decides: that they end when the server does."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send


class Stream:
    """An answer that ends, at the latest, when `closing` is set."""

    def __init__(self, inner: ASGIApp, closing: asyncio.Event) -> None:
        self._inner = inner
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answering = asyncio.ensure_future(self._inner(scope, receive, send))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait([answering, closing], return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                answering.cancel()
                await asyncio.wait([answering])
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            closing.cancel()
            answering.cancel()
            await asyncio.wait([answering, closing])
        if not answering.cancelled():
            answering.result()
