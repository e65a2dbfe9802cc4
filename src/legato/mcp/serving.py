"""How an offered workflow is reached. May know: standard streams and HTTP. Decides: who may speak to it.

Over HTTP every request needs the token, a `Host` that is ours and no `Origin` but one that was named: a page in a browser, or a name that
somebody points at this machine, cannot speak to it. Where others than this machine can connect, the token has to be chosen by hand.
"""

from __future__ import annotations

from collections.abc import Sequence

import uvicorn
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from legato.asgi.bodies import without_two_lengths
from legato.asgi.hosts import LOOPBACK_NAMES, bears, bracketed, brings_one, check_token, is_loopback
from legato.mcp.offering import Offered

PATH = "/mcp"


async def serve_stdio(offered: Offered) -> None:
    """Serve whoever started this process, until they leave."""
    async with stdio_server() as (read, write):
        await offered.server.run(read, write, offered.server.create_initialization_options())


def app(offered: Offered, token: str, host: str, port: int, origins: Sequence[str] = ()) -> ASGIApp:
    """The application that serves it over streamable HTTP."""
    check_token(token)
    names = {host, *LOOPBACK_NAMES} if is_loopback(host) else {host}
    settings = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{bracketed(name)}:{port}" for name in names],
        allowed_origins=list(origins),
    )
    inner = offered.server.streamable_http_app(streamable_http_path=PATH, transport_security=settings, host=host)
    return without_two_lengths(_Guarded(inner, token))


def server(offered: Offered, token: str, host: str, port: int, origins: Sequence[str] = ()) -> uvicorn.Server:
    """A server for it, yet to be run."""
    config = uvicorn.Config(app(offered, token, host, port, origins), host=host, port=port, log_level="warning", access_log=False)
    return uvicorn.Server(config)


class _Guarded:
    """Lets pass who has the token."""

    def __init__(self, inner: ASGIApp, token: str) -> None:
        self._inner = inner
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not bears(scope["headers"], self._token):
            headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            why = b"this is not its token" if brings_one(scope["headers"]) else b"this server needs its token"
            await send({"type": "http.response.body", "body": why + b": Authorization: Bearer ..."})
            return
        if scope["type"] in ("http", "lifespan"):
            await self._inner(scope, receive, send)
