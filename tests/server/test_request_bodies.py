"""Clients that send too large a body get the error response; the server does not store the body, and reads it only for a limited time."""

from __future__ import annotations

import http.client
import socket
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from legato import Agent, HandoffBuilder
from legato.server.request_limits import RequestLimits
from legato.testing import ScriptedModel
from tests.server.api_client import ApiClient, ApiResponse
from tests.server.conftest import Serve

MIB = 1024 * 1024
CHUNK = b" " * MIB
BODY_FACTORIES: dict[str, Callable[[int], Any]] = {
    "Content-Length": lambda pieces: CHUNK * pieces,
    "chunked": lambda pieces: (CHUNK for _ in range(pieces)),
}


def make_workflow() -> Any:
    return HandoffBuilder("hello", [Agent("clerk", model=ScriptedModel(["Hello!"]))]).build()


@pytest.fixture
def api(serve_workflows: Serve) -> ApiClient:
    return serve_workflows(make_workflow(), limits=RequestLimits(max_body_bytes=1000, max_upload_bytes=5000))


def post_body(api: ApiClient, path: str, body: Any, **headers: str) -> ApiResponse:
    """Return the response that `http.client` gets, which sends the whole body before it reads."""
    connection = api.connect()
    try:
        connection.request("POST", path, body, {"authorization": f"Bearer {api.token}", "content-type": "application/json", **headers})
        return ApiResponse(connection.getresponse())
    finally:
        connection.close()


@pytest.mark.parametrize("send", BODY_FACTORIES.values(), ids=BODY_FACTORIES)
@pytest.mark.parametrize("path", ["/api/sessions/s/cancel", "/api/sessions", "/v1/responses", "/agui"])
def test_client_that_sends_first_reads_413(api: ApiClient, path: str, send: Callable[[int], Any]) -> None:
    answer = post_body(api, path, send(50))
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert "the request body is too large" in str(answer.json)
    assert api.request("GET", "/api").status == 200


def test_client_that_sends_first_reads_414(api: ApiClient) -> None:
    answer = post_body(api, "/api/sessions?x=" + "x" * 9000, CHUNK * 50)
    assert (answer.status, answer.error) == (414, "too_long")


def test_client_can_read_413_while_sending(api: ApiClient) -> None:
    """Over a raw socket: the response is complete before the body."""
    head = ("POST /api/sessions HTTP/1.1", f"host: {api.host}:{api.port}", f"authorization: Bearer {api.token}")
    with socket.create_connection((api.host, api.port), timeout=60) as line:
        line.sendall("\r\n".join((*head, f"content-length: {50 * MIB}", "", "")).encode() + CHUNK)
        response = http.client.HTTPResponse(line)
        response.begin()
        answer = ApiResponse(response)
        assert (answer.status, answer.error) == (413, "too_large")
        for _ in range(49):
            line.sendall(CHUNK)
        assert line.recv(1) == b""  # the connection ends, and is not reset


@pytest.mark.parametrize("send", BODY_FACTORIES.values(), ids=BODY_FACTORIES)
def test_refused_body_is_not_kept_in_memory(api: ApiClient, send: Callable[[int], Any]) -> None:
    body = send(200)
    tracemalloc.start()
    try:
        answer = post_body(api, "/api/sessions", body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status == 413
    assert peak < 8 * MIB


def send_much(line: socket.socket) -> None:
    for _ in range(3000):
        line.sendall(CHUNK)


@pytest.mark.parametrize("silent", [True, False], ids=["silent client", "busy client"])
def test_endless_refused_body_is_read_only_briefly(serve_workflows: Serve, monkeypatch: pytest.MonkeyPatch, silent: bool) -> None:
    monkeypatch.setattr("legato.asgi.request_bodies.DRAIN_IDLE_TIMEOUT_S", 0.2 if silent else 60.0)
    api = serve_workflows(make_workflow(), limits=RequestLimits(max_body_bytes=1000, io_timeout=60.0 if silent else 0.2))
    head = ("POST /api/sessions/s/cancel HTTP/1.1", f"host: {api.host}:{api.port}", f"authorization: Bearer {api.token}")
    with socket.create_connection((api.host, api.port), timeout=60) as line:
        line.sendall("\r\n".join((*head, f"content-length: {2**60}", "", "")).encode())
        if silent:
            while line.recv(65536):
                pass
        else:
            with pytest.raises(ConnectionError):
                send_much(line)


def test_body_refused_at_last_byte_ends_at_once(serve_workflows: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing left to wait for."""
    monkeypatch.setattr("legato.asgi.request_bodies.DRAIN_IDLE_TIMEOUT_S", 60.0)
    api = serve_workflows(make_workflow(), limits=RequestLimits(max_body_bytes=1000))
    head = ("POST /api/sessions/s/cancel HTTP/1.1", f"host: {api.host}:{api.port}", f"authorization: Bearer {api.token}")
    body = b"3e9\r\n" + b" " * 1001 + b"\r\n0\r\n\r\n"
    with socket.create_connection((api.host, api.port), timeout=60) as line:
        line.sendall("\r\n".join((*head, "content-type: application/json", "transfer-encoding: chunked", "", "")).encode() + body)
        received = b""
        while piece := line.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 413 ")
