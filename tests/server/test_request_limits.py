"""Requests that are too large, too slow or invalid HTTP are refused with a clear error, and leave no resources in use."""

from __future__ import annotations

import http.client
import json
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from legato import Agent, HandoffBuilder
from legato.errors import DamagedStore, StoreUnavailable
from legato.server.api import endpoints
from legato.server.request_limits import RequestLimits
from legato.stores import MemoryStore
from legato.testing import ScriptedModel
from tests.server.api_client import ApiClient, ApiResponse
from tests.server.conftest import Serve

OpenConnection = Callable[[ApiClient], "RawConnection"]
TWO_LENGTHS = ("content-length: 5", "transfer-encoding: chunked")
SECURITY_HEADERS = ("cache-control", "x-content-type-options", "referrer-policy", "x-frame-options", "content-security-policy")


def make_workflow(*script: Any) -> Any:
    return HandoffBuilder("hello", [Agent("clerk", model=ScriptedModel(list(script or ["Hello!"])))]).build()


class RawConnection:
    """A connection that sends raw bytes."""

    def __init__(self, api: ApiClient) -> None:
        self.host = f"{api.host}:{api.port}"
        self.token = api.token
        self.socket = socket.create_connection((api.host, api.port), timeout=60)

    def send(self, *lines: str, end: bytes = b"\r\n\r\n") -> RawConnection:
        self.socket.sendall("\r\n".join(lines).encode("latin-1") + end)
        return self

    def send_head(self, first: str, *headers: str) -> RawConnection:
        return self.send(first, f"host: {self.host}", f"authorization: Bearer {self.token}", *headers)

    @property
    def response(self) -> ApiResponse:
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        return ApiResponse(response)

    @property
    def has_response(self) -> bool:
        """True if a response arrived within a moment."""
        return bool(select.select([self.socket], [], [], 0.02)[0])

    @property
    def is_closed(self) -> bool:
        """Wait until the server closes the connection."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def open_connection() -> Iterator[Callable[[ApiClient], RawConnection]]:
    """Return a function that opens connections, which are closed with the test."""
    with ExitStack() as stack:

        def make(api: ApiClient) -> RawConnection:
            connection = RawConnection(api)
            stack.callback(connection.close)
            return connection

        yield make


@pytest.fixture
def rest_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the rest of refused bodies."""
    monkeypatch.setattr("legato.asgi.request_bodies.DRAIN_IDLE_TIMEOUT_S", 0.01)


def wait_until(find: Callable[[], Any]) -> Any:
    until = time.monotonic() + 60
    while not (found := find()):
        assert time.monotonic() < until, "it never became so"
        time.sleep(0.01)
    return found


def test_declared_large_body_is_refused_unread(serve_workflows: Serve, open_connection: OpenConnection, rest_is_not_awaited: None) -> None:
    api = serve_workflows(make_workflow(), limits=RequestLimits(max_body_bytes=1000, max_upload_bytes=5000))
    bounds = {"/api/sessions/s/cancel": 1000, "/api/sessions": 5000, "/api/sessions/s/messages": 5000, "/v1/responses": 5000}
    for path, longest in bounds.items():
        connection = open_connection(api).send_head(
            f"POST {path} HTTP/1.1", "content-type: application/json", f"content-length: {longest + 1}"
        )
        answer = connection.response
        error = answer.json["error"]
        assert (answer.status, answer.error) == (413, "too_large")
        assert f"at most {longest} bytes" in error.get("expected", error["message"])  # OpenAI's errors are one text
        assert connection.is_closed


def test_chunked_body_is_cut_off_at_limit(serve_workflows: Serve, open_connection: OpenConnection, rest_is_not_awaited: None) -> None:
    api = serve_workflows(make_workflow(), limits=RequestLimits(max_body_bytes=1000))
    connection = open_connection(api).send_head(
        "POST /api/sessions/s/cancel HTTP/1.1", "content-type: application/json", "transfer-encoding: chunked"
    )
    connection.send("3e8", "x" * 1000, end=b"\r\n")
    connection.send("1", "x", end=b"\r\n")
    answer = connection.response
    assert (answer.status, answer.error) == (413, "too_large")
    assert connection.is_closed
    assert api.request("GET", "/api").status == 200


