"""Only the listed combinations of Host, Origin, token, method and route pass; and the matrix that says so sees a guard that is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from legato import Agent, HandoffBuilder
from legato.server import access, serve
from legato.server.access import Access
from legato.testing import ScriptedModel
from tests.security.matrix import CANARY, NAMED_HOST, NAMED_ORIGIN, TOKEN, Case, asked, cases, wrong
from tests.server.asking import Client

CASES = cases()


@contextmanager
def guarded() -> Iterator[int]:
    """A server with something to guard; its port."""
    desk = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(lambda seen: f"It is {CANARY}."))]).build()
    with serve(desk, token=TOKEN, allow_hosts=[NAMED_HOST], allow_origins=[NAMED_ORIGIN]) as server:
        client = Client(server)
        connection = client.connection()
        connection.request("POST", "/api/sessions", b'{"id": "s", "message": "Hi"}', HEADERS)
        connection.getresponse().read()
        connection.close()
        yield client.port


HEADERS = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}


def judged(port: int, some: list[Case]) -> list[str]:
    """What is wrong with the answers to these cases."""
    with ThreadPoolExecutor(4) as pool:
        return [told for told in pool.map(lambda case: wrong(case, asked(case, port)), some) if told]


def test_only_the_listed_combinations_pass() -> None:
    assert len(CASES) > 2_000
    passing = [case for case in CASES if case.expected not in (401, 403, 421)]
    assert len(passing) > 200
    with guarded() as port:
        found = judged(port, CASES)
    assert not found, "\n".join([f"{len(found)} of {len(CASES)}", *found[:20]])


def test_the_table_has_what_an_attacker_would_send() -> None:
    """So that nobody thins it out: each reason to refuse is the only one in many cases."""
    for status in (401, 403, 421):
        assert sum(case.expected == status for case in CASES) > 200
    alone = [case for case in CASES if case.expected == 401 and case.method == "GET" and not case.is_static]
    assert {case.token for case in alone} >= {token for token in {case.token for case in CASES} if not token.good}


Spoil = Callable[[pytest.MonkeyPatch], None]


def _host(good: Callable[[str, Access], bool]) -> Spoil:
    """Another idea of which hosts are ours."""
    right = Access.refusal

    def refusal(self: Access, scope: Any) -> Any:
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if given and good(given[0].lower(), self):
            kept = [each for each in scope["headers"] if each[0] not in (b"host", b"origin")]
            scope = {**scope, "headers": [*kept, (b"host", next(iter(self.hosts)).encode())]}
        return right(self, scope)

    return lambda patch: patch.setattr(Access, "refusal", refusal)


def _own(good: Callable[[str, str], bool]) -> Spoil:
    """Another idea of which origins are ours."""
    return lambda patch: patch.setattr(Access, "_own", lambda self, origin, host: good(origin, host))


def _token(good: Callable[[Any, str], bool]) -> Spoil:
    """Another idea of who bears the token."""
    return lambda patch: patch.setattr(access, "bears", good)


def _static(good: Callable[[Any], bool]) -> Spoil:
    """Another idea of what needs no token."""
    return lambda patch: patch.setattr(access, "_static", good)


def _named(good: Callable[[str], bool]) -> Spoil:
    """Another idea of which pages of others may ask."""

    def from_elsewhere(self: Access, scope: Any) -> str:
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        return given[0] if given and good(given[0]) else ""

    return lambda patch: patch.setattr(Access, "from_elsewhere", from_elsewhere)


def authorization(headers: Any) -> str:
    return next((value.decode("latin-1") for name, value in headers if name == b"authorization"), "")


SEEDED: dict[str, Spoil] = {
    "any host is ours": _host(lambda host, ours: True),
    "a host that begins like ours is": _host(lambda host, ours: any(host.startswith(each) for each in ours.hosts)),
    "a host of any port is": _host(lambda host, ours: host.partition(":")[0] in {each.partition(":")[0] for each in ours.hosts}),
    "a host below a named one is": _host(lambda host, ours: host.endswith(NAMED_HOST)),
    "any loopback address is": _host(lambda host, ours: host.startswith("127.")),
    "any origin is ours": _own(lambda origin, host: True),
    "the origin of nobody is": _own(lambda origin, host: origin in ("null", f"http://{host}")),
    "an origin that begins like ours is": _own(lambda origin, host: origin.startswith(f"http://{host}")),
    "an origin of any port is": _own(lambda origin, host: origin.rpartition(":")[0] == f"http://{host.rpartition(':')[0]}"),
    "an empty origin is": _own(lambda origin, host: not origin or origin == f"http://{host}"),
    "TLS in front of everything": _own(lambda origin, host: origin in (f"http://{host}", f"https://{host}")),
    "a named origin may be of either kind": _own(lambda origin, host: origin in (f"http://{host}", "http://app.example")),
    "no token is needed": _token(lambda headers, token: True),
    "a token that begins right is right": _token(lambda headers, token: authorization(headers).startswith(f"Bearer {token[:-1]}")),
    "a token that is right but for its case is": _token(lambda headers, token: authorization(headers).lower() == f"bearer {token}".lower()),
    "a token of any scheme is": _token(lambda headers, token: authorization(headers).endswith(token)),
    "the last of two tokens counts": _token(lambda headers, token: authorization(headers) == f"Bearer {token}"),
    "an empty token is": _token(lambda headers, token: authorization(headers) in ("Bearer", "Bearer ", f"Bearer {token}")),
    "a cookie is a token": _token(lambda headers, token: any(token.encode() in value for name, value in headers if name != b"x-api-key")),
    "files are named as they are decoded": _static(lambda scope: unquote(scope["path"]).startswith(("/console", "/CONSOLE"))),
    "files may be asked for in any way": _static(lambda scope: scope["path"] == "/" or scope["path"].startswith("/console/")),
    "files are whatever has console in it": _static(lambda scope: "console/" in scope["path"] or scope["path"] == "/"),
    "the API is files": _static(lambda scope: scope["method"] in ("GET", "HEAD")),
    "every page may ask": _named(lambda origin: True),
    "pages with the name in it may ask": _named(lambda origin: NAMED_ORIGIN in origin),
}


@pytest.mark.parametrize("spoil", SEEDED.values(), ids=SEEDED)
def test_the_matrix_sees_a_guard_that_is_missing(spoil: Spoil, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch)
    with guarded() as port:
        for start in range(0, len(CASES), 200):
            if judged(port, CASES[start : start + 200]):
                return
    pytest.fail("every case is answered as if nothing were missing")


def test_the_token_is_not_taken_from_the_query_also_where_a_route_would_read_one(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Access.refusal

    def refusal(self: Access, scope: Any) -> Any:
        if TOKEN in [value for values in parse_qs(scope["query_string"].decode()).values() for value in values]:
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]}
        return right(self, scope)

    some = [case for case in CASES if case.token.query]
    with guarded() as port:
        assert not judged(port, some)
        monkeypatch.setattr(Access, "refusal", refusal)
        assert judged(port, some)
