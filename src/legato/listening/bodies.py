"""Request bodies that are not read. May know: ASGI. Decides: which body has no certain length."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Any, Receive, Send], Awaitable[None]]
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

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
