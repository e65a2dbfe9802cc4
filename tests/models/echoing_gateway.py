"""A local gateway that fails, and repeats what it was sent in its errors: headers and path, plain, URL-encoded and in base64."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import quote

Failure = Literal[
    "refusal", "error in words", "error in a reply", "error event", "unreadable", "cut in the middle", "no answer", "redirect", "odd code"
]
FAILURES: tuple[Failure, ...] = Failure.__args__  # type: ignore[attr-defined]
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "url": lambda text: quote(text, safe=""),
    "base64": lambda text: b64encode(text.encode()).decode(),
    "url-safe base64": lambda text: urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 in a url": lambda text: quote(b64encode(text.encode()).decode(), safe=""),
}


class EchoingGateway:
    """Answers each request with the failure that is set."""

    def __init__(self) -> None:
        self.failure: Failure = "refusal"
        self.encode: Callable[[str], str] = str
        self.port = 0
        self.requests: list[str] = []  # their heads

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and fail."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.requests.append(head)
        length = next((int(line.partition(":")[2]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0)
        await reader.readexactly(length)
        writer.write(self._response(head))
        writer.close()

    def _response(self, head: str) -> bytes:
        first, *headers = head.strip().split("\r\n")
        values = [line.partition(": ")[2] for line in headers]
        repeated = [self.encode(each) for each in (head, first.split(" ")[1], *values, *(value.partition(" ")[2] for value in values))]
        message = "not allowed: " + " ".join(each for each in repeated if each)
        error = {"type": "invalid", "message": message}
        match self.failure:
            case "refusal":
                return _http(401, json.dumps({"type": "error", "error": error}))
            case "error in words":
                return _http(500, f"<p>{message}</p>", "text/html")
            case "error in a reply":
                return _http(200, json.dumps({"type": "error", "error": error, "status": "failed"}))
            case "error event":
                return _http(200, f"event: error\ndata: {json.dumps({'type': 'error', 'error': error})}\n\n", "text/event-stream")
            case "unreadable":
                return _http(200, "data: " + message.replace("\r\n", " ") + "\n\n", "text/event-stream")
            case "cut in the middle":
                return _http(200, f"data: {message}", "text/event-stream").replace(b"Content-Length: ", b"Content-Length: 9")
            case "no answer":
                return b"HTTP/1.1 " + message.replace("\r\n", " ").encode() + b"\r\n\r\n"
            case "redirect":
                moved = "/" not in first.split(" ")[1].removeprefix("/moved")
                return _http(403, message, "text/plain") if moved else _http(307, "", "text/plain", "Location: /moved\r\n")
            case "odd code":
                return _http(400, json.dumps({"type": "error", "error": {"type": message, "code": message, "message": "no"}}))


def _http(status: int, body: str, kind: str = "application/json", more: str = "") -> bytes:
    data = body.encode()
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n{more}Connection: close\r\n\r\n".encode() + data


@asynccontextmanager
async def serve_gateway() -> AsyncIterator[EchoingGateway]:
    """Run a gateway on a free port."""
    gateway = EchoingGateway()
    server = await asyncio.start_server(gateway.answer, "127.0.0.1", 0)
    gateway.port = server.sockets[0].getsockname()[1]
    async with server:
        yield gateway
