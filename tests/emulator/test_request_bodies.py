"""Rejected request bodies over real sockets, with each HTTP parser of uvicorn."""

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
    """An emulator on each HTTP parser. uvicorn uses httptools if it is installed."""
    monkeypatch.setitem(HTTP_PROTOCOLS, "auto", HTTP_PROTOCOLS[request.param])
    with serve() as emulator:
        yield emulator


def send_request(emulator: Emulator, *headers: str, body: bytes) -> bytes:
    """Send a request and return all bytes until the server closes the connection."""
    parts = urlsplit(emulator.url)
    head = "\r\n".join(("POST /v1/responses HTTP/1.1", "host: localhost", "authorization: Bearer k", *headers, "", ""))
    received = b""
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        connection.sendall(head.encode() + body)
        with suppress(ConnectionError):
            while piece := connection.recv(65536):
                received += piece
    return received


LENGTHS = ("content-length: 5", "transfer-encoding: chunked")


@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[::-1]], ids=["length first", "encoding first"])
@pytest.mark.parametrize("body", [b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n", b"hello"], ids=["chunks", "plain"])
def test_request_with_two_lengths_is_rejected(emulator: Emulator, lengths: tuple[str, str], body: bytes) -> None:
    received = send_request(emulator, *lengths, body=body)
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1") == 1, "the bytes after it were read as a request"
    assert b"\r\nconnection: close\r\n" in received.lower()
    assert emulator.exchanges == []


MIB = 1024 * 1024


def make_chunks(size: int) -> Iterator[bytes]:
    return (b" " * MIB for _ in range(size // MIB))


BODY_MAKERS: dict[str, Callable[[int], bytes | Iterator[bytes]]] = {"Content-Length": lambda size: b" " * size, "chunked": make_chunks}


@pytest.mark.parametrize("make_body", BODY_MAKERS.values(), ids=BODY_MAKERS)
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
def test_client_sending_everything_first_reads_413(
    emulator: Emulator, make_body: Callable[[int], bytes | Iterator[bytes]], path: str
) -> None:
    """`http.client` reads nothing before it has sent the whole body."""
    parts = urlsplit(emulator.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.request("POST", path, make_body(100 * MIB), {"authorization": "Bearer k", "anthropic-version": "2023-06-01"})
    response = connection.getresponse()
    assert (response.status, response.headers["connection"]) == (413, "close")
    assert json.load(response)["error"]["message"].startswith("Request exceeds the maximum size")
    connection.close()
    assert emulator.exchanges[0].status == 413


def test_client_can_read_413_before_sending(emulator: Emulator) -> None:
    parts = urlsplit(emulator.url)
    head = ("POST /v1/responses HTTP/1.1", "host: localhost", "authorization: Bearer k", f"content-length: {100 * MIB}", "", "")
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        connection.sendall("\r\n".join(head).encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert (response.status, len(response.read()) > 0) == (413, True)


@pytest.fixture(params=["silent client", "busy client"])
def is_silent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """True for a client that sends nothing. The server waits a fifth of a second for either client."""
    is_silent = bool(request.param == "silent client")
    target = "legato.asgi.request_bodies.DRAIN_IDLE_TIMEOUT_S" if is_silent else "legato.emulator.server.DRAIN_TIMEOUT_S"
    monkeypatch.setattr(target, 0.2)
    return is_silent


def send_for_long(connection: socket.socket) -> None:
    for _ in range(3000):
        connection.sendall(b" " * MIB)


def test_endless_body_is_not_read_forever(is_silent: bool, emulator: Emulator) -> None:
    parts = urlsplit(emulator.url)
    head = ("POST /v1/responses HTTP/1.1", "host: localhost", "authorization: Bearer k", f"content-length: {2**60}", "", "")
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        connection.sendall("\r\n".join(head).encode())
        if is_silent:
            while connection.recv(65536):
                pass
        else:
            with pytest.raises(ConnectionError):
                send_for_long(connection)
