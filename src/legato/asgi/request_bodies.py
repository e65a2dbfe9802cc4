"""Request bodies that a server refuses: bodies with two lengths, and the draining of bodies that are not read to their end.

A connection that is closed while its client still sends is reset, and the client may never see the response. So the rest of a refused
body is read and thrown away first, within limits.
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

DRAIN_TIMEOUT_S = 30.0
"""The time, from the start of a request, in which the rest of its body is read and thrown away, where a server has no limit of its own."""

DRAIN_IDLE_TIMEOUT_S = 5.0
"""The time that a client may send nothing while its body is drained."""

CONFLICTING_LENGTHS_MESSAGE = "a request has Content-Length or Transfer-Encoding, not both"


def has_conflicting_lengths(headers: Headers) -> bool:
    """Return True if a request has both `Content-Length` and `Transfer-Encoding`.

    A proxy and a server that trust different ones see different requests in one stream. RFC 9112, section 6.1, calls it request smuggling
    and allows a server to refuse it; the connection must then be closed.
    """
    return {b"content-length", b"transfer-encoding"} <= {name.lower() for name, _ in headers}


def reject_conflicting_lengths(app: App) -> App:
    """Return the application with a check: a request that has two lengths gets a 400 in plain text, and its connection is closed."""

    async def checking_app(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not has_conflicting_lengths(scope["headers"]):
            await app(scope, receive, send)
            return
        message = f"{CONFLICTING_LENGTHS_MESSAGE}\n".encode()
        length = b"%d" % len(message)
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": message})

    return checking_app


def drain_unread_bodies(app: App, timeout_s: float) -> App:
    """Return the application with draining: a response with `Connection: close` ends only when the request's body has been thrown away.

    The whole response is sent before. Draining ends with the body, `timeout_s` seconds after the request began, or when the client sends
    nothing for `DRAIN_IDLE_TIMEOUT_S`.
    """

    async def draining_app(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or has_conflicting_lengths(scope["headers"]):  # a body with two lengths has no certain end
            await app(scope, receive, send)
            return
        body = _RequestBody(receive, asyncio.get_running_loop().time() + timeout_s)
        closes = False

        async def send_or_drain(message: Message) -> None:
            nonlocal closes
            if message["type"] == "http.response.start":
                closes = (b"connection", b"close") in message.get("headers", ())
            elif closes and not body.is_complete and not message.get("more_body", False):
                await send({**message, "more_body": True})
                await body.drain()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await app(scope, body.receive, send_or_drain)

    return draining_app


class _RequestBody:
    """A request's body, with a flag for the arrival of its last part."""

    def __init__(self, receive: Receive, deadline: float) -> None:
        self._receive = receive
        self._deadline = deadline
        self.is_complete = False

    async def receive(self) -> Message:
        message = await self._receive()
        self.is_complete = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read the rest of the body and throw it away."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._deadline):
                while not self.is_complete:
                    async with asyncio.timeout(DRAIN_IDLE_TIMEOUT_S):
                        await self.receive()
