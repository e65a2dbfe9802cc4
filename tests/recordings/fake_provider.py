"""A provider in this process: it keeps every request byte for byte, and answers what it was last given to say.

It stands where the SDKs open connections. So everything above is real: Legato's clients, the SDKs, keys, headers and bodies.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2

from tests.recordings.answers import (
    JSON,
    Speech,
    stream_completion,
    stream_message,
    stream_response,
    write_completion,
    write_message,
    write_response,
)

Trouble = Literal["none", "busy", "broken", "forgetful", "killed"]
"""What goes wrong: nothing; every third request is refused for now; every third answer breaks off; what is named by id or was thought
is not known any more, every second time; the process is killed while every third request is under way."""

HEADERS = ("authorization", "api-key", "x-api-key", "content-type", "accept", "idempotency-key", "x-stainless-retry-count")
FAMILIES = ("openai-", "anthropic-")
NO_SPEECH = Speech(())

speech: ContextVar[Speech] = ContextVar("speech", default=NO_SPEECH)
"""What the answer to the next request of this task says."""


@dataclass
class Provider:
    """All APIs behind one address. `requests` has the bytes of every request, with its method, its path and the headers that matter."""

    trouble: Trouble = "none"
    requests: list[bytes] = field(default_factory=list)
    asked: int = 0
    made: int = 0
    named: int = 0
    kill: Callable[[], BaseException] | None = None

    def take(self, request: httpx2.Request, body: bytes) -> httpx2.Response:
        """Keep a request and answer it."""
        self.requests.append(_as_text(request, body))
        path = request.url.path
        asked: JSON = json.loads(body) if body else {}
        if path.endswith("/conversations"):
            self.made += 1
            return httpx2.Response(200, json={"id": f"conv_{self.made}", "object": "conversation", "created_at": 1, "metadata": {}})
        self.asked += 1
        if self.kill is not None and self.trouble == "killed" and self.asked % 3 == 2:
            raise self.kill()
        refused = self._refuse(path, asked)
        return refused if refused is not None else self._answer(path, asked)

    def _refuse(self, path: str, asked: JSON) -> httpx2.Response | None:
        if self.trouble == "busy" and self.asked % 3 == 1:
            return self._busy(path, asked)
        if self.trouble == "forgetful" and (text := _leans_on(asked)):
            self.named += 1
            if self.named % 2:
                return _error(400, path, *_FORGOTTEN[text])
        return None

    def _busy(self, path: str, asked: JSON) -> httpx2.Response:
        """Refuse for now, in one way after the other."""
        turn = self.asked // 3 % 4
        if turn == 3 and "conversation" in asked:
            return _error(409, path, "Another process is currently operating on this conversation.", "conversation_locked")
        status, words, code = (
            (429, "Rate limit reached.", "rate_limit_exceeded"),
            (500, "The server had an error.", "server_error"),
            (503, "The server is overloaded.", "overloaded"),
            (429, "Too many requests.", "rate_limit_exceeded"),
        )[turn]
        return _error(status, path, words, code, {"retry-after": "2"} if turn in (0, 3) else {})

    def _answer(self, path: str, asked: JSON) -> httpx2.Response:
        write, stream = _WRITERS[path.rpartition("/")[2]]
        whole = write(speech.get(), self.asked, asked)
        breaks = self.trouble == "broken" and self.asked % 3 == 1
        if not asked.get("stream"):
            if breaks:
                raise httpx2.ReadError("the connection broke")
            return httpx2.Response(200, json=whole, headers={"x-request-id": f"req_{self.asked}", "request-id": f"req_{self.asked}"})
        events = list(stream(whole))
        lines = [_event(path, each) for each in events]
        if path.endswith("/completions"):
            lines.append(b"data: [DONE]\n\n")
        if breaks:
            lines = lines[: len(lines) // 2]
        headers = {"content-type": "text/event-stream", "x-request-id": f"req_{self.asked}", "request-id": f"req_{self.asked}"}
        return httpx2.Response(200, headers=headers, content=_pieces(lines, breaks))


_WRITERS: dict[str, tuple[Any, Any]] = {
    "responses": (write_response, stream_response),
    "completions": (write_completion, stream_completion),
    "messages": (write_message, stream_message),
}

_FORGOTTEN = {
    "response": ("Previous response with id 'resp_1' not found.", "previous_response_not_found"),
    "conversation": ("Conversation with id 'conv_1' not found.", "conversation_not_found"),
    "reasoning": ("The encrypted content for item item_1_0 could not be verified.", "invalid_encrypted_content"),
    "thinking": ("messages.1.content.0: Invalid `signature` in `thinking` block", "invalid_request_error"),
}


def _leans_on(asked: JSON) -> str:
    """What a request needs the provider to know still, if anything."""
    if asked.get("previous_response_id"):
        return "response"
    if asked.get("conversation"):
        return "conversation"
    if any(isinstance(item, dict) and item.get("type") == "reasoning" for item in asked.get("input", ())):
        return "reasoning"
    blocks = [message["content"] for message in asked.get("messages", ()) if isinstance(message.get("content"), list)]
    return "thinking" if any(block.get("type") == "thinking" for content in blocks for block in content) else ""


def _error(status: int, path: str, words: str, code: str, headers: dict[str, str] | None = None) -> httpx2.Response:
    if path.endswith("/messages"):
        kind = {400: "invalid_request_error", 429: "rate_limit_error", 503: "overloaded_error"}.get(status, "api_error")
        return httpx2.Response(status, json={"type": "error", "error": {"type": kind, "message": words}}, headers=headers)
    error = {"message": words, "type": "invalid_request_error" if status == 400 else code, "param": None, "code": code}
    return httpx2.Response(status, json={"error": error}, headers=headers)


def _event(path: str, event: JSON) -> bytes:
    name = "" if path.endswith("/completions") else f"event: {event['type']}\n"
    return f"{name}data: {json.dumps(event)}\n\n".encode()


async def _pieces(lines: list[bytes], breaks: bool) -> AsyncIterator[bytes]:
    for line in lines:
        yield line
    if breaks:
        raise httpx2.ReadError("the connection broke")


def _as_text(request: httpx2.Request, body: bytes) -> bytes:
    headers = [
        f"{name.lower()}: {value}"
        for name, value in sorted(request.headers.items())
        if name.lower() in HEADERS or name.lower().startswith(FAMILIES)
    ]
    return "\n".join([f"{request.method} {request.url}", *headers, "", ""]).encode() + body


@contextmanager
def in_place_of_connections(provider: Provider) -> Iterator[None]:
    """Let every client of this process speak to this provider."""

    async def handle(transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
        return provider.take(request, await request.aread())

    async def close(transport: httpx2.AsyncHTTPTransport) -> None:
        pass

    def make(transport: httpx2.AsyncHTTPTransport, **options: Any) -> None:
        """Read no certificates: that takes longer than a conversation."""

    changes = {"__init__": make, "handle_async_request": handle, "aclose": close}
    real = {name: getattr(httpx2.AsyncHTTPTransport, name) for name in changes}
    for name, change in changes.items():
        setattr(httpx2.AsyncHTTPTransport, name, change)
    try:
        yield
    finally:
        for name, method in real.items():
            setattr(httpx2.AsyncHTTPTransport, name, method)
