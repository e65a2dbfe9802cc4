"""How the tests of the Anthropic dialect ask, and how they read a stream as a client would."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from legato.emulator.anthropic.dialect import AnthropicDialect
from legato.emulator.asks import Answer, Ask
from legato.emulator.ids import Ids
from legato.emulator.models import Catalogue
from legato.emulator.seal import Seal
from legato.providers.rules.anthropic.laws import Profile

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
WEATHER = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ADAPTIVE = {"type": "adaptive"}
BETA = "thinking-binding-controls-2026-08-01"
HEADERS = {"x-api-key": "sk-ant-test", "anthropic-version": "2023-06-01"}


def dialect(key: bytes = b"key") -> AnthropicDialect:
    return AnthropicDialect(Ids(7), Seal(key), Profile(), Catalogue())


def ask(body: dict[str, Any] | None = None, *, headers: dict[str, str] | None = None, account: str = "org-test", **more: Any) -> Ask:
    usual = {"model": "claude-sonnet-5", "max_tokens": 1000, "messages": [{"role": "user", "content": "Hello"}], **more}
    return Ask("anthropic", 1, body if body is not None else usual, HEADERS if headers is None else headers, account, 1_790_000_000.25)


def wired(body: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body))


def parsed(answer: Answer) -> Message:
    """The body as the SDK's type, strictly, after a trip over the wire."""
    return Message.model_validate(wired(answer.body), strict=True)


def accumulated(answer: Answer) -> dict[str, Any]:
    """The message that a client puts together from the stream, every event of which is one the SDK knows."""
    assert all(isinstance(event.data, dict) and event.name == event.data["type"] for event in answer.events)
    message: dict[str, Any] = {}
    arguments = ""
    for event in map(wired, (event.data for event in answer.events)):
        if event["type"] == "ping":  # the SDK leaves it out of its types
            continue
        EVENT.validate_python(event, strict=True)
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
                arguments = ""
            case "content_block_delta":
                block, delta = message["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case "input_json_delta":
                        arguments += delta["partial_json"]
            case "content_block_stop":
                if message["content"][event["index"]]["type"] == "tool_use":
                    message["content"][event["index"]]["input"] = json.loads(arguments or "{}")
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
                message |= {name: value for name, value in event.items() if name not in ("type", "delta", "usage")}
    return message


def names(answer: Answer) -> list[str]:
    """The events, and the kinds of their deltas, one of each run."""
    told: list[str] = []
    for event in answer.events:
        data = wired(event.data)
        name = data["delta"]["type"] if event.name == "content_block_delta" else event.name
        if not told or told[-1] != name or name.startswith("content_block_st"):
            told.append(name)
    return told
