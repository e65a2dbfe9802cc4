"""Bodies that the emulator refuses, over real sockets, with each parser of HTTP that it may run on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from uvicorn.config import HTTP_PROTOCOLS

from legato.emulator import Emulator, serve


@pytest.fixture(params=["h11", "httptools"])
def emulator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """An emulator on each parser of HTTP: uvicorn takes httptools where it is installed."""
    pytest.importorskip(request.param)
    monkeypatch.setitem(HTTP_PROTOCOLS, "auto", HTTP_PROTOCOLS[request.param])
    with serve() as running:
        yield running


def sent(emulator: Emulator, *headers: str, body: bytes) -> bytes:
    """Everything that comes back for a request, until the server ends the connection."""
    parts = urlsplit(emulator.url)
    head = "\r\n".join(("POST /v1/responses HTTP/1.1", "host: localhost", "authorization: Bearer k", *headers, "", ""))
    received = b""
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as line:
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
