"""Streamed replies over real HTTP, as providers and gateways send them: line ends, ends of replies, invalid events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from legato.core.facts import OutputText, Usage
from legato.errors import ModelFailed
from legato.models import Anthropic, OpenAIChat, OpenAIResponses
from tests.models.chat_fixtures import request_reply
from tests.models.raw_server import serve_raw

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


def encode_events(events: list[Any], end: bytes = b"\n") -> bytes:
    """Return events as they are sent, with these line ends."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return b"".join(b"data: " + text.encode() + end + end for text in texts)


def encode_chunk(body: bytes) -> bytes:
    """Return one chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(body), body)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["no mark", "byte order mark"])
@pytest.mark.parametrize("end", [b"\r", b"\r\n"], ids=["CR", "CRLF"])
async def test_every_line_end_is_understood(api: str, start: bytes, end: bytes) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + encode_chunk(start + encode_events(EVENTS[api], end)) + encode_chunk(b""))

    async with serve_raw(answer) as server:
        model = MODELS[api](server.url)
        reply, deltas = await request_reply(model)
        await model.close()
    assert ([item.text for item in reply.items if isinstance(item, OutputText)], deltas) == (["Hi!"], "Hi!")


class OpenStreamAnswer:
    """An answer of these events whose stream does not end before the test has its reply."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events
        self.replied = asyncio.Event()

    async def __call__(self, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + encode_chunk(encode_events(self._events)))
        await self.replied.wait()


@pytest.mark.parametrize("api", MODELS)
async def test_reply_ends_at_its_last_event(api: str) -> None:
    answer = OpenStreamAnswer(EVENTS[api])
    async with serve_raw(answer) as server:
        model = MODELS[api](server.url)
        reply, deltas = await request_reply(model)
        answer.replied.set()
        await server.wait_until_closed()
        await model.close()
    assert ([item.text for item in reply.items if isinstance(item, OutputText)], deltas) == (["Hi!"], "Hi!")


INCOMPLETE = {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


async def test_incomplete_response_ends_the_reply() -> None:
    answer = OpenStreamAnswer([{"type": "response.incomplete", "response": INCOMPLETE}])
    async with serve_raw(answer) as server:
        model = MODELS["responses"](server.url)
        reply, _ = await request_reply(model)
        answer.replied.set()
        await model.close()
    assert reply.finish == "length"


BROKEN = {"type": "server_error", "code": "server_error", "message": "it broke"}
FAILED = {"id": "resp_1", "status": "failed", "error": BROKEN, "usage": {"input_tokens": 7, "output_tokens": 2}}
FAILURE_STREAMS: dict[str, tuple[str, list[Any]]] = {
    "response.failed": ("responses", [{"type": "response.failed", "response": FAILED}]),
    "error alone": ("responses", [{"type": "error", "error": BROKEN}]),
    "error of Chat Completions": ("chat", [{"error": BROKEN}]),
    "error of Anthropic": ("anthropic", [{"type": "error", "error": BROKEN}]),
}


@pytest.mark.parametrize(("api", "events"), FAILURE_STREAMS.values(), ids=FAILURE_STREAMS)
async def test_failure_in_a_stream_ends_the_request(api: str, events: list[Any]) -> None:
    answer = OpenStreamAnswer(events)
    async with serve_raw(answer) as server:
        model = MODELS[api](server.url)
        with pytest.raises(ModelFailed, match="it broke"):
            await request_reply(model)
        answer.replied.set()
        await server.wait_until_closed()
        await model.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait long enough for the end of a stream, even on a busy machine."""
    monkeypatch.setattr("legato.models.sdk_client.STREAM_END_TIMEOUT_S", 20.0)


def answer_stream(events: list[Any]) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    """Return an answer of these events, with the end of the stream."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + encode_chunk(encode_events(events)) + encode_chunk(b""))

    return answer


async def test_usage_that_follows_an_error_is_counted(patient: None) -> None:
    events = [{"type": "error", "error": BROKEN}, {"type": "response.failed", "response": FAILED}]
    async with serve_raw(answer_stream(events)) as server:
        model = MODELS["responses"](server.url)
        with pytest.raises(ModelFailed, match="it broke") as failed:
            await request_reply(model)
        await model.close()
    assert failed.value.usage == Usage(input=7, output=2)


@pytest.mark.parametrize("api", MODELS)
async def test_connection_of_an_ended_stream_is_used_again(api: str, patient: None) -> None:
    async with serve_raw(answer_stream(EVENTS[api])) as server:
        model = MODELS[api](server.url)
        for _ in range(3):
            await request_reply(model)
        await model.close()
        assert (server.requests, server.connections) == (3, 1)


@pytest.mark.parametrize("api", MODELS)
async def test_nothing_after_the_last_event_counts(api: str, patient: None) -> None:
    async with serve_raw(answer_stream([*EVENTS[api], {"type": "error", "error": BROKEN}, "junk"])) as server:
        model = MODELS[api](server.url)
        reply, _ = await request_reply(model)
        await model.close()
    assert [item.text for item in reply.items if isinstance(item, OutputText)] == ["Hi!"]


INVALID_EVENTS = {
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
MODEL_NAMES = {"responses": "openai:m", "chat": "openai-chat:m", "anthropic": "anthropic:m"}


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize(("data", "fault"), INVALID_EVENTS.values(), ids=INVALID_EVENTS)
async def test_unreadable_event_is_named_with_its_position(api: str, data: bytes, fault: str) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        body = b": comment\n\n" + encode_events(EVENTS[api][:1]) + b"data: " + data + b"\n\n"
        writer.write(HEAD + encode_chunk(body) + encode_chunk(b""))

    async with serve_raw(answer) as server:
        model = MODELS[api](server.url)
        with pytest.raises(ModelFailed) as failed:
            await request_reply(model)
        await model.close()
    start = f"{MODEL_NAMES[api]}: event 2 of the stream: the provider sent invalid JSON ({fault}"
    assert failed.value.summary.startswith(start)
    assert failed.value.retryable


@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize(("data", "fault"), INVALID_EVENTS.values(), ids=INVALID_EVENTS)
async def test_unreadable_body_is_named_with_its_position(api: str, data: bytes, fault: str) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)

    async with serve_raw(answer) as server:
        model = MODELS[api](server.url, stream=False)
        with pytest.raises(ModelFailed) as failed:
            await request_reply(model)
        await model.close()
    assert failed.value.summary.startswith(f"{MODEL_NAMES[api]}: the provider sent invalid JSON ({fault}")
