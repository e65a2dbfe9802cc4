"""Who may ask. May know: HTTP headers. Decides: which requests are answered at all, and what every answer is marked with.

In this order, and nothing of a request is looked at before: the `Host` it was sent to, the `Origin` of the page it comes from, its token.
A name that somebody points at this machine fails the first, a page of others the second, a program that was told nothing the third.
There are no cookies, so a browser adds nothing to a request that its page does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from legato.asgi.hosts import LOOPBACK_NAMES, bears, bracketed, brings_one, check_token, is_loopback
from legato.errors import BadInput
from legato.server.answering import Refused
from legato.server.error_shapes import refuse
from legato.server.limits import Limits

ANYWHERE = ("0.0.0.0", "::")
"""Hosts that stand for every address of this machine."""

ON_EVERYTHING = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of every answer that does not say otherwise itself."""

FOR_PAGES_OF_OTHERS = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id, legato-session",
    "access-control-max-age": "600",
}


@dataclass(frozen=True)
class Access:
    """Who may ask. `hosts` are exact values of `Host`, its own; those that were `named` too may have TLS in front of them. `origins` are
    those of pages that are not ours and may ask all the same."""

    token: str
    hosts: frozenset[str]
    named: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    def refusal(self, scope: Scope) -> Refused | None:
        """Why this request is not answered; None if it is."""
        host, origin = _all(scope, b"host"), _all(scope, b"origin")
        if len(host) != 1 or host[0].lower() not in self.hosts | self.named:
            do = "use the address that it showed when it was started, or start it with --allow-host NAME"
            return Refused(421, "wrong_host", "this server does not go by that name", do=do)
        if len(origin) > 1 or (origin and not self._own(origin[0], host[0]) and not self.from_elsewhere(scope)):
            return Refused(
                403, "wrong_origin", "pages from elsewhere may not ask here", do="to let one in, start it with --allow-origin ORIGIN"
            )
        if self.preflight(scope) or _static(scope) or bears(scope["headers"], self.token):
            return None
        if brings_one(scope["headers"]):
            do = "use the token that it showed when it was started, or that it was started with"
            return Refused(401, "wrong_token", "this is not the token of this server", expected="Authorization: Bearer TOKEN", do=do)
        return Refused(401, "no_token", "this server needs its token", expected="Authorization: Bearer TOKEN")

    def _own(self, origin: str, host: str) -> bool:
        """Whether the page was loaded from the very name that is asked."""
        name = host.lower()
        return origin.lower() in ((f"http://{name}", f"https://{name}") if name in self.named else (f"http://{name}",))

    def from_elsewhere(self, scope: Scope) -> str:
        """The origin of a page that is not ours and was named; empty if it is none."""
        origin = _all(scope, b"origin")
        return origin[0] if len(origin) == 1 and origin[0] in self.origins else ""

    def preflight(self, scope: Scope) -> bool:
        """Whether a browser asks if a page that was named may ask: it sends no token with that."""
        return scope["method"] == "OPTIONS" and bool(self.from_elsewhere(scope)) and bool(_all(scope, b"access-control-request-method"))


def access_of(token: str, host: str, port: int, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> Access:
    """Who may ask a server that listens there. Other hosts and origins than its own are those that were named, exactly."""
    check_token(token)
    own = {*LOOPBACK_NAMES} if is_loopback(host) or host in ANYWHERE else set()
    if host not in ANYWHERE:
        own.add(bracketed(host).lower())
    ports = ("", f":{port}") if port == 80 else (f":{port}",)
    exact = frozenset(f"{name}{each}" for name in own for each in ports)
    return Access(token, exact, frozenset(map(_host, hosts)), frozenset(map(_origin, origins)))


def _host(text: str) -> str:
    if not text.isascii() or not text.isprintable() or not text.strip() or any(each in text for each in "/ @*?#,"):
        raise BadInput("this is no host", expected="a name as addresses have it, with its port if it has one", found=repr(text)[:80])
    return text.lower()


def _origin(text: str) -> str:
    scheme, _, rest = text.partition("://")
    if scheme not in ("http", "https") or not rest or not text.isascii() or any(each in rest for each in "/ @*?#,"):
        raise BadInput("this is no origin", expected="https://NAME, with its port if it has one, and nothing behind", found=repr(text)[:80])
    return text


def _all(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _static(scope: Scope) -> bool:
    """Whether this is about the console's files, which hold nothing of anybody."""
    path = scope["path"]
    return scope["method"] in ("GET", "HEAD") and (path == "/" or path.startswith("/console/"))


class Guarded:
    """Lets pass who may ask, and marks every answer.

    Paths are those that were sent, undecoded: what decides here and what chooses a route cannot read one in two ways, and an id may hold
    a slash.
    """

    def __init__(self, inner: ASGIApp, access: Access, limits: Limits) -> None:
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
        refusal = self._limits.head(scope) or self._access.refusal(scope)
        told_elsewhere = refusal is None or refusal.status == 401  # a page that may ask is told that it lacks the token
        marked = _marking(send, self._access.from_elsewhere(scope) if told_elsewhere else "")
        if refusal is not None:
            await refuse(refusal, scope, receive, marked)
        elif self._access.preflight(scope):
            await marked({"type": "http.response.start", "status": 204, "headers": _raw(FOR_PAGES_OF_OTHERS)})
            await marked({"type": "http.response.body", "body": b""})
        else:
            await self._inner(scope, receive, marked)


def _marking(send: Send, elsewhere: str) -> Send:
    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            for name, value in ON_EVERYTHING.items():
                headers.setdefault(name, value)
            if elsewhere:
                headers["access-control-allow-origin"] = elsewhere
            headers.add_vary_header("origin")
            message = {**message, "headers": headers.raw}
        await send(message)

    return marked


def _raw(headers: dict[str, str]) -> Iterable[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
