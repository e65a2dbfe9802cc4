"""Combinations of host, origin, token, method and route, and the expected answer to each, computed from one small table.

A request passes if its host is one of the server's, its origin is absent, the server's own or an allowed one, and its token is valid. It
also passes if it requests a file of the console, which needs no token, or if it is the preflight request of an allowed page. Nothing else
passes. A refused request is refused for the first of these reasons, and the answer reveals nothing of what the server has.
"""

from __future__ import annotations

import itertools
import random
import socket
from collections.abc import Iterator
from typing import NamedTuple

TOKEN = "the-right-token-0123456789"
NAMED_HOST = "desk.example:443"
NAMED_ORIGIN = "https://app.example"
CANARY = "canary-words-of-a-session"


class HostHeader(NamedTuple):
    """A `Host` header; {port} is the server's. None: no header."""

    value: str | None
    is_allowed: bool = False


class OriginHeader(NamedTuple):
    """An `Origin` header; {host} is the request's host, {port} the server's. None: no header."""

    value: str | None
    is_allowed: bool = False
    """Allowed with any host. An own origin is allowed if its host is."""
    is_own: bool = False
    is_behind_tls: bool = False
    """The own origin behind TLS, which only a configured host may have."""


class TokenHeaders(NamedTuple):
    """The token in the headers of a request, or in its query."""

    headers: tuple[str, ...]
    is_valid: bool = False
    query: str = ""


