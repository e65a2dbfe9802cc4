"""How the tests of the Chat dialect ask, and how they read a stream as a client would."""

from __future__ import annotations

from typing import Any

import msgspec
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from legato.emulator.asks import Answer, Ask
from legato.emulator.chat.dialect import ChatDialect
from legato.emulator.ids import Ids
from legato.emulator.models import Catalogue
from legato.emulator.shelf import Shelf
from legato.providers.rules.chat.laws import OPENAI, Profile

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def dialect(shelf: Shelf | None = None, profile: Profile = OPENAI) -> ChatDialect:
    return ChatDialect(shelf or Shelf(), Ids(7), profile, Catalogue())


def ask(body: dict[str, Any] | None = None, *, azure: bool = False, deployment: str = "", key: str = "sk-test-123456", **more: Any) -> Ask:
    usual = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}], **more}
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return Ask("chat", 1, body if body is not None else usual, headers, "org-test", 1_790_000_000.25, azure, deployment)


def parsed(answer: Answer) -> ChatCompletion:
    """The body as the SDK's type, strictly, after a trip over the wire."""
    return ChatCompletion.model_validate(wired(answer.body), strict=True)


def wired(body: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(body))


def chunks(answer: Answer) -> list[ChatCompletionChunk]:
    """The stream's chunks as the SDK's type, strictly; it ends as it must, and no event has a name."""
    assert answer.events[-1].data == "[DONE]"
    assert all(event.name == "" for event in answer.events)
    return [ChatCompletionChunk.model_validate(wired(event.data), strict=True) for event in answer.events[:-1]]


def accumulated(answer: Answer) -> list[dict[str, Any]]:
    """The choices that a client puts together from the stream, in the form of the body's."""
    found: dict[int, dict[str, Any]] = {}
    for chunk in chunks(answer):
        for choice in chunk.choices:
            one = found.setdefault(choice.index, {"message": {"content": None, "refusal": None}, "finish_reason": None})
            message, delta = one["message"], choice.delta
            assert one["finish_reason"] is None, "something came after the reason of the end"
            one["finish_reason"] = choice.finish_reason
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


def whole(answer: Answer) -> list[dict[str, Any]]:
    """The body's choices with what a stream can say of them."""
    return [
        {
            "message": {key: value for key, value in choice["message"].items() if key != "annotations"},
            "finish_reason": choice["finish_reason"],
        }
        for choice in answer.body["choices"]
    ]