def test_deeply_nested_json_is_refused(serve_workflows: Serve) -> None:
    api = serve_workflows(make_workflow())
    api.post("/api/sessions", {"id": "s"}, 201)
    for depth in (65, 100_000):
        deep = b'{"request": "r", "verdict": "edit", "arguments": {"a": ' + b"[" * depth + b"]" * depth + b"}}"
        answer = api.request("POST", "/api/sessions/s/answers", deep)
        assert (answer.status, answer.error) == (400, "bad_input")
    words = "[{" * 5000 + '\\"' * 10  # within text it is no nesting
    assert api.request("POST", "/api/sessions/s/answers", {"request": "r", "verdict": "reject", "words": words}).error == "not_pending"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    some.recursive(
        some.one_of(some.none(), some.text(alphabet='[]{}"\\a')),
        lambda inner: some.one_of(
            some.lists(inner, max_size=3), some.dictionaries(some.text(alphabet='[{"\\', max_size=3), inner, max_size=2)
        ),
    ),
    some.integers(1, 9),
)
def test_nesting_depth_is_independent_of_chunks(content: Any, chunk_bytes: int) -> None:
    def depth(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(endpoints, "CHUNK_BYTES", chunk_bytes)
        for max_depth in range(depth(content) + 2):
            patched.setattr(endpoints, "MAX_JSON_DEPTH", max_depth)
            with pytest.raises(RecursionError) if max_depth < depth(content) else nullcontext():
                endpoints._check_depth(json.dumps(content).encode())


def test_large_body_does_not_block_other_requests(serve_workflows: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    api = serve_workflows(make_workflow())
    body = b'{"a": [' + (b"[" * 60 + b"]" * 60) * 1000
    reading, go_on, check_depth = threading.Event(), threading.Event(), endpoints._check_depth

    def slowly(body: bytes) -> None:
        reading.set()
        assert go_on.wait(60)
        check_depth(body)

    monkeypatch.setattr(endpoints, "_check_depth", slowly)
    with ThreadPoolExecutor() as threads:
        large = threads.submit(api.request, "POST", "/v1/responses", body)
        assert reading.wait(60)
        assert api.request("GET", "/api").status == 200
        assert not large.done()
        go_on.set()
        assert large.result().status == 400


def test_large_body_is_checked_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []

    def noted(steps: Any, *more: Any, **options: Any) -> Any:
        steps = list(steps)
        pieces.append(len(steps))
        return accumulate(steps, *more, **options)

    monkeypatch.setattr(endpoints, "accumulate", noted)
    endpoints._check_depth(b"[]" * 10 * endpoints.CHUNK_BYTES)
    assert pieces == [endpoints.CHUNK_BYTES] * 20


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"text"', b'{"message": 1}', b'{"message": "a", "b": 1}', b"\xff\xfe", b'{"message": "\\ud800"}', b"{}{}"],
)
def test_invalid_body_is_refused_and_changes_nothing(serve_workflows: Serve, body: bytes) -> None:
    api = serve_workflows(make_workflow())
    api.post("/api/sessions", {"id": "s"}, 201)
    answer = api.request("POST", "/api/sessions/s/messages", body)
    assert (answer.status, answer.error) == (400, "bad_input"), answer
    assert api.get_session("s")["facts"] == 1


def test_body_of_other_media_type_is_refused(serve_workflows: Serve) -> None:
    api = serve_workflows(make_workflow())
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = api.request("POST", "/api/sessions", b'{"id": "s"}', {"content-type": kind})
        assert (answer.status, answer.error) == (400, "bad_input")
    assert api.get("/api/sessions")["sessions"] == []


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50 + b"\r\n\r\n",  # a TLS handshake
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n",
    ],
)
def test_invalid_http_is_answered_and_closes_connection(serve_workflows: Serve, open_connection: OpenConnection, sent: bytes) -> None:
    connection = open_connection(serve_workflows(make_workflow()))
    connection.socket.sendall(sent)
    answer = connection.response
    assert (answer.status, answer.error) == (400, "bad_request")
    assert all(mark in answer.headers for mark in SECURITY_HEADERS)
    assert connection.is_closed


@pytest.mark.parametrize("token", [True, False], ids=["token", "no token"])
@pytest.mark.parametrize("lengths", [TWO_LENGTHS, TWO_LENGTHS[::-1]], ids=["length first", "encoding first"])
def test_request_with_two_lengths_is_refused(
    serve_workflows: Serve, open_connection: OpenConnection, lengths: tuple[str, str], token: bool
) -> None:
    connection = open_connection(serve_workflows(make_workflow()))
    named = (f"host: {connection.host}", *((f"authorization: Bearer {connection.token}",) if token else ()))
    connection.send("POST /api/sessions HTTP/1.1", *named, *lengths).send("0", "", "GET /api HTTP/1.1", *named)
    answer = connection.response
    assert (answer.status, answer.error) == (400, "bad_request")
    assert "not both" in answer.json["error"]["message"]
    assert all(mark in answer.headers for mark in SECURITY_HEADERS)
    assert connection.is_closed


