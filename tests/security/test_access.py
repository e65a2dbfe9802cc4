"""Only the listed combinations of host, origin, token, method and route pass, and the cases notice a broken guard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote

import pytest

from legato import Agent, HandoffBuilder
from legato.server import request_guard, serve
from legato.server.request_guard import Access
from legato.testing import ScriptedModel
from tests.security.access_cases import CANARY, NAMED_HOST, NAMED_ORIGIN, TOKEN, AccessCase, build_cases, find_error, send_case
from tests.server.api_client import ApiClient

CASES = build_cases()


@contextmanager
def run_guarded_server() -> Iterator[int]:
    """Run a server with a session, and yield its port."""
    desk = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(lambda seen: f"It is {CANARY}."))]).build()
    with serve(desk, token=TOKEN, allow_hosts=[NAMED_HOST], allow_origins=[NAMED_ORIGIN]) as server:
        client = ApiClient(server)
        connection = client.connect()
        connection.request("POST", "/api/sessions", b'{"id": "s", "message": "Hi"}', HEADERS)
        connection.getresponse().read()
        connection.close()
        yield client.port


HEADERS = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}


def find_errors(port: int, some: list[AccessCase]) -> list[str]:
    """Return the errors in the answers to these cases."""
    with ThreadPoolExecutor(4) as pool:
        return [error for error in pool.map(lambda case: find_error(case, send_case(case, port)), some) if error]


def test_only_the_listed_combinations_pass() -> None:
    assert len(CASES) > 2_000
    passing = [case for case in CASES if case.expected not in (401, 403, 421)]
    assert len(passing) > 200
    with run_guarded_server() as port:
        errors = find_errors(port, CASES)
    assert not errors, "\n".join([f"{len(errors)} of {len(CASES)}", *errors[:20]])


def test_table_covers_every_reason_to_refuse() -> None:
    """Each reason to refuse is the only one in many cases."""
    for status in (401, 403, 421):
        assert sum(case.expected == status for case in CASES) > 200
    alone = [case for case in CASES if case.expected == 401 and case.method == "GET" and not case.is_static]
    assert {case.token for case in alone} >= {token for token in {case.token for case in CASES} if not token.is_valid}


BreakGuard = Callable[[pytest.MonkeyPatch], None]


def _break_host_check(is_own: Callable[[str, Access], bool]) -> BreakGuard:
    """Replace the check of hosts."""
    original = Access.check_request

    def check_request(self: Access, scope: Any) -> Any:
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if hosts and is_own(hosts[0].lower(), self):
            others = [each for each in scope["headers"] if each[0] not in (b"host", b"origin")]
            scope = {**scope, "headers": [*others, (b"host", next(iter(self.own_hosts)).encode())]}
        return original(self, scope)

    return lambda patch: patch.setattr(Access, "check_request", check_request)


def _break_origin_check(is_own: Callable[[str, str], bool]) -> BreakGuard:
    """Replace the check of own origins."""
    return lambda patch: patch.setattr(Access, "_is_own_origin", lambda self, origin, host: is_own(origin, host))


def _break_token_check(is_valid: Callable[[Any, str], bool]) -> BreakGuard:
    """Replace the check of tokens."""
    return lambda patch: patch.setattr(request_guard, "has_token", is_valid)


def _break_static_check(is_file: Callable[[Any], bool]) -> BreakGuard:
    """Replace the check for files that need no token."""
    return lambda patch: patch.setattr(request_guard, "_is_console_file", is_file)


def _break_named_origin_check(is_allowed: Callable[[str], bool]) -> BreakGuard:
    """Replace the check of allowed origins."""

    def find_allowed_origin(self: Access, scope: Any) -> str:
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        return origins[0] if origins and is_allowed(origins[0]) else ""

    return lambda patch: patch.setattr(Access, "find_allowed_origin", find_allowed_origin)


def get_authorization(headers: Any) -> str:
    return next((value.decode("latin-1") for name, value in headers if name == b"authorization"), "")


BROKEN_GUARDS: dict[str, BreakGuard] = {
    "any host is ours": _break_host_check(lambda host, ours: True),
    "a host that begins like ours is": _break_host_check(lambda host, ours: any(host.startswith(each) for each in ours.own_hosts)),
    "a host of any port is": _break_host_check(
        lambda host, ours: host.partition(":")[0] in {each.partition(":")[0] for each in ours.own_hosts}
    ),
    "a host below a named one is": _break_host_check(lambda host, ours: host.endswith(NAMED_HOST)),
    "any loopback address is": _break_host_check(lambda host, ours: host.startswith("127.")),
    "any origin is ours": _break_origin_check(lambda origin, host: True),
    "the null origin is": _break_origin_check(lambda origin, host: origin in ("null", f"http://{host}")),
    "an origin that begins like ours is": _break_origin_check(lambda origin, host: origin.startswith(f"http://{host}")),
    "an origin of any port is": _break_origin_check(lambda origin, host: origin.rpartition(":")[0] == f"http://{host.rpartition(':')[0]}"),
    "an empty origin is": _break_origin_check(lambda origin, host: not origin or origin == f"http://{host}"),
    "TLS in front of everything": _break_origin_check(lambda origin, host: origin in (f"http://{host}", f"https://{host}")),
    "a named origin may be of either kind": _break_origin_check(lambda origin, host: origin in (f"http://{host}", "http://app.example")),
    "no token is needed": _break_token_check(lambda headers, token: True),
    "a token that begins right is right": _break_token_check(
        lambda headers, token: get_authorization(headers).startswith(f"Bearer {token[:-1]}")
    ),
    "a token that is right but for its case is": _break_token_check(
        lambda headers, token: get_authorization(headers).lower() == f"bearer {token}".lower()
    ),
    "a token of any scheme is": _break_token_check(lambda headers, token: get_authorization(headers).endswith(token)),
    "the last of two tokens counts": _break_token_check(lambda headers, token: get_authorization(headers) == f"Bearer {token}"),
    "an empty token is": _break_token_check(lambda headers, token: get_authorization(headers) in ("Bearer", "Bearer ", f"Bearer {token}")),
    "a cookie is a token": _break_token_check(
        lambda headers, token: any(token.encode() in value for name, value in headers if name != b"x-api-key")
    ),
    "files are named as they are decoded": _break_static_check(lambda scope: unquote(scope["path"]).startswith(("/console", "/CONSOLE"))),
    "files may be asked for in any way": _break_static_check(lambda scope: scope["path"] == "/" or scope["path"].startswith("/console/")),
    "files are whatever has console in it": _break_static_check(lambda scope: "console/" in scope["path"] or scope["path"] == "/"),
    "the API is files": _break_static_check(lambda scope: scope["method"] in ("GET", "HEAD")),
    "every page may ask": _break_named_origin_check(lambda origin: True),
    "pages with the name in it may ask": _break_named_origin_check(lambda origin: NAMED_ORIGIN in origin),
}


@pytest.mark.parametrize("break_guard", BROKEN_GUARDS.values(), ids=BROKEN_GUARDS)
def test_every_broken_guard_is_noticed(break_guard: BreakGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    break_guard(monkeypatch)
    with run_guarded_server() as port:
        for start in range(0, len(CASES), 200):
            if find_errors(port, CASES[start : start + 200]):
                return
    pytest.fail("no case notices the broken guard")


def test_token_in_the_query_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Access.check_request

    def check_request(self: Access, scope: Any) -> Any:
        if TOKEN in [value for values in parse_qs(scope["query_string"].decode()).values() for value in values]:
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]}
        return original(self, scope)

    some = [case for case in CASES if case.token.query]
    with run_guarded_server() as port:
        assert not find_errors(port, some)
        monkeypatch.setattr(Access, "check_request", check_request)
        assert find_errors(port, some)
