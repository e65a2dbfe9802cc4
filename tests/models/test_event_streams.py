"""Streamed replies over real HTTP, as providers and gateways send them: how lines end, when a reply ends, and what cannot be read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from legato.core.facts import Usage, Words
from legato.errors import ModelFailed
from legato.models import Anthropic, OpenAIChat, OpenAIResponses
from tests.models.chats import asked
from tests.models.raw_server import raw_server

MODELS: dict[str, Any] = {
    "responses": lambda url, **more: OpenAIResponses("m", base_url=f"{url}/v1", api_key="any", timeout=60.0, **more),
    "chat": lambda url, **more: OpenAIChat("m", base_url=f"{url}/v1", api_key="any", timeout=60.0, **more),
    "anthropic": lambda url, **more: Anthropic("m", base_url=url, api_key="any", timeout=60.0, **more),
}
MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi!", "annotations": []}]}
RESPONSE = {"id": "resp_1", "status": "completed", "model": "m", "output": [MESSAGE]}
EVENTS: dict[str, list[Any]] = {
    "responses": [{"type": "response.output_text.delta", "delta": "Hi!"}, {"type": "response.completed", "response": RESPONSE}],
    "chat": [{"choices": [{"index": 0, "delta": {"content": "Hi!"}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}, "[DONE]"],
    "anthropic": [
        {"type": "message_start", "message": {"type": "message", "role": "assistant", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi!"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
}


def written(events: list[Any], end: bytes = b"\n") -> bytes:
    """Events as they are sent, with lines that end so."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return b"".join(b"data: " + text.encode() + end + end for text in texts)


def chunked(body: bytes) -> bytes:
    """A part of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(body), body)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["no mark", "byte order mark"])
@pytest.mark.parametrize("end", [b"\r", b"\r\n"], ids=["CR", "CRLF"])
async def test_every_line_end_is_understood(model: str, start: bytes, end: bytes) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunked(start + written(EVENTS[model], end)) + chunked(b""))

    async with raw_server(answer) as server:
        made = MODELS[model](server.url)
        reply, heard = await asked(made)
        await made.close()
    assert ([item.text for item in reply.items if isinstance(item, Words)], heard) == (["Hi!"], "Hi!")


class HeldOpen:
    """Sends events and never ends the stream; it looks whether its client hangs up once the test has had its reply."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events
        self.replied = asyncio.Event()

    async def __call__(self, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunked(written(self._events)))
        await self.replied.wait()


@pytest.mark.parametrize("model", MODELS)
async def test_reply_ends_at_its_last_event(model: str) -> None:
    answer = HeldOpen(EVENTS[model])
    async with raw_server(answer) as server:
        made = MODELS[model](server.url)
        reply, heard = await asked(made)
        answer.replied.set()
        await server.all_closed()
        await made.close()
    assert ([item.text for item in reply.items if isinstance(item, Words)], heard) == (["Hi!"], "Hi!")