@pytest.mark.parametrize(
    ("first", "more", "status"),
    [
        ("GET /api HTTP/1.1", "x: y\r\n" * 10_000, 431),
        ("GET /api HTTP/1.1", "x: " + "y" * 40_000 + "\r\n", 431),
        ("GET /api/" + "x" * 100_000 + " HTTP/1.1", "", 414),
        ("GET /api?search=" + "x" * 9_000 + " HTTP/1.1", "", 414),
    ],
)
def test_large_head_is_refused_whole_or_in_pieces(
    serve_workflows: Serve, open_connection: OpenConnection, first: str, more: str, status: int
) -> None:
    api = serve_workflows(make_workflow())
    connection = open_connection(api)
    connection.socket.sendall(f"{first}\r\nhost: {connection.host}\r\nauthorization: Bearer {connection.token}\r\n{more}\r\n".encode())
    assert connection.response.status in (status, 400)  # it depends on how the system hands it over
    assert connection.is_closed
    whole = f"{first}\r\nhost: {connection.host}\r\nauthorization: Bearer {connection.token}\r\n{more}\r\n"
    slow = open_connection(api)
    for start in range(0, len(whole), 8192):
        slow.socket.sendall(whole[start : start + 8192].encode())
        if slow.has_response:
            break
    assert slow.response.status in (status, 400)


def test_connection_with_slow_head_is_closed(serve_workflows: Serve, open_connection: OpenConnection) -> None:
    """Also if it is the second request on the connection, or if nothing is sent."""
    api = serve_workflows(make_workflow(), limits=RequestLimits(io_timeout=0.2))
    assert open_connection(api).send("GET /api HTTP/1.1", "host: ", end=b"").is_closed
    assert open_connection(api).is_closed  # which says nothing at all
    connection = open_connection(api).send_head("GET /api HTTP/1.1")
    assert connection.response.status == 200
    assert connection.send("GET /api HTTP/1.1", end=b"").is_closed


def test_slow_body_is_refused(serve_workflows: Serve, open_connection: OpenConnection) -> None:
    connection = open_connection(serve_workflows(make_workflow(), limits=RequestLimits(io_timeout=0.2)))
    connection.send_head("POST /api/sessions HTTP/1.1", "content-type: application/json", "content-length: 100").send("{", end=b"")
    answer = connection.response
    assert (answer.status, answer.error) == (408, "too_slow")
    assert connection.is_closed


def test_unread_body_does_not_keep_connection_open(serve_workflows: Serve, open_connection: OpenConnection) -> None:
    api = serve_workflows(make_workflow(), limits=RequestLimits(io_timeout=0.2))
    asked = ("POST /api/sessions HTTP/1.1", f"host: {api.host}:{api.port}")  # without the token
    silent = open_connection(api).send(*asked, "content-length: 10")
    assert silent.response.status == 401
    assert silent.send("x", end=b"").is_closed
    steady = open_connection(api).send(*asked, "transfer-encoding: chunked")
    assert steady.response.status == 401

    def hung_up_on() -> bool:
        try:
            steady.send("1", "x", end=b"\r\n")
        except ConnectionError:
            return True
        return False

    wait_until(hung_up_on)


def test_connection_survives_refused_body_that_arrives(serve_workflows: Serve, open_connection: OpenConnection) -> None:
    api = serve_workflows(make_workflow())
    connection = open_connection(api).send("POST /api/sessions HTTP/1.1", f"host: {api.host}:{api.port}", "content-length: 10")
    assert connection.response.status == 401
    connection.send("0123456789", end=b"").send_head("GET /api HTTP/1.1")
    assert connection.response.status == 200


def test_unread_response_does_not_keep_connection_open(serve_workflows: Serve, open_connection: OpenConnection) -> None:
    api = serve_workflows(make_workflow(), limits=RequestLimits(io_timeout=0.2, max_connections=2))
    api.post("/api/sessions", {"id": "s"}, 201)
    for _ in range(8):
        api.post("/api/sessions/s/messages", {"message": "x" * 900_000}, 202)
    api.wait_for_status("s", "waiting", "failed")
    for _ in range(2):
        connection = open_connection(api)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.send_head("GET /api/sessions/s/export HTTP/1.1", "connection: close")  # and reads nothing of it

    def answered() -> bool:
        try:
            return api.request("GET", "/api").status == 200
        except ConnectionError:
            return False

    wait_until(lambda: not answered())
    wait_until(answered)


