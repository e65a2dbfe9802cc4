"""What is too much, too slow or no HTTP is refused in one clear way, costs nothing afterwards, and is in nobody's way."""

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
from legato.server.api import table
from legato.server.limits import Limits
from legato.stores import MemoryStore
from legato.testing import ScriptedModel
from tests.server.asking import Answer, Client
from tests.server.conftest import Serve

OpenLine = Callable[[Client], "Line"]
TWO_LENGTHS = ("content-length: 5", "transfer-encoding: chunked")
MARKS = ("cache-control", "x-content-type-options", "referrer-policy", "x-frame-options", "content-security-policy")


def hello(*script: Any) -> Any:
    return HandoffBuilder("hello", [Agent("clerk", model=ScriptedModel(list(script or ["Hello!"])))]).build()


class Line:
    """A connection on which bytes are sent as they are."""

    def __init__(self, api: Client) -> None:
        self.host = f"{api.host}:{api.port}"
        self.token = api.token
        self.socket = socket.create_connection((api.host, api.port), timeout=60)

    def send(self, *lines: str, end: bytes = b"\r\n\r\n") -> Line:
        self.socket.sendall("\r\n".join(lines).encode("latin-1") + end)
        return self

    def head(self, first: str, *headers: str) -> Line:
        return self.send(first, f"host: {self.host}", f"authorization: Bearer {self.token}", *headers)

    @property
    def answer(self) -> Answer:
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        return Answer(response)

    @property
    def was_answered(self) -> bool:
        """Whether something came, a moment after what was sent."""
        return bool(select.select([self.socket], [], [], 0.02)[0])

    @property
    def is_closed(self) -> bool:
        """Whether the server hangs up; it waits for that."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def open_line() -> Iterator[Callable[[Client], Line]]:
    """Connections that are closed with the test."""
    with ExitStack() as stack:

        def make(api: Client) -> Line:
            line = Line(api)
            stack.callback(line.close)
            return line

        yield make


@pytest.fixture
def rest_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends nothing more of a refused body is not waited for."""
    monkeypatch.setattr("legato.asgi.bodies.DRAIN_IDLE_SECONDS", 0.01)


def eventually(so: Callable[[], Any]) -> Any:
    until = time.monotonic() + 60
    while not (found := so()):
        assert time.monotonic() < until, "it never became so"
        time.sleep(0.01)
    return found


def test_a_body_that_says_it_is_too_long_is_refused_before_it_comes(served: Serve, open_line: OpenLine, rest_is_not_awaited: None) -> None:
    api = served(hello(), limits=Limits(body=1000, files=5000))
    bounds = {"/api/sessions/s/cancel": 1000, "/api/sessions": 5000, "/api/sessions/s/messages": 5000, "/v1/responses": 5000}
    for path, longest in bounds.items():
        line = open_line(api).head(f"POST {path} HTTP/1.1", "content-type: application/json", f"content-length: {longest + 1}")
        answer = line.answer
        error = answer.json["error"]
        assert (answer.status, answer.error) == (413, "too_large")
        assert f"{longest} bytes at most" in error.get("expected", error["message"])  # OpenAI's errors are one text
        assert line.is_closed


def test_a_body_that_says_nothing_of_its_length_is_cut_off_at_its_bound(
    served: Serve, open_line: OpenLine, rest_is_not_awaited: None
) -> None:
    api = served(hello(), limits=Limits(body=1000))
    line = open_line(api).head("POST /api/sessions/s/cancel HTTP/1.1", "content-type: application/json", "transfer-encoding: chunked")
    line.send("3e8", "x" * 1000, end=b"\r\n")
    line.send("1", "x", end=b"\r\n")
    answer = line.answer
    assert (answer.status, answer.error) == (413, "too_large")
    assert line.is_closed
    assert api.ask("GET", "/api").status == 200