INCOMPLETE = {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


async def test_incomplete_response_ends_the_reply() -> None:
    answer = HeldOpen([{"type": "response.incomplete", "response": INCOMPLETE}])
    async with raw_server(answer) as server:
        made = MODELS["responses"](server.url)
        reply, _ = await asked(made)
        answer.replied.set()
        await made.close()
    assert reply.finish == "length"


BROKEN = {"type": "server_error", "code": "server_error", "message": "it broke"}
FAILED = {"id": "resp_1", "status": "failed", "error": BROKEN, "usage": {"input_tokens": 7, "output_tokens": 2}}
FAILURES: dict[str, tuple[str, list[Any]]] = {
    "response.failed": ("responses", [{"type": "response.failed", "response": FAILED}]),
    "error alone": ("responses", [{"type": "error", "error": BROKEN}]),
    "error of Chat Completions": ("chat", [{"error": BROKEN}]),
    "error of Anthropic": ("anthropic", [{"type": "error", "error": BROKEN}]),
}


@pytest.mark.parametrize(("model", "events"), FAILURES.values(), ids=FAILURES)
async def test_failure_in_a_stream_ends_the_request(model: str, events: list[Any]) -> None:
    answer = HeldOpen(events)
    async with raw_server(answer) as server:
        made = MODELS[model](server.url)
        with pytest.raises(ModelFailed, match="it broke"):
            await asked(made)
        answer.replied.set()
        await server.all_closed()
        await made.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a stream that comes is waited for, however busy this machine is."""
    monkeypatch.setattr("legato.models.sdk.STREAM_END_SECONDS", 20.0)


def whole_stream(events: list[Any]) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """Answers with these events, and ends the stream."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + chunked(written(events)) + chunked(b""))

    return answer


async def test_usage_that_follows_an_error_is_counted(patient: None) -> None:
    events = [{"type": "error", "error": BROKEN}, {"type": "response.failed", "response": FAILED}]
    async with raw_server(whole_stream(events)) as server:
        made = MODELS["responses"](server.url)
        with pytest.raises(ModelFailed, match="it broke") as failed:
            await asked(made)
        await made.close()
    assert failed.value.usage == Usage(input=7, output=2)


@pytest.mark.parametrize("model", MODELS)
async def test_connection_of_an_ended_stream_is_used_again(model: str, patient: None) -> None:
    async with raw_server(whole_stream(EVENTS[model])) as server:
        made = MODELS[model](server.url)
        for _ in range(3):
            await asked(made)
        await made.close()
        assert (server.requests, server.connections) == (3, 1)


@pytest.mark.parametrize("model", MODELS)
async def test_nothing_after_the_last_event_counts(model: str, patient: None) -> None:
    async with raw_server(whole_stream([*EVENTS[model], {"type": "error", "error": BROKEN}, "junk"])) as server:
        made = MODELS[model](server.url)
        reply, _ = await asked(made)
        await made.close()
    assert [item.text for item in reply.items if isinstance(item, Words)] == ["Hi!"]


UNREADABLE = {
    "NaN": (b'{"type": NaN}', "invalid character (byte 9)"),
    "minus infinity": (b'{"type": -Infinity}', "invalid character (byte 10)"),
    "number out of range": (b'{"type": 1e999}', "Number out of range"),
    "high surrogate": (b'{"type": "a\\ud83d"}', "half of a surrogate pair at byte 11"),
    "high surrogate and more": (b'{"type": "a\\ud83d and a long text"}', "half of a surrogate pair at byte 11"),
    "low surrogate": (b'{"type": "\\\\\\ude00 and a long text"}', "half of a surrogate pair at byte 12"),
    "pair, then a half": (b'{"type": "\\ud83d\\ude00\\ude00 and a long text"}', "half of a surrogate pair at byte 22"),
    "no UTF-8": (b'{"type": "a\xff"}', "no UTF-8 at byte 11"),
    "cut off": (b'{"type": "a', "cut off at byte 11"),
    "nested too deep": (b"[" * 100_000, "nested too deep"),
}
NAMES = {"responses": "openai:m", "chat": "openai-chat:m", "anthropic": "anthropic:m"}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("data", "fault"), UNREADABLE.values(), ids=UNREADABLE)
async def test_unreadable_event_is_named_with_its_position(model: str, data: bytes, fault: str) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        body = b": comment\n\n" + written(EVENTS[model][:1]) + b"data: " + data + b"\n\n"
        writer.write(HEAD + chunked(body) + chunked(b""))

    async with raw_server(answer) as server:
        made = MODELS[model](server.url)
        with pytest.raises(ModelFailed) as failed:
            await asked(made)
        await made.close()
    start = f"{NAMES[model]}: event 2 of the stream: the provider sent something that is no JSON ({fault}"
    assert failed.value.summary.startswith(start)
    assert failed.value.retryable


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("data", "fault"), UNREADABLE.values(), ids=UNREADABLE)
async def test_unreadable_body_is_named_with_its_position(model: str, data: bytes, fault: str) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)

    async with raw_server(answer) as server:
        made = MODELS[model](server.url, stream=False)
        with pytest.raises(ModelFailed) as failed:
            await asked(made)
        await made.close()
    assert failed.value.summary.startswith(f"{NAMES[model]}: the provider sent something that is no JSON ({fault}")
