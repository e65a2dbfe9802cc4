"""A client that sends too much reads why, whether it says how much or not; the server keeps none of it and reads only so long."""

from __future__ import annotations

import http.client
import socket
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from legato import Agent, HandoffBuilder
from legato.server.limits import Limits
from legato.testing import ScriptedModel
from tests.server.asking import Answer, Client
from tests.server.conftest import Serve

MIB = 1024 * 1024
PIECE = b" " * MIB
SENDS: dict[str, Callable[[int], Any]] = {
    "Content-Length": lambda pieces: PIECE * pieces,
    "chunked": lambda pieces: (PIECE for _ in range(pieces)),
}


def hello() -> Any:
    return HandoffBuilder("hello", [Agent("clerk", model=ScriptedModel(["Hello!"]))]).build()


@pytest.fixture
def api(served: Serve) -> Client:
    return served(hello(), limits=Limits(body=1000, files=5000))


def posted(api: Client, path: str, body: Any, **headers: str) -> Answer:
    """What `http.client` gets, which reads nothing before it has sent the whole body."""
    connection = api.connection()
    try:
        connection.request("POST", path, body, {"authorization": f"Bearer {api.token}", "content-type": "application/json", **headers})
        return Answer(connection.getresponse())
    finally:
        connection.close()


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
@pytest.mark.parametrize("path", ["/api/sessions/s/cancel", "/api/sessions", "/v1/responses", "/agui"])
def test_client_that_sends_all_first_reads_the_413(api: Client, path: str, send: Callable[[int], Any]) -> None:
    answer = posted(api, path, send(50))
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert "too much in one request" in str(answer.json)
    assert api.ask("GET", "/api").status == 200


def test_client_that_sends_all_first_reads_the_414(api: Client) -> None:
    answer = posted(api, "/api/sessions?x=" + "x" * 9000, PIECE * 50)
    assert (answer.status, answer.error) == (414, "too_long")


def test_client_that_looks_reads_the_413_while_it_sends(api: Client) -> None:
    """Over a bare socket: the answer is whole before the body is."""
    head = ("POST /api/sessions HTTP/1.1", f"host: {api.host}:{api.port}", f"authorization: Bearer {api.token}")
    with socket.create_connection((api.host, api.port), timeout=60) as line:
        line.sendall("\r\n".join((*head, f"content-length: {50 * MIB}", "", "")).encode() + PIECE)
        response = http.client.HTTPResponse(line)
        response.begin()
        answer = Answer(response)
        assert (answer.status, answer.error) == (413, "too_large")
        for _ in range(49):
            line.sendall(PIECE)
        assert line.recv(1) == b""  # the connection ends, and is not reset


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
def test_refused_body_is_not_kept_in_memory(api: Client, send: Callable[[int], Any]) -> None:
    body = send(200)
    tracemalloc.start()
    try:
        answer = posted(api, "/api/sessions", body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status == 413
    assert peak < 8 * MIB


def send_much(line: socket.socket) -> None:
    for _ in range(3000):
        line.sendall(PIECE)


@pytest.mark.parametrize("silent", [True, False], ids=["silent client", "busy client"])
def test_refused_body_without_end_is_not_read_for_ever(served: Serve, monkeypatch: pytest.MonkeyPatch, silent: bool) -> None:
    monkeypatch.setattr("legato.asgi.bodies.DRAIN_IDLE_SECONDS", 0.2 if silent else 60.0)
    api = served(hello(), limits=Limits(body=1000, reading=60.0 if silent else 0.2))
    head = ("POST /api/sessions/s/cancel HTTP/1.1", f"host: {api.host}:{api.port}", f"authorization: Bearer {api.token}")
    with socket.create_connection((api.host, api.port), timeout=60) as line:
        line.sendall("\r\n".join((*head, f"content-length: {2**60}", "", "")).encode())
        if silent:
            while line.recv(65536):
                pass
        else:
            with pytest.raises(ConnectionError):
                send_much(line)


def test_body_that_is_refused_at_its_last_byte_ends_at_once(served: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing left to wait for."""
    monkeypatch.setattr("legato.asgi.bodies.DRAIN_IDLE_SECONDS", 60.0)
    api = served(hello(), limits=Limits(body=1000))
    head = ("POST /api/sessions/s/cancel HTTP/1.1", f"host: {api.host}:{api.port}", f"authorization: Bearer {api.token}")
    body = b"3e9\r\n" + b" " * 1001 + b"\r\n0\r\n\r\n"
    with socket.create_connection((api.host, api.port), timeout=60) as line:
        line.sendall("\r\n".join((*head, "content-type: application/json", "transfer-encoding: chunked", "", "")).encode() + body)
        received = b""
        while piece := line.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 413 ")
