"""Host x Origin x token x method x route: every combination that is tried, and what is to come of it, computed from one small table.

A request passes if the host is one of the server's own, the origin is none, its own or a named one, and the token is there; or if it asks
for a file of the console, which needs none; or if it is a browser's question whether a named page may ask. Nothing else passes, and what
is refused is refused for the first of these reasons, and says nothing of what the server holds.
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
CANARY = "canary-words-of-somebody"


class Host(NamedTuple):
    """A `Host` header: {port} is the server's. None: there is no such header."""

    value: str | None
    good: bool = False


class Origin(NamedTuple):
    """An `Origin` header: {host} is the one that is asked, {port} the server's. None: there is none."""

    value: str | None
    good: bool = False
    """Always. One that is `own` is good where its host is."""
    own: bool = False
    tls: bool = False
    """Own behind TLS, which only a host that was named may have in front of it."""


class Token(NamedTuple):
    """Headers that come with a request, and what its path ends with."""

    headers: tuple[str, ...]
    good: bool = False
    query: str = ""


HOSTS = (
    Host("127.0.0.1:{port}", True),
    Host("localhost:{port}", True),
    Host("LOCALHOST:{port}", True),
    Host("[::1]:{port}", True),
    Host(NAMED_HOST, True),
    Host(None),
    Host(""),
    Host("127.0.0.1"),
    Host("localhost"),
    Host("127.0.0.1:1"),
    Host("127.0.0.1:{port}0"),
    Host("127.0.0.1:0{port}"),
    Host("evil.example"),
    Host("evil.example:{port}"),
    Host("localhost.evil.example:{port}"),
    Host("127.0.0.1.evil.example:{port}"),
    Host("127.0.0.1:{port}.evil.example"),
    Host("127.0.0.1:{port},evil.example"),
    Host("user@127.0.0.1:{port}"),
    Host("0.0.0.0:{port}"),
    Host("127.0.0.2:{port}"),
    Host("2130706433:{port}"),
    Host("[::ffff:127.0.0.1]:{port}"),
    Host("localhost.:{port}"),
    Host("desk.example"),
    Host("desk.example:{port}"),
    Host("sub.desk.example:443"),
)
ORIGINS = (
    Origin(None, True),
    Origin("http://{host}", own=True),
    Origin("https://{host}", own=True, tls=True),
    Origin(NAMED_ORIGIN, True),
    Origin("null"),
    Origin(""),
    Origin("http://evil.example"),
    Origin("https://app.example.evil.example"),
    Origin("https://evil.example/https://app.example"),
    Origin("http://app.example"),
    Origin("https://app.example:444"),
    Origin("https://sub.app.example"),
    Origin("https://app.example/"),
    Origin("http://127.0.0.1"),
    Origin("http://127.0.0.1:1"),
    Origin("http://127.0.0.2:{port}"),
    Origin("http://{host}/"),
    Origin("http://{host}.evil.example"),
    Origin("file://"),
    Origin("chrome-extension://abcdef"),
    Origin("https://app.example, http://evil.example"),
    Origin("https://app.example\r\norigin: http://evil.example"),
)
TOKENS = (
    Token((f"authorization: Bearer {TOKEN}",), True),
    Token(()),
    Token(("authorization:",)),
    Token(("authorization: Bearer",)),
    Token(("authorization: Bearer ",)),
    Token(("authorization: Bearer wrong-token-0123456789",)),
    Token((f"authorization: Bearer {TOKEN[:-1]}",)),
    Token((f"authorization: Bearer {TOKEN}x",)),
    Token((f"authorization: Bearer {TOKEN.upper()}",)),
    Token((f"authorization: bearer {TOKEN}",), True),
    Token((f"authorization: BEARER  {TOKEN}",), True),
    Token((f"authorization: {TOKEN}",)),
    Token((f"authorization: Basic {TOKEN}",)),
    Token((f"authorization: Bearer {TOKEN}", f"authorization: Bearer {TOKEN}")),
    Token((f"x-api-key: {TOKEN}",)),
    Token((f"cookie: token={TOKEN}",)),
    Token((), query=f"token={TOKEN}"),
    Token((), query=f"access_token={TOKEN}"),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PREFLIGHT", "TRACE", "get")
"""PREFLIGHT is OPTIONS as a browser sends it before a page of another origin asks."""

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
"""What each route answers whom it lets pass; any other method is 405, or 404 where none is answered. The 400s are bodies that are none."""


class Case(NamedTuple):
    """One request."""

    host: Host
    origin: Origin
    token: Token
    method: str
    route: str

    @property
    def is_static(self) -> bool:
        return self.method in ("GET", "HEAD") and (self.route == "/" or self.route.startswith("/console/"))

    @property
    def origin_is_good(self) -> bool:
        return self.origin.good or (self.origin.own and (not self.origin.tls or self.host.value == NAMED_HOST))

    @property
    def expected(self) -> int:
        """The status of its answer: this is the whole law."""
        if not self.host.good:
            return 421
        if not self.origin_is_good:
            return 403
        if self.method == "PREFLIGHT" and self.origin.value == NAMED_ORIGIN:
            return 204
        if not self.is_static and not self.token.good:
            return 401
        return self._answer()

    def _answer(self) -> int:
        method = "OPTIONS" if self.method == "PREFLIGHT" else self.method
        answers = ROUTES[self.route]
        if method in answers:
            return 400 if self.token.query and answers[method] == 200 and not self.is_static else answers[method]
        return 405 if _leads_somewhere(self.route) else 404

    def __str__(self) -> str:
        token = self.token.headers or self.token.query or "no token"
        return f"{self.method} {self.route} host={self.host.value!r} origin={self.origin.value!r} {token!r}"

    def bytes_for(self, port: int) -> bytes:
        method = "OPTIONS" if self.method == "PREFLIGHT" else self.method
        path = f"{self.route}?{self.token.query}" if self.token.query else self.route
        host = self.host.value.format(port=port) if self.host.value is not None else None
        version = "1.1" if host is not None else "1.0"  # which alone may come without a host
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


def _leads_somewhere(route: str) -> bool:
    """Whether some method is answered there: any id and any path below it that is not listed leads nowhere."""
    return bool(ROUTES[route]) and not all(status == 404 and method in ("GET", "HEAD") for method, status in ROUTES[route].items())


class Answer(NamedTuple):
    """What came: enough of it to judge."""

    status: int
    headers: dict[str, str]
    body: bytes


def asked(case: Case, port: int) -> Answer:
    """Send one case over a connection of its own, and take what comes; of a stream, its beginning."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(case.bytes_for(port))
        received = b""
        while b"\r\n\r\n" not in received or (b"text/event-stream" not in received and len(received) < 2_000_000):
            if not (more := line.recv(65536)):
                break
            received += more
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    return Answer(int(first.split()[1]), {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}, body)


def wrong(case: Case, answer: Answer) -> str:
    """What is wrong with an answer; empty if nothing is."""
    if answer.status != case.expected:
        return f"{answer.status} in place of {case.expected}: {case}"
    named = case.host.good and case.origin.value == NAMED_ORIGIN
    if answer.headers.get("access-control-allow-origin") != (NAMED_ORIGIN if named else None):
        return f"access-control-allow-origin is {answer.headers.get('access-control-allow-origin')!r}: {case}"
    if "access-control-allow-credentials" in answer.headers or "set-cookie" in answer.headers:
        return f"somebody's cookies are meant: {case}"
    if case.expected in (401, 403, 421) and (CANARY.encode() in answer.body or TOKEN.encode() in answer.body):
        return f"it is refused, and says what it holds: {case}"
    if answer.headers.get("x-content-type-options") != "nosniff" or "content-security-policy" not in answer.headers:
        return f"it is not marked: {case}"
    return ""


def cases(seed: int = 1) -> list[Case]:
    """Every host with every origin and every token on one route; every method on every route with some of each; and a draw of all.

    Left out is what would delete the session that the others ask for.
    """
    good_host, good_origin, good_token = HOSTS[0], ORIGINS[0], TOKENS[0]
    every: Iterator[Case] = itertools.chain(
        (Case(host, origin, good_token, "GET", "/api/sessions/s") for host in HOSTS for origin in ORIGINS),
        (Case(HOSTS[4], origin, token, "GET", "/api/sessions/s") for origin in ORIGINS for token in TOKENS),
        (Case(host, good_origin, token, "GET", "/api/sessions/s") for host in HOSTS for token in TOKENS),
        (Case(good_host, good_origin, good_token, method, route) for method in METHODS for route in ROUTES),
        (Case(good_host, good_origin, TOKENS[1], method, route) for method in METHODS for route in ROUTES),
        (Case(good_host, ORIGINS[3], TOKENS[1], method, route) for method in METHODS for route in ROUTES),
        (Case(good_host, ORIGINS[6], good_token, method, route) for method in METHODS for route in ROUTES),
        (Case(HOSTS[13], good_origin, good_token, method, route) for method in METHODS for route in ROUTES),
        (Case(host, origin, TOKENS[1], "PREFLIGHT", "/api/sessions") for host in HOSTS for origin in ORIGINS),
    )
    drawn = random.Random(seed)
    some = (Case(*(drawn.choice(each) for each in (HOSTS, ORIGINS, TOKENS, METHODS, list(ROUTES)))) for _ in range(600))
    deletes = ("DELETE", "/api/sessions/s")
    left = [case for case in dict.fromkeys([*every, *some]) if (case.method, case.route) != deletes or case.expected in (401, 403, 421)]
    drawn.shuffle(left)
    return left
