"""Request bodies that are not read. May know: ASGI. Decides: which body has no certain length, and when a refused one stops being read.

A connection that is closed while its client still sends is reset, and the client may never see the answer. So the rest of a refused body
is read and thrown away first, within bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

DRAIN_SECONDS = 30.0
"""How long after a request began the rest of its body is read and thrown away, where a server has no limit of its own."""

DRAIN_IDLE_SECONDS = 5.0
"""How long a client may send nothing meanwhile."""

TWO_LENGTHS = "a request has Content-Length or Transfer-Encoding, not both"


def has_two_lengths(headers: Headers) -> bool:
    """Whether a request says twice where it ends: a proxy and a server that believe different ones see different requests in one stream.

    RFC 9112, section 6.1, calls it request smuggling and allows to refuse it; the connection must then be closed.
    """
    return {b"content-length", b"transfer-encoding"} <= {name.lower() for name, _ in headers}


def without_two_lengths(app: App) -> App:
    """The application, without requests that have two lengths: they get a 400 in plain text, and their connection ends."""

    async def checked(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not has_two_lengths(scope["headers"]):
            await app(scope, receive, send)
            return
        told = f"{TWO_LENGTHS}\n".encode()
        length = b"%d" % len(told)
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": told})

    return checked


def draining(app: App, seconds: float) -> App:
    """The application, whose answers with `Connection: close` end only when the rest of the request's body has been thrown away.

    The whole answer is sent before. What is read ends with the body, `seconds` after the request began, or when the client is silent.
    """

    async def drained(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or has_two_lengths(scope["headers"]):  # of the latter nobody knows where it ends
            await app(scope, receive, send)
            return
        body = _Body(receive, asyncio.get_running_loop().time() + seconds)
        closes = False

        async def send_before(message: Message) -> None:
            nonlocal closes
            if message["type"] == "http.response.start":
                closes = (b"connection", b"close") in message.get("headers", ())
            elif closes and not body.whole and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await body.drain()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await app(scope, body.receive, send_before)

    return drained


class _Body:
    """A request's body, as far as it has come."""

    def __init__(self, receive: Receive, until: float) -> None:
        self._receive = receive
        self._until = until
        self.whole = False

    async def receive(self) -> Message:
        message = await self._receive()
        self.whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Throw away what is left of it."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._until):
                while not self.whole:
                    async with asyncio.timeout(DRAIN_IDLE_SECONDS):
                        await self.receive()