def test_json_that_is_nested_too_deep_is_refused_however_it_is_written(served: Serve) -> None:
    api = served(hello())
    api.post("/api/sessions", {"id": "s"}, 201)
    for depth in (65, 100_000):
        deep = b'{"request": "r", "verdict": "edit", "arguments": {"a": ' + b"[" * depth + b"]" * depth + b"}}"
        answer = api.ask("POST", "/api/sessions/s/answers", deep)
        assert (answer.status, answer.error) == (400, "bad_input")
    words = "[{" * 5000 + '\\"' * 10  # within text it is no nesting
    assert api.ask("POST", "/api/sessions/s/answers", {"request": "r", "verdict": "reject", "words": words}).error == "not_pending"


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
def test_nesting_is_counted_alike_wherever_a_body_is_cut_into_pieces(content: Any, piece: int) -> None:
    def depth(of: Any) -> int:
        inner = of.values() if isinstance(of, dict) else of if isinstance(of, list) else None
        return 0 if inner is None else 1 + max(map(depth, inner), default=0)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table, "PIECE", piece)
        for deepest in range(depth(content) + 2):
            patched.setattr(table, "DEEPEST", deepest)
            with pytest.raises(RecursionError) if deepest < depth(content) else nullcontext():
                table._check_depth(json.dumps(content).encode())


def test_while_a_large_body_is_read_others_are_answered(served: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    api = served(hello())
    body = b'{"a": [' + (b"[" * 60 + b"]" * 60) * 1000
    reading, go_on, check_depth = threading.Event(), threading.Event(), table._check_depth

    def slowly(body: bytes) -> None:
        reading.set()
        assert go_on.wait(60)
        check_depth(body)

    monkeypatch.setattr(table, "_check_depth", slowly)
    with ThreadPoolExecutor() as threads:
        large = threads.submit(api.ask, "POST", "/v1/responses", body)
        assert reading.wait(60)
        assert api.ask("GET", "/api").status == 200
        assert not large.done()
        go_on.set()
        assert large.result().status == 400


def test_a_large_body_is_checked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []

    def noted(steps: Any, *more: Any, **options: Any) -> Any:
        steps = list(steps)
        pieces.append(len(steps))
        return accumulate(steps, *more, **options)

    monkeypatch.setattr(table, "accumulate", noted)
    table._check_depth(b"[]" * 10 * table.PIECE)
    assert pieces == [table.PIECE] * 20


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"text"', b'{"message": 1}', b'{"message": "a", "b": 1}', b"\xff\xfe", b'{"message": "\\ud800"}', b"{}{}"],
)
def test_a_body_that_is_not_as_it_should_be_is_told(served: Serve, body: bytes) -> None:
    api = served(hello())
    api.post("/api/sessions", {"id": "s"}, 201)
    answer = api.ask("POST", "/api/sessions/s/messages", body)
    assert (answer.status, answer.error) == (400, "bad_input"), answer
    assert api.session("s")["facts"] == 1


def test_a_body_of_another_kind_is_refused(served: Serve) -> None:
    api = served(hello())
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = api.ask("POST", "/api/sessions", b'{"id": "s"}', {"content-type": kind})
        assert (answer.status, answer.error) == (400, "bad_input")
    assert api.get("/api/sessions")["sessions"] == []


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50 + b"\r\n\r\n",  # somebody tries TLS
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n",
    ],
)
def test_what_is_no_request_is_told_so_and_ends_the_connection(served: Serve, open_line: OpenLine, sent: bytes) -> None:
    line = open_line(served(hello()))
    line.socket.sendall(sent)
    answer = line.answer
    assert (answer.status, answer.error) == (400, "bad_request")
    assert all(mark in answer.headers for mark in MARKS)
    assert line.is_closed


@pytest.mark.parametrize("token", [True, False], ids=["token", "no token"])
@pytest.mark.parametrize("lengths", [TWO_LENGTHS, TWO_LENGTHS[::-1]], ids=["length first", "encoding first"])
def test_request_with_two_lengths_is_refused(served: Serve, open_line: OpenLine, lengths: tuple[str, str], token: bool) -> None:
    line = open_line(served(hello()))
    named = (f"host: {line.host}", *((f"authorization: Bearer {line.token}",) if token else ()))
    line.send("POST /api/sessions HTTP/1.1", *named, *lengths).send("0", "", "GET /api HTTP/1.1", *named)
    answer = line.answer
    assert (answer.status, answer.error) == (400, "bad_request")
    assert "not both" in answer.json["error"]["message"]
    assert all(mark in answer.headers for mark in MARKS)
    assert line.is_closed


