"""Transports of a workflow's MCP server: standard streams and streamable HTTP.

Over HTTP every request needs the token, the server's own `Host`, and no `Origin` but allowed ones: this stops pages in browsers and DNS
rebinding. A server that other machines can reach needs a token that its operator chose.
"""

from __future__ import annotations

from collections.abc import Sequence

import uvicorn
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from legato.asgi.exposure import LOOPBACK_NAMES, bracket_ipv6_host, is_loopback
from legato.asgi.request_bodies import reject_conflicting_lengths
from legato.asgi.tokens import check_token, has_any_token, has_token
from legato.mcp.workflow_server import WorkflowServer

MCP_PATH = "/mcp"


async def serve_stdio(workflow_server: WorkflowServer) -> None:
    """Serve the parent process over standard streams, until it closes them."""
    async with stdio_server() as (read, write):
        await workflow_server.server.run(read, write, workflow_server.server.create_initialization_options())


def make_http_app(workflow_server: WorkflowServer, token: str, host: str, port: int, origins: Sequence[str] = ()) -> ASGIApp:
    """Return the ASGI application that serves MCP over streamable HTTP."""
    check_token(token)
    names = {host, *LOOPBACK_NAMES} if is_loopback(host) else {host}
    settings = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{bracket_ipv6_host(name)}:{port}" for name in names],
        allowed_origins=list(origins),
    )
    inner = workflow_server.server.streamable_http_app(streamable_http_path=MCP_PATH, transport_security=settings, host=host)
    return reject_conflicting_lengths(_TokenMiddleware(inner, token))


def make_http_server(workflow_server: WorkflowServer, token: str, host: str, port: int, origins: Sequence[str] = ()) -> uvicorn.Server:
    """Return an HTTP server that is not running yet."""
    config = uvicorn.Config(
        make_http_app(workflow_server, token, host, port, origins), host=host, port=port, log_level="warning", access_log=False
    )
    return uvicorn.Server(config)


class _TokenMiddleware:
    """ASGI middleware that refuses requests without the token."""

    def __init__(self, inner: ASGIApp, token: str) -> None:
        self._inner = inner
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not has_token(scope["headers"], self._token):
            headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            reason = b"this is not the token of this server" if has_any_token(scope["headers"]) else b"this server needs its token"
            await send({"type": "http.response.body", "body": reason + b": Authorization: Bearer ..."})
            return
        if scope["type"] in ("http", "lifespan"):
            await self._inner(scope, receive, send)
