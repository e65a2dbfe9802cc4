"""Requests for the tests of the Anthropic adapter, and streams read as a client reads them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from legato.emulator.anthropic.adapter import AnthropicAdapter
from legato.emulator.encrypted_content import ContentCipher
from legato.emulator.ids import IdGenerator
from legato.emulator.model_catalogue import ModelCatalogue
from legato.emulator.request_types import ApiReply, EmulatorRequest
from legato.providers.rules.anthropic.rules import AnthropicRuleSwitches

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
WEATHER = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ADAPTIVE = {"type": "adaptive"}
BETA = "thinking-binding-controls-2026-08-01"
HEADERS = {"x-api-key": "sk-ant-test", "anthropic-version": "2023-06-01"}


def make_adapter(key: bytes = b"key") -> AnthropicAdapter:
    return AnthropicAdapter(IdGenerator(7), ContentCipher(key), AnthropicRuleSwitches(), ModelCatalogue())


def make_request(
    body: dict[str, Any] | None = None, *, headers: dict[str, str] | None = None, account: str = "org-test", **more: Any
) -> EmulatorRequest:
    body_defaults = {"model": "claude-sonnet-5", "max_tokens": 1000, "messages": [{"role": "user", "content": "Hello"}], **more}
    return EmulatorRequest(
        "anthropic", 1, body if body is not None else body_defaults, HEADERS if headers is None else headers, account, 1_790_000_000.25
    )


def json_roundtrip(body: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body))


def parse_message(reply: ApiReply) -> Message:
    """Parse the encoded body strictly as the SDK's type."""
    return Message.model_validate(json_roundtrip(reply.body), strict=True)


def accumulate_message(reply: ApiReply) -> dict[str, Any]:
    """Accumulate the stream's message as a client does. The SDK must know every event."""
    assert all(isinstance(event.data, dict) and event.name == event.data["type"] for event in reply.events)
    message: dict[str, Any] = {}
    arguments = ""
    for event in map(json_roundtrip, (event.data for event in reply.events)):
        if event["type"] == "ping":  # the SDK has no type for it
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


def list_event_names(reply: ApiReply) -> list[str]:
    """Return the names of the events and the types of the deltas, each run once."""
    found: list[str] = []
    for event in reply.events:
        data = json_roundtrip(event.data)
        name = data["delta"]["type"] if event.name == "content_block_delta" else event.name
        if not found or found[-1] != name or name.startswith("content_block_st"):
            found.append(name)
    return found
