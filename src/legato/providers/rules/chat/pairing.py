"""Which tool message answers which call. May know: well-formed messages. Decides: nothing; it pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct


class Call(Struct, frozen=True):
    """A message with calls, the tool messages that directly follow it, and where the first other message stands, if there is one."""

    index: int
    ids: tuple[str, ...]
    answered: frozenset[str]
    next: int | None


class Answer(Struct, frozen=True):
    """A tool message. `calls`: the ids of the message it follows; None if that has no calls. `again`: another answered before."""

    index: int
    id: str
    calls: frozenset[str] | None
    again: bool = False


def answers(messages: list[dict[str, Any]]) -> Iterator[Answer | Call]:
    """Tool messages and messages with calls, in the order in which one notices that something is wrong with them."""
    index = 0
    while index < len(messages):
        ids = _calls(messages[index])
        calls = frozenset(ids) if ids else None
        start, answered = index, set[str]()
        if messages[index]["role"] != "tool":
            index += 1
        while index < len(messages) and messages[index]["role"] == "tool":
            id = messages[index]["tool_call_id"]
            yield Answer(index, id, calls, id in answered)
            answered.add(id)
            index += 1
        if ids:
            yield Call(start, ids, frozenset(answered), index if index < len(messages) else None)


def _calls(message: dict[str, Any]) -> tuple[str, ...]:
    if message["role"] != "assistant":
        return ()
    # A call of a type that is not known may have any members, where the profile lets it pass.
    return tuple(call["id"] for call in message.get("tool_calls") or () if isinstance(call.get("id"), str))


def unanswered(call: Call) -> list[str]:
    """The ids of a message's calls that no tool message answers, each once."""
    return [id for id in dict.fromkeys(call.ids) if id not in call.answered]


def text_of(message: dict[str, Any]) -> str:
    """All that a message says in words."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content or () if isinstance(part.get("text"), str))


def parts_of(messages: list[dict[str, Any]], kind: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """The parts of a kind, each with the place of its message and its own in there."""
    for index, message in enumerate(messages):
        content = message.get("content")
        for number, part in enumerate(content if isinstance(content, list) else ()):
            if part.get("type") == kind:
                yield index, number, part
