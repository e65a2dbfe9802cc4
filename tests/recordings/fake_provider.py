"""A fake provider in this process: it records every request byte for byte, and answers with the content that was set last.

It replaces the transport of httpx2. So everything above is real: Legato's clients, the SDKs, keys, headers and bodies.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2

from tests.recordings.reply_bodies import (
    JSON,
    AnswerContent,
    stream_completion,
    stream_message,
    stream_response,
    write_completion,
    write_message,
    write_response,
)

FaultMode = Literal["none", "busy", "broken", "forgetful", "killed"]
"""The faults: none; every third request is refused temporarily (busy); every third answer breaks off (broken); every second request that
names an id or has reasoning is refused, because that is no longer known (forgetful); the process is killed during every third request."""

RECORDED_HEADERS = ("authorization", "api-key", "x-api-key", "content-type", "accept", "idempotency-key", "x-stainless-retry-count")
RECORDED_HEADER_PREFIXES = ("openai-", "anthropic-")
NO_CONTENT = AnswerContent(())

next_content: ContextVar[AnswerContent] = ContextVar("next_content", default=NO_CONTENT)
"""The content of the answer to the next request of this task."""


@dataclass
class FakeProvider:
    """All APIs behind one address. `requests` has every request: its method, its URL, the headers in `RECORDED_HEADERS`, and its body."""

    fault_mode: FaultMode = "none"
    requests: list[bytes] = field(default_factory=list)
    reply_request_count: int = 0
    conversation_count: int = 0
    dependent_request_count: int = 0
    kill_process: Callable[[], BaseException] | None = None

    def handle_request(self, request: httpx2.Request, body: bytes) -> httpx2.Response:
        """Record a request and answer it."""
        self.requests.append(_encode_request(request, body))
        path = request.url.path
        body_json: JSON = json.loads(body) if body else {}
        if path.endswith("/conversations"):
            self.conversation_count += 1
            return httpx2.Response(
                200, json={"id": f"conv_{self.conversation_count}", "object": "conversation", "created_at": 1, "metadata": {}}
            )
        self.reply_request_count += 1
        if self.kill_process is not None and self.fault_mode == "killed" and self.reply_request_count % 3 == 2:
            raise self.kill_process()
        refused = self._make_refusal(path, body_json)
        return refused if refused is not None else self._make_answer(path, body_json)

    def _make_refusal(self, path: str, body_json: JSON) -> httpx2.Response | None:
        if self.fault_mode == "busy" and self.reply_request_count % 3 == 1:
            return self._make_temporary_refusal(path, body_json)
        if self.fault_mode == "forgetful" and (text := _find_needed_state(body_json)):
            self.dependent_request_count += 1
            if self.dependent_request_count % 2:
                return _make_error(400, path, *_LOST_STATE_ERRORS[text])
        return None

    def _make_temporary_refusal(self, path: str, body_json: JSON) -> httpx2.Response:
        """Return a temporary refusal; the kinds of refusals take turns."""
        turn = self.reply_request_count // 3 % 4
        if turn == 3 and "conversation" in body_json:
            return _make_error(409, path, "Another process is currently operating on this conversation.", "conversation_locked")
        status, message, code = (
            (429, "Rate limit reached.", "rate_limit_exceeded"),
            (500, "The server had an error.", "server_error"),
            (503, "The server is overloaded.", "overloaded"),
            (429, "Too many requests.", "rate_limit_exceeded"),
        )[turn]
        return _make_error(status, path, message, code, {"retry-after": "2"} if turn in (0, 3) else {})

    def _make_answer(self, path: str, body_json: JSON) -> httpx2.Response:
        write, stream = _WRITERS[path.rpartition("/")[2]]
        whole = write(next_content.get(), self.reply_request_count, body_json)
        breaks_off = self.fault_mode == "broken" and self.reply_request_count % 3 == 1
        if not body_json.get("stream"):
            if breaks_off:
                raise httpx2.ReadError("the connection broke")
            return httpx2.Response(
                200,
                json=whole,
                headers={"x-request-id": f"req_{self.reply_request_count}", "request-id": f"req_{self.reply_request_count}"},
            )
        events = list(stream(whole))
        lines = [_encode_event(path, each) for each in events]
        if path.endswith("/completions"):
            lines.append(b"data: [DONE]\n\n")
        if breaks_off:
            lines = lines[: len(lines) // 2]
        headers = {
            "content-type": "text/event-stream",
            "x-request-id": f"req_{self.reply_request_count}",
            "request-id": f"req_{self.reply_request_count}",
        }
        return httpx2.Response(200, headers=headers, content=_stream_lines(lines, breaks_off))


_WRITERS: dict[str, tuple[Any, Any]] = {
    "responses": (write_response, stream_response),
    "completions": (write_completion, stream_completion),
    "messages": (write_message, stream_message),
}

_LOST_STATE_ERRORS = {
    "response": ("Previous response with id 'resp_1' not found.", "previous_response_not_found"),
    "conversation": ("Conversation with id 'conv_1' not found.", "conversation_not_found"),
    "reasoning": ("The encrypted content for item item_1_0 could not be verified.", "invalid_encrypted_content"),
    "thinking": ("messages.1.content.0: Invalid `signature` in `thinking` block", "invalid_request_error"),
}


def _find_needed_state(body_json: JSON) -> str:
    """Return the kind of provider state that a request depends on; empty if none."""
    if body_json.get("previous_response_id"):
        return "response"
    if body_json.get("conversation"):
        return "conversation"
    if any(isinstance(item, dict) and item.get("type") == "reasoning" for item in body_json.get("input", ())):
        return "reasoning"
    blocks = [message["content"] for message in body_json.get("messages", ()) if isinstance(message.get("content"), list)]
    return "thinking" if any(block.get("type") == "thinking" for content in blocks for block in content) else ""


def _make_error(status: int, path: str, message: str, code: str, headers: dict[str, str] | None = None) -> httpx2.Response:
    if path.endswith("/messages"):
        kind = {400: "invalid_request_error", 429: "rate_limit_error", 503: "overloaded_error"}.get(status, "api_error")
        return httpx2.Response(status, json={"type": "error", "error": {"type": kind, "message": message}}, headers=headers)
    error = {"message": message, "type": "invalid_request_error" if status == 400 else code, "param": None, "code": code}
    return httpx2.Response(status, json={"error": error}, headers=headers)


def _encode_event(path: str, event: JSON) -> bytes:
    name = "" if path.endswith("/completions") else f"event: {event['type']}\n"
    return f"{name}data: {json.dumps(event)}\n\n".encode()


async def _stream_lines(lines: list[bytes], breaks_off: bool) -> AsyncIterator[bytes]:
    for line in lines:
        yield line
    if breaks_off:
        raise httpx2.ReadError("the connection broke")


def _encode_request(request: httpx2.Request, body: bytes) -> bytes:
    headers = [
        f"{name.lower()}: {value}"
        for name, value in sorted(request.headers.items())
        if name.lower() in RECORDED_HEADERS or name.lower().startswith(RECORDED_HEADER_PREFIXES)
    ]
    return "\n".join([f"{request.method} {request.url}", *headers, "", ""]).encode() + body


@contextmanager
def connect_clients_to(provider: FakeProvider) -> Iterator[None]:
    """Send the requests of every client in this process to this provider until the block ends."""

    async def handle(transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
        return provider.handle_request(request, await request.aread())

    async def close(transport: httpx2.AsyncHTTPTransport) -> None:
        pass

    def initialize(transport: httpx2.AsyncHTTPTransport, **options: Any) -> None:
        """Read no certificates: that takes longer than a conversation."""

    changes = {"__init__": initialize, "handle_async_request": handle, "aclose": close}
    real = {name: getattr(httpx2.AsyncHTTPTransport, name) for name in changes}
    for name, change in changes.items():
        setattr(httpx2.AsyncHTTPTransport, name, change)
    try:
        yield
    finally:
        for name, method in real.items():
            setattr(httpx2.AsyncHTTPTransport, name, method)
