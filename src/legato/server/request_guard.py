"""Access control: checks of the `Host`, the `Origin` and the token of every request, and security headers of every response.

The checks run in this order, before anything else of a request is read. `Host` stops DNS rebinding, `Origin` stops pages of other sites,
the token stops other programs. There are no cookies, so a browser adds no credentials that the page does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from legato.asgi.exposure import LOOPBACK_NAMES, bracket_ipv6_host, is_loopback
from legato.asgi.tokens import check_token, has_any_token, has_token
from legato.errors import BadInput
from legato.server.error_formats import send_error
from legato.server.http_errors import RequestRefused
from legato.server.request_limits import RequestLimits

WILDCARD_HOSTS = ("0.0.0.0", "::")
"""Hosts that mean every address of this machine."""

SECURITY_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every response that does not set them itself."""

PREFLIGHT_HEADERS = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id, legato-session",
    "access-control-max-age": "600",
}


@dataclass(frozen=True)
class Access:
    """The access rules of one server.

    `own_hosts` and `allowed_hosts` are exact values of `Host`; the latter may have TLS in front of them. `allowed_origins` are the origins
    of other sites whose pages may send requests.
    """

    token: str
    own_hosts: frozenset[str]
    allowed_hosts: frozenset[str] = frozenset()
    allowed_origins: frozenset[str] = frozenset()

    def check_request(self, scope: Scope) -> RequestRefused | None:
        """Return the refusal of a request; None if it is allowed."""
        host, origin = _header_values(scope, b"host"), _header_values(scope, b"origin")
        if len(host) != 1 or host[0].lower() not in self.own_hosts | self.allowed_hosts:
            do = "use the address that it printed at its start, or start it with --allow-host NAME"
            return RequestRefused(421, "wrong_host", "the Host header does not name this server", do=do)
        if len(origin) > 1 or (origin and not self._is_own_origin(origin[0], host[0]) and not self.find_allowed_origin(scope)):
            do = "to allow one, start the server with --allow-origin ORIGIN"
            return RequestRefused(403, "wrong_origin", "pages of other origins may not send requests to this server", do=do)
        if self.is_preflight(scope) or _is_console_file(scope) or has_token(scope["headers"], self.token):
            return None
        if has_any_token(scope["headers"]):
            do = "use the token that the server printed at its start, or was started with"
            return RequestRefused(401, "wrong_token", "this is not the token of this server", expected="Authorization: Bearer TOKEN", do=do)
        return RequestRefused(401, "no_token", "this server needs its token", expected="Authorization: Bearer TOKEN")

    def _is_own_origin(self, origin: str, host: str) -> bool:
        """Return True if the page was loaded from the host that the request goes to."""
        name = host.lower()
        return origin.lower() in ((f"http://{name}", f"https://{name}") if name in self.allowed_hosts else (f"http://{name}",))

    def find_allowed_origin(self, scope: Scope) -> str:
        """Return the request's origin if it is an allowed origin of another site; empty otherwise."""
        origin = _header_values(scope, b"origin")
        return origin[0] if len(origin) == 1 and origin[0] in self.allowed_origins else ""

    def is_preflight(self, scope: Scope) -> bool:
        """Return True for a CORS preflight from an allowed origin. Browsers send no token with it."""
        return (
            scope["method"] == "OPTIONS"
            and bool(self.find_allowed_origin(scope))
            and bool(_header_values(scope, b"access-control-request-method"))
        )


def make_access(token: str, host: str, port: int, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> Access:
    """Return the access rules of a server at this address, with additional hosts and origins."""
    check_token(token)
    own = {*LOOPBACK_NAMES} if is_loopback(host) or host in WILDCARD_HOSTS else set()
    if host not in WILDCARD_HOSTS:
        own.add(bracket_ipv6_host(host).lower())
    ports = ("", f":{port}") if port == 80 else (f":{port}",)
    exact = frozenset(f"{name}{each}" for name in own for each in ports)
    return Access(token, exact, frozenset(map(_parse_host, hosts)), frozenset(map(_parse_origin, origins)))


def _parse_host(text: str) -> str:
    if not text.isascii() or not text.isprintable() or not text.strip() or any(each in text for each in "/ @*?#,"):
        raise BadInput("this is not a valid host", expected="a host name, with the port if it has one", found=repr(text)[:80])
    return text.lower()


def _parse_origin(text: str) -> str:
    scheme, _, rest = text.partition("://")
    if scheme not in ("http", "https") or not rest or not text.isascii() or any(each in rest for each in "/ @*?#,"):
        raise BadInput(
            "this is not a valid origin", expected="https://NAME, with the port if it has one, and no path", found=repr(text)[:80]
        )
    return text


def _header_values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _is_console_file(scope: Scope) -> bool:
    """Return True for the console's files, which contain no data and need no token."""
    path = scope["path"]
    return scope["method"] in ("GET", "HEAD") and (path == "/" or path.startswith("/console/"))


class AccessMiddleware:
    """ASGI middleware that enforces access rules and adds security headers.

    It passes on the undecoded path: so access checks and routing cannot interpret one differently, and ids may contain a slash.
    """

    def __init__(self, inner: ASGIApp, access: Access, limits: RequestLimits) -> None:
        self._inner = inner
        self._access = access
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        scope = {**scope, "path": scope.get("raw_path", b"").decode("ascii", "replace") or scope["path"]}
        refusal = self._limits.check_head(scope) or self._access.check_request(scope)
        is_readable = refusal is None or refusal.status == 401  # allowed origins may read that the token is missing
        send = _with_headers(send, self._access.find_allowed_origin(scope) if is_readable else "")
        if refusal is not None:
            await send_error(refusal, scope, receive, send)
        elif self._access.is_preflight(scope):
            await send({"type": "http.response.start", "status": 204, "headers": _encode_headers(PREFLIGHT_HEADERS)})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self._inner(scope, receive, send)


def _with_headers(send: Send, allowed_origin: str) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
            if allowed_origin:
                headers["access-control-allow-origin"] = allowed_origin
            headers.add_vary_header("origin")
            message = {**message, "headers": headers.raw}
        await send(message)

    return send_with_headers


def _encode_headers(headers: dict[str, str]) -> Iterable[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