HOSTS = (
    HostHeader("127.0.0.1:{port}", True),
    HostHeader("localhost:{port}", True),
    HostHeader("LOCALHOST:{port}", True),
    HostHeader("[::1]:{port}", True),
    HostHeader(NAMED_HOST, True),
    HostHeader(None),
    HostHeader(""),
    HostHeader("127.0.0.1"),
    HostHeader("localhost"),
    HostHeader("127.0.0.1:1"),
    HostHeader("127.0.0.1:{port}0"),
    HostHeader("127.0.0.1:0{port}"),
    HostHeader("evil.example"),
    HostHeader("evil.example:{port}"),
    HostHeader("localhost.evil.example:{port}"),
    HostHeader("127.0.0.1.evil.example:{port}"),
    HostHeader("127.0.0.1:{port}.evil.example"),
    HostHeader("127.0.0.1:{port},evil.example"),
    HostHeader("user@127.0.0.1:{port}"),
    HostHeader("0.0.0.0:{port}"),
    HostHeader("127.0.0.2:{port}"),
    HostHeader("2130706433:{port}"),
    HostHeader("[::ffff:127.0.0.1]:{port}"),
    HostHeader("localhost.:{port}"),
    HostHeader("desk.example"),
    HostHeader("desk.example:{port}"),
    HostHeader("sub.desk.example:443"),
)
ORIGINS = (
    OriginHeader(None, True),
    OriginHeader("http://{host}", is_own=True),
    OriginHeader("https://{host}", is_own=True, is_behind_tls=True),
    OriginHeader(NAMED_ORIGIN, True),
    OriginHeader("null"),
    OriginHeader(""),
    OriginHeader("http://evil.example"),
    OriginHeader("https://app.example.evil.example"),
    OriginHeader("https://evil.example/https://app.example"),
    OriginHeader("http://app.example"),
    OriginHeader("https://app.example:444"),
    OriginHeader("https://sub.app.example"),
    OriginHeader("https://app.example/"),
    OriginHeader("http://127.0.0.1"),
    OriginHeader("http://127.0.0.1:1"),
    OriginHeader("http://127.0.0.2:{port}"),
    OriginHeader("http://{host}/"),
    OriginHeader("http://{host}.evil.example"),
    OriginHeader("file://"),
    OriginHeader("chrome-extension://abcdef"),
    OriginHeader("https://app.example, http://evil.example"),
    OriginHeader("https://app.example\r\norigin: http://evil.example"),
)
TOKENS = (
    TokenHeaders((f"authorization: Bearer {TOKEN}",), True),
    TokenHeaders(()),
    TokenHeaders(("authorization:",)),
    TokenHeaders(("authorization: Bearer",)),
    TokenHeaders(("authorization: Bearer ",)),
    TokenHeaders(("authorization: Bearer wrong-token-0123456789",)),
    TokenHeaders((f"authorization: Bearer {TOKEN[:-1]}",)),
    TokenHeaders((f"authorization: Bearer {TOKEN}x",)),
    TokenHeaders((f"authorization: Bearer {TOKEN.upper()}",)),
    TokenHeaders((f"authorization: bearer {TOKEN}",), True),
    TokenHeaders((f"authorization: BEARER  {TOKEN}",), True),
    TokenHeaders((f"authorization: {TOKEN}",)),
    TokenHeaders((f"authorization: Basic {TOKEN}",)),
    TokenHeaders((f"authorization: Bearer {TOKEN}", f"authorization: Bearer {TOKEN}")),
    TokenHeaders((f"x-api-key: {TOKEN}",)),
    TokenHeaders((f"cookie: token={TOKEN}",)),
    TokenHeaders((), query=f"token={TOKEN}"),
    TokenHeaders((), query=f"access_token={TOKEN}"),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PREFLIGHT", "TRACE", "get")
"""PREFLIGHT is the OPTIONS request of a browser for a page of another origin."""

STATIC = {"GET": 200, "HEAD": 200}
ROUTES: dict[str, dict[str, int]] = {
    "/": STATIC,
    "/console/main.js": STATIC,
    "/console/nothing": {"GET": 404, "HEAD": 404},
    "/api": {"GET": 200},
    "/api/openapi.json": {"GET": 200},
    "/api/sessions": {"GET": 200, "POST": 400},
    "/api/sessions/s": {"GET": 200},
    "/api/sessions/nobody": {"GET": 404, "DELETE": 404},
    "/api/sessions/s/facts": {"GET": 200},
    "/api/sessions/s/events": {"GET": 200},
    "/api/sessions/s/export": {"GET": 200},
    "/api/sessions/s/messages": {"POST": 400},
    "/api/sessions/s/answers": {"POST": 400},
    "/api/inbox": {"GET": 200},
    "/v1/models": {"GET": 200},
    "/v1/responses": {"POST": 400},
    "/v1/responses/nothing": {"GET": 404, "DELETE": 404},
    "/v1/conversations": {"POST": 400},
    "/v1/conversations/nobody": {"GET": 404, "POST": 400, "DELETE": 404},
    "/v1/conversations/nobody/items": {"GET": 404, "POST": 404},
    "/v1/conversations/nobody/items/nothing": {"GET": 404, "DELETE": 404},
    "/v1/nothing": {},
    "/v1/chat/completions": {"POST": 400},
    "/agui": {"POST": 400},
    "/nothing": {},
    "/console": {},
    "/CONSOLE/main.js": {},
    "/console/../api": {"GET": 404, "HEAD": 404},
    "/console/%2e%2e/api": {"GET": 404, "HEAD": 404},
    "/console/..%2fapi/sessions/s": {"GET": 404, "HEAD": 404},
    "/%63onsole/main.js": {},
    "//console/main.js": {},
    "/api/../console/main.js": {},
    "/api/sessions/s;/console/": {},
}
"""The status of each route for a request that passes, by method. Other methods are 405, or 404 if the route has none. 400: invalid body."""


class AccessCase(NamedTuple):
    """One request."""

    host: HostHeader
    origin: OriginHeader
    token: TokenHeaders
    method: str
    route: str

    @property
    def is_static(self) -> bool:
        return self.method in ("GET", "HEAD") and (self.route == "/" or self.route.startswith("/console/"))

    @property
    def is_origin_allowed(self) -> bool:
        return self.origin.is_allowed or (self.origin.is_own and (not self.origin.is_behind_tls or self.host.value == NAMED_HOST))

    @property
    def expected(self) -> int:
        """The expected status of the answer: the complete rule."""
        if not self.host.is_allowed:
            return 421
        if not self.is_origin_allowed:
            return 403
        if self.method == "PREFLIGHT" and self.origin.value == NAMED_ORIGIN:
            return 204
        if not self.is_static and not self.token.is_valid:
            return 401
        return self._expected_answer()

    def _expected_answer(self) -> int:
        method = "OPTIONS" if self.method == "PREFLIGHT" else self.method
        answers = ROUTES[self.route]
        if method in answers:
            return 400 if self.token.query and answers[method] == 200 and not self.is_static else answers[method]
        return 405 if _has_any_method(self.route) else 404

    def __str__(self) -> str:
        token = self.token.headers or self.token.query or "no token"
        return f"{self.method} {self.route} host={self.host.value!r} origin={self.origin.value!r} {token!r}"

    def encode_request(self, port: int) -> bytes:
        method = "OPTIONS" if self.method == "PREFLIGHT" else self.method
        path = f"{self.route}?{self.token.query}" if self.token.query else self.route
        host = self.host.value.format(port=port) if self.host.value is not None else None
        version = "1.1" if host is not None else "1.0"  # the only version without a host
        lines = [f"{method} {path} HTTP/{version}"]
        lines += [f"host: {host}"] if host is not None else []
        if self.origin.value is not None:
            lines.append(f"origin: {self.origin.value.format(host=host, port=port)}")
        lines += self.token.headers
        if self.method == "PREFLIGHT":
            lines += ["access-control-request-method: POST", "access-control-request-headers: authorization"]
        if method in ("POST", "PUT", "PATCH"):
            lines += ["content-type: application/json", "content-length: 2"]
        return "\r\n".join([*lines, "connection: close", "", "[]" if method in ("POST", "PUT", "PATCH") else ""]).encode("latin-1")


def _has_any_method(route: str) -> bool:
    """Return True if any method is answered: unlisted ids and paths below them have none."""
    return bool(ROUTES[route]) and not all(status == 404 and method in ("GET", "HEAD") for method, status in ROUTES[route].items())


class ReceivedAnswer(NamedTuple):
    """The status, headers and body of an answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def send_case(case: AccessCase, port: int) -> ReceivedAnswer:
    """Send one case over its own connection and return the answer; of a stream, only the beginning."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(case.encode_request(port))
        received = b""
        while b"\r\n\r\n" not in received or (b"text/event-stream" not in received and len(received) < 2_000_000):
            if not (more := connection.recv(65536)):
                break
            received += more
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return ReceivedAnswer(int(first.split()[1]), {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}, body)


def find_error(case: AccessCase, answer: ReceivedAnswer) -> str:
    """Return the error in an answer; empty if there is none."""
    if answer.status != case.expected:
        return f"{answer.status} in place of {case.expected}: {case}"
    is_named_origin = case.host.is_allowed and case.origin.value == NAMED_ORIGIN
    if answer.headers.get("access-control-allow-origin") != (NAMED_ORIGIN if is_named_origin else None):
        return f"access-control-allow-origin is {answer.headers.get('access-control-allow-origin')!r}: {case}"
    if "access-control-allow-credentials" in answer.headers or "set-cookie" in answer.headers:
        return f"the answer uses cookies: {case}"
    if case.expected in (401, 403, 421) and (CANARY.encode() in answer.body or TOKEN.encode() in answer.body):
        return f"a refusal reveals a secret: {case}"
    if answer.headers.get("x-content-type-options") != "nosniff" or "content-security-policy" not in answer.headers:
        return f"the answer lacks security headers: {case}"
    return ""


def build_cases(seed: int = 1) -> list[AccessCase]:
    """Return each host with each origin and each token on one route, each method on each route with some of them, and a random sample.

    Cases that would delete the session of the other cases are left out.
    """
    good_host, good_origin, good_token = HOSTS[0], ORIGINS[0], TOKENS[0]
    systematic: Iterator[AccessCase] = itertools.chain(
        (AccessCase(host, origin, good_token, "GET", "/api/sessions/s") for host in HOSTS for origin in ORIGINS),
        (AccessCase(HOSTS[4], origin, token, "GET", "/api/sessions/s") for origin in ORIGINS for token in TOKENS),
        (AccessCase(host, good_origin, token, "GET", "/api/sessions/s") for host in HOSTS for token in TOKENS),
        (AccessCase(good_host, good_origin, good_token, method, route) for method in METHODS for route in ROUTES),
        (AccessCase(good_host, good_origin, TOKENS[1], method, route) for method in METHODS for route in ROUTES),
        (AccessCase(good_host, ORIGINS[3], TOKENS[1], method, route) for method in METHODS for route in ROUTES),
        (AccessCase(good_host, ORIGINS[6], good_token, method, route) for method in METHODS for route in ROUTES),
        (AccessCase(HOSTS[13], good_origin, good_token, method, route) for method in METHODS for route in ROUTES),
        (AccessCase(host, origin, TOKENS[1], "PREFLIGHT", "/api/sessions") for host in HOSTS for origin in ORIGINS),
    )
    random_generator = random.Random(seed)
    sampled = (AccessCase(*(random_generator.choice(each) for each in (HOSTS, ORIGINS, TOKENS, METHODS, list(ROUTES)))) for _ in range(600))
    deletes = ("DELETE", "/api/sessions/s")
    remaining = [
        case for case in dict.fromkeys([*systematic, *sampled]) if (case.method, case.route) != deletes or case.expected in (401, 403, 421)
    ]
    random_generator.shuffle(remaining)
    return remaining