@pytest.mark.parametrize(
    ("first", "more", "status"),
    [
        ("GET /api HTTP/1.1", "x: y\r\n" * 10_000, 431),
        ("GET /api HTTP/1.1", "x: " + "y" * 40_000 + "\r\n", 431),
        ("GET /api/" + "x" * 100_000 + " HTTP/1.1", "", 414),
        ("GET /api?search=" + "x" * 9_000 + " HTTP/1.1", "", 414),
    ],
)
def test_a_head_that_is_too_long_is_refused_whether_it_comes_at_once_or_in_pieces(
    served: Serve, open_line: OpenLine, first: str, more: str, status: int
) -> None:
    api = served(hello())
    line = open_line(api)
    line.socket.sendall(f"{first}\r\nhost: {line.host}\r\nauthorization: Bearer {line.token}\r\n{more}\r\n".encode())
    assert line.answer.status in (status, 400)  # it depends on how the system hands it over
    assert line.is_closed
    whole = f"{first}\r\nhost: {line.host}\r\nauthorization: Bearer {line.token}\r\n{more}\r\n"
    slow = open_line(api)
    for start in range(0, len(whole), 8192):
        slow.socket.sendall(whole[start : start + 8192].encode())
        if slow.was_answered:
            break
    assert slow.answer.status in (status, 400)


def test_a_request_whose_head_does_not_come_in_time_is_hung_up_on_also_if_it_is_the_second(served: Serve, open_line: OpenLine) -> None:
    api = served(hello(), limits=Limits(reading=0.2))
    assert open_line(api).send("GET /api HTTP/1.1", "host: ", end=b"").is_closed
    assert open_line(api).is_closed  # which says nothing at all
    line = open_line(api).head("GET /api HTTP/1.1")
    assert line.answer.status == 200
    assert line.send("GET /api HTTP/1.1", end=b"").is_closed


def test_a_body_that_does_not_come_in_time_is_refused(served: Serve, open_line: OpenLine) -> None:
    line = open_line(served(hello(), limits=Limits(reading=0.2)))
    line.head("POST /api/sessions HTTP/1.1", "content-type: application/json", "content-length: 100").send("{", end=b"")
    answer = line.answer
    assert (answer.status, answer.error) == (408, "too_slow")
    assert line.is_closed


def test_a_body_that_nobody_reads_keeps_no_connection_however_it_comes(served: Serve, open_line: OpenLine) -> None:
    api = served(hello(), limits=Limits(reading=0.2))
    asked = ("POST /api/sessions HTTP/1.1", f"host: {api.host}:{api.port}")  # without the token
    silent = open_line(api).send(*asked, "content-length: 10")
    assert silent.answer.status == 401
    assert silent.send("x", end=b"").is_closed
    steady = open_line(api).send(*asked, "transfer-encoding: chunked")
    assert steady.answer.status == 401

    def hung_up_on() -> bool:
        try:
            steady.send("1", "x", end=b"\r\n")
        except ConnectionError:
            return True
        return False

    eventually(hung_up_on)


def test_a_refused_body_that_comes_after_all_leaves_the_connection_as_it_was(served: Serve, open_line: OpenLine) -> None:
    api = served(hello())
    line = open_line(api).send("POST /api/sessions HTTP/1.1", f"host: {api.host}:{api.port}", "content-length: 10")
    assert line.answer.status == 401
    line.send("0123456789", end=b"").head("GET /api HTTP/1.1")
    assert line.answer.status == 200


def test_an_answer_that_nobody_takes_keeps_no_connection(served: Serve, open_line: OpenLine) -> None:
    api = served(hello(), limits=Limits(reading=0.2, connections=2))
    api.post("/api/sessions", {"id": "s"}, 201)
    for _ in range(8):
        api.post("/api/sessions/s/messages", {"message": "x" * 900_000}, 202)
    api.until("s", "waiting", "failed")
    for _ in range(2):
        line = open_line(api)
        line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.head("GET /api/sessions/s/export HTTP/1.1", "connection: close")  # and reads nothing of it

    def answered() -> bool:
        try:
            return api.ask("GET", "/api").status == 200
        except ConnectionError:
            return False

    eventually(lambda: not answered())
    eventually(answered)


