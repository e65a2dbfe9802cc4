"""Requests for the tests of the chat adapter, and streams read as a client reads them."""

from __future__ import annotations

from typing import Any

import msgspec
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from legato.emulator.chat.adapter import ChatAdapter
from legato.emulator.ids import IdGenerator
from legato.emulator.model_catalogue import ModelCatalogue
from legato.emulator.request_types import ApiReply, EmulatorRequest
from legato.emulator.storage import ProviderStorage
from legato.providers.rules.chat.rules import OPENAI, ChatRuleSwitches

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def make_adapter(storage: ProviderStorage | None = None, switches: ChatRuleSwitches = OPENAI) -> ChatAdapter:
    return ChatAdapter(storage or ProviderStorage(), IdGenerator(7), switches, ModelCatalogue())


def make_request(
    body: dict[str, Any] | None = None, *, is_azure: bool = False, deployment: str = "", key: str = "sk-test-123456", **more: Any
) -> EmulatorRequest:
    body_defaults = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}], **more}
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return EmulatorRequest(
        "chat", 1, body if body is not None else body_defaults, headers, "org-test", 1_790_000_000.25, is_azure, deployment
    )


def parse_completion(reply: ApiReply) -> ChatCompletion:
    """Parse the encoded body strictly as the SDK's type."""
    return ChatCompletion.model_validate(json_roundtrip(reply.body), strict=True)


def json_roundtrip(body: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body))


def parse_chunks(reply: ApiReply) -> list[ChatCompletionChunk]:
    """Parse the stream's chunks strictly as the SDK's type. The stream ends with `[DONE]`, and no event has a name."""
    assert reply.events[-1].data == "[DONE]"
    assert all(event.name == "" for event in reply.events)
    return [ChatCompletionChunk.model_validate(json_roundtrip(event.data), strict=True) for event in reply.events[:-1]]


def accumulate_choices(reply: ApiReply) -> list[dict[str, Any]]:
    """Accumulate the stream's choices as a client does, in the form of the body's."""
    found: dict[int, dict[str, Any]] = {}
    for chunk in parse_chunks(reply):
        for choice in chunk.choices:
            built = found.setdefault(choice.index, {"message": {"content": None, "refusal": None}, "finish_reason": None})
            message, delta = built["message"], choice.delta
            assert built["finish_reason"] is None, "a chunk came after the finish reason"
            built["finish_reason"] = choice.finish_reason
            if delta.role:
                message["role"] = delta.role
            for name in ("content", "refusal"):
                if (piece := getattr(delta, name)) is not None:
                    message[name] = (message[name] or "") + piece
            if delta.function_call:
                call = message.setdefault("function_call", {"name": "", "arguments": ""})
                call["name"] += delta.function_call.name or ""
                call["arguments"] += delta.function_call.arguments or ""
            for part in delta.tool_calls or ():
                calls = message.setdefault("tool_calls", [])
                if part.index == len(calls):
                    assert part.id, "the first piece of a call has its id"
                    assert part.function, "the first piece of a call names the tool"
                    calls.append({"id": part.id, "type": part.type, "function": {"name": part.function.name, "arguments": ""}})
                else:
                    assert (part.id, part.type) == (None, None)
                calls[part.index]["function"]["arguments"] += part.function.arguments if part.function else ""
    return [found[index] for index in sorted(found)]


def list_choices(reply: ApiReply) -> list[dict[str, Any]]:
    """Return the body's choices with the members that a stream has."""
    return [
        {
            "message": {key: value for key, value in choice["message"].items() if key != "annotations"},
            "finish_reason": choice["finish_reason"],
        }
        for choice in reply.body["choices"]
    ]