def test_stream_limit_frees_slots_of_closed_streams(serve_workflows: Serve, open_connection: OpenConnection) -> None:
    api = serve_workflows(make_workflow(), limits=RequestLimits(max_streams=2))
    api.create_session("Hi", "s")
    with api.open_events("s"), api.open_events("s"):
        refused = api.request("GET", "/api/sessions/s/events")
        assert (refused.status, refused.error, refused.headers["retry-after"]) == (429, "too_many_streams", "5")
        assert api.request("GET", "/api").status == 200  # which is none

    def one_more() -> bool:
        connection = open_connection(api).send_head("GET /api/sessions/s/events HTTP/1.1")
        status = connection.socket.recv(12)
        connection.close()
        return status == b"HTTP/1.1 200"

    wait_until(one_more)


def test_unread_stream_is_closed_and_frees_slot(serve_workflows: Serve, open_connection: OpenConnection) -> None:
    api = serve_workflows(make_workflow(), limits=RequestLimits(max_streams=1, io_timeout=0.3))
    api.post("/api/sessions", {"id": "s"}, 201)
    for _ in range(12):
        api.post("/api/sessions/s/messages", {"message": "x" * 900_000}, 202)
    api.wait_for_status("s", "waiting", "failed")
    connection = open_connection(api)
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.send_head("GET /api/sessions/s/events HTTP/1.1")  # and reads nothing of it

    def asked() -> bytes:
        return open_connection(api).send_head("GET /api/sessions/s/events HTTP/1.1").socket.recv(12)

    wait_until(lambda: asked() == b"HTTP/1.1 429")
    wait_until(lambda: asked() == b"HTTP/1.1 200")


def test_concurrent_requests_are_limited(serve_workflows: Serve, open_connection: OpenConnection) -> None:
    api = serve_workflows(make_workflow(), limits=RequestLimits(max_requests=2))
    slow = [
        open_connection(api).send_head("POST /api/sessions HTTP/1.1", "content-type: application/json", "content-length: 100")
        for _ in range(2)
    ]
    refused = wait_until(lambda: (answer := api.request("GET", "/api")).status == 429 and answer)
    assert (refused.error, refused.headers["retry-after"]) == ("too_many_requests", "1")
    for connection in slow:
        connection.close()
    wait_until(lambda: api.request("GET", "/api").status == 200)


def test_open_connections_are_limited(serve_workflows: Serve, open_connection: OpenConnection) -> None:
    api = serve_workflows(make_workflow(), limits=RequestLimits(max_connections=3))
    connections = [open_connection(api).send_head("GET /api HTTP/1.1") for _ in range(3)]
    assert [connection.response.status for connection in connections] == [200, 200, 200]
    assert open_connection(api).is_closed
    for connection in connections:
        connection.close()
    connection = wait_until(
        lambda: (
            (connection := open_connection(api).send_head("GET /api HTTP/1.1"))
            and connection.socket.recv(12) == b"HTTP/1.1 200"
            and connection
        )
    )
    connection.close()


class FailingStore(MemoryStore):
    """A store that raises `error` while it is set."""

    error: Exception | None = None

    async def ledger_id(self, ledger: str) -> str:
        if self.error is not None:
            raise self.error
        return await super().ledger_id(ledger)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StoreUnavailable("the database is away"), 503, "unavailable"),
        (DamagedStore("some bytes changed"), 500, "damaged"),
        (RuntimeError("canary: words of the conversation"), 500, "unexpected"),
    ],
)
def test_internal_errors_do_not_leak_their_text(
    serve_workflows: Serve, caplog: pytest.LogCaptureFixture, error: Exception, status: int, code: str
) -> None:
    store = FailingStore()
    api = serve_workflows(make_workflow(), store=store)
    api.create_session("Hi", "s")
    store.error = error
    with caplog.at_level(logging.DEBUG):
        answer = api.request("GET", "/api/sessions/nobody")
    assert (answer.status, answer.error) == (status, code)
    assert "canary" not in answer.body.decode() + caplog.text
    if code == "unexpected":
        assert "unexpected error: RuntimeError at test_request_limits.py" in caplog.text
    store.error = None
    assert api.get_session("s")["status"] == "waiting"


def test_every_response_has_security_headers(serve_workflows: Serve) -> None:
    api = serve_workflows(make_workflow())
    api.create_session("Hi", "s")
    for path in ("/", "/api", "/api/nothing", "/api/sessions/s", "/v1/models", "/api/sessions/s/export"):
        headers = api.request("GET", path).headers
        assert all(mark in headers for mark in SECURITY_HEADERS), path
        assert headers["cache-control"] == ("no-cache" if path == "/" else "no-store")
        assert "set-cookie" not in headers
        assert "server" not in headers
    with api.open_request("GET", "/api/sessions/s/events") as stream:
        headers = {name.lower(): value for name, value in stream.getresponse().getheaders()}
        assert all(mark in headers for mark in SECURITY_HEADERS)
        assert json.dumps(headers).count("no-store") == 1