def test_no_more_streams_are_open_than_may_be_and_one_that_is_left_makes_room(served: Serve, open_line: OpenLine) -> None:
    api = served(hello(), limits=Limits(streams=2))
    api.begin("Hi", "s")
    with api.events("s"), api.events("s"):
        refused = api.ask("GET", "/api/sessions/s/events")
        assert (refused.status, refused.error, refused.headers["retry-after"]) == (429, "too_many_streams", "5")
        assert api.ask("GET", "/api").status == 200  # which is none

    def one_more() -> bool:
        line = open_line(api).head("GET /api/sessions/s/events HTTP/1.1")
        status = line.socket.recv(12)
        line.close()
        return status == b"HTTP/1.1 200"

    eventually(one_more)


def test_a_stream_that_nobody_reads_is_ended_and_makes_room(served: Serve, open_line: OpenLine) -> None:
    api = served(hello(), limits=Limits(streams=1, reading=0.3))
    api.post("/api/sessions", {"id": "s"}, 201)
    for _ in range(12):
        api.post("/api/sessions/s/messages", {"message": "x" * 900_000}, 202)
    api.until("s", "waiting", "failed")
    line = open_line(api)
    line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.head("GET /api/sessions/s/events HTTP/1.1")  # and reads nothing of it

    def asked() -> bytes:
        return open_line(api).head("GET /api/sessions/s/events HTTP/1.1").socket.recv(12)

    eventually(lambda: asked() == b"HTTP/1.1 429")
    eventually(lambda: asked() == b"HTTP/1.1 200")


def test_no_more_is_asked_at_once_than_may_be(served: Serve, open_line: OpenLine) -> None:
    api = served(hello(), limits=Limits(requests=2))
    slow = [open_line(api).head("POST /api/sessions HTTP/1.1", "content-type: application/json", "content-length: 100") for _ in range(2)]
    refused = eventually(lambda: (answer := api.ask("GET", "/api")).status == 429 and answer)
    assert (refused.error, refused.headers["retry-after"]) == ("too_many_requests", "1")
    for line in slow:
        line.close()
    eventually(lambda: api.ask("GET", "/api").status == 200)


def test_no_more_connections_are_open_than_may_be(served: Serve, open_line: OpenLine) -> None:
    api = served(hello(), limits=Limits(connections=3))
    lines = [open_line(api).head("GET /api HTTP/1.1") for _ in range(3)]
    assert [line.answer.status for line in lines] == [200, 200, 200]
    assert open_line(api).is_closed
    for line in lines:
        line.close()
    line = eventually(lambda: (line := open_line(api).head("GET /api HTTP/1.1")) and line.socket.recv(12) == b"HTTP/1.1 200" and line)
    line.close()


class Failing(MemoryStore):
    """Fails as it is told."""

    error: Exception | None = None

    async def born(self, ledger: str) -> str:
        if self.error is not None:
            raise self.error
        return await super().born(ledger)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StoreUnavailable("the database is away"), 503, "unavailable"),
        (DamagedStore("some bytes changed"), 500, "damaged"),
        (RuntimeError("canary: words of the conversation"), 500, "unexpected"),
    ],
)
def test_what_goes_wrong_inside_is_told_by_its_kind_and_never_in_words_of_others(
    served: Serve, caplog: pytest.LogCaptureFixture, error: Exception, status: int, code: str
) -> None:
    store = Failing()
    api = served(hello(), store=store)
    api.begin("Hi", "s")
    store.error = error
    with caplog.at_level(logging.DEBUG):
        answer = api.ask("GET", "/api/sessions/nobody")
    assert (answer.status, answer.error) == (status, code)
    assert "canary" not in answer.body.decode() + caplog.text
    if code == "unexpected":
        assert "unexpected: RuntimeError at test_limits.py" in caplog.text
    store.error = None
    assert api.session("s")["status"] == "waiting"


def test_every_answer_is_marked(served: Serve) -> None:
    api = served(hello())
    api.begin("Hi", "s")
    for path in ("/", "/api", "/api/nothing", "/api/sessions/s", "/v1/models", "/api/sessions/s/export"):
        headers = api.ask("GET", path).headers
        assert all(mark in headers for mark in MARKS), path
        assert headers["cache-control"] == ("no-cache" if path == "/" else "no-store")
        assert "set-cookie" not in headers
        assert "server" not in headers
    with api.connection_to("GET", "/api/sessions/s/events") as stream:
        headers = {name.lower(): value for name, value in stream.getresponse().getheaders()}
        assert all(mark in headers for mark in MARKS)
        assert json.dumps(headers).count("no-store") == 1
