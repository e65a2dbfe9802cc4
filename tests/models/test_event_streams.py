"""Streamed replies over real HTTP, as providers and gateways send them: how lines end, when a reply ends, and what cannot be read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from legato.core.facts import Words
from legato.models import Anthropic, OpenAIChat, OpenAIResponses
from tests.models.chats import asked
from tests.models.raw_server import raw_server

MODELS: dict[str, Any] = {
    "responses": lambda url: OpenAIResponses("m", base_url=f"{url}/v1", api_key="any"),
    "chat": lambda url: OpenAIChat("m", base_url=f"{url}/v1", api_key="any"),
    "anthropic": lambda url: Anthropic("m", base_url=url, api_key="any"),
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
