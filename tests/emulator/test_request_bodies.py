"""Bodies that the emulator refuses, over real sockets, with each parser of HTTP that it may run on."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from uvicorn.config import HTTP_PROTOCOLS

from legato.emulator import Emulator, serve


@pytest.fixture(params=["h11", "httptools"])
def emulator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """An emulator on each parser of HTTP: uvicorn takes httptools if it is installed."""
    monkeypatch.setitem(HTTP_PROTOCOLS, "auto", HTTP_PROTOCOLS[request.param])
    with serve() as running:
        yield running


def sent(emulator: Emulator, *headers: str, body: bytes) -> bytes:
    """Everything that comes back for a request, until the server ends the connection."""
    parts = urlsplit(emulator.url)
    head = "\r\n".join(("POST /v1/responses HTTP/1.1", "host: localhost", "authorization: Bearer k", *headers, "", ""))
    received = b""
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as line:
        line.sendall(head.encode() + body)
        with suppress(ConnectionError):
            while piece := line.recv(65536):
                received += piece
    return received


LENGTHS = ("content-length: 5", "transfer-encoding: chunked")


@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[::-1]], ids=["length first", "encoding first"])
@pytest.mark.parametrize("body", [b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n", b"hello"], ids=["chunks", "plain"])
def test_request_with_two_lengths_is_refused(emulator: Emulator, lengths: tuple[str, str], body: bytes) -> None:
    received = sent(emulator, *lengths, body=body)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1") == 1, "what stood behind it was taken for a request"
    assert b"\r\nconnection: close\r\n" in received.lower()
    assert emulator.exchanges == []


MIB = 1024 * 1024


def pieces(size: int) -> Iterator[bytes]:
    return (b" " * MIB for _ in range(size // MIB))


SENDS: dict[str, Callable[[int], bytes | Iterator[bytes]]] = {"Content-Length": lambda size: b" " * size, "chunked": pieces}


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
def test_client_that_sends_all_first_reads_the_413(emulator: Emulator, send: Callable[[int], bytes | Iterator[bytes]], path: str) -> None:
    """`http.client` reads nothing before it has sent the whole body."""
    parts = urlsplit(emulator.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.request("POST", path, send(100 * MIB), {"authorization": "Bearer k", "anthropic-version": "2023-06-01"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert json.load(answer)["error"]["message"].startswith("Request exceeds the maximum size")
    connection.close()
    assert emulator.exchanges[0].status == 413


def test_client_that_looks_reads_the_413_before_it_sends(emulator: Emulator) -> None:
    parts = urlsplit(emulator.url)
    head = ("POST /v1/responses HTTP/1.1", "host: localhost", "authorization: Bearer k", f"content-length: {100 * MIB}", "", "")
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as line:
        line.sendall("\r\n".join(head).encode())
        answer = http.client.HTTPResponse(line)
        answer.begin()
        assert (answer.status, len(answer.read()) > 0) == (413, True)


@pytest.fixture(params=["silent client", "busy client"])
def silent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a client sends nothing: each of the two is waited for a fifth of a second."""
    is_silent = bool(request.param == "silent client")
    bound = "legato.asgi.bodies.DRAIN_IDLE_SECONDS" if is_silent else "legato.emulator.running.DRAIN_SECONDS"
    monkeypatch.setattr(bound, 0.2)
    return is_silent


def send_much(line: socket.socket) -> None:
    for _ in range(3000):
        line.sendall(b" " * MIB)


def test_body_without_end_is_not_read_for_ever(silent: bool, emulator: Emulator) -> None:
    parts = urlsplit(emulator.url)
    head = ("POST /v1/responses HTTP/1.1", "host: localhost", "authorization: Bearer k", f"content-length: {2**60}", "", "")
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as line:
        line.sendall("\r\n".join(head).encode())
        if silent:
            while line.recv(65536):
                pass
        else:
            with pytest.raises(ConnectionError):
                send_much(line)
