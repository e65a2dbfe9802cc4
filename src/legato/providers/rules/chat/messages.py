"""The calls, tool messages, texts and parts of a well-formed conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct


class MessageWithCalls(Struct, frozen=True):
    """An assistant message with calls, and the tool messages that directly follow it."""

    index: int
    ids: tuple[str, ...]
    answered_ids: frozenset[str]
    next_index: int | None  # the first message after the tool messages; None: there is none


class ToolMessage(Struct, frozen=True):
    """A tool message, and the calls of the message before it."""

    index: int
    call_id: str
    preceding_ids: frozenset[str] | None  # None: the message before it has no calls
    is_repeated: bool = False  # an earlier tool message answers the same call


def pair_calls_with_outputs(messages: list[dict[str, Any]]) -> Iterator[ToolMessage | MessageWithCalls]:
    """Yield tool messages and messages with calls. A message with calls comes after its tool messages: then its missing ones are known."""
    index = 0
    while index < len(messages):
        ids = _list_call_ids(messages[index])
        preceding_ids = frozenset(ids) if ids else None
        start, answered_ids = index, set[str]()
        if messages[index]["role"] != "tool":
            index += 1
        while index < len(messages) and messages[index]["role"] == "tool":
            id = messages[index]["tool_call_id"]
            yield ToolMessage(index, id, preceding_ids, id in answered_ids)
            answered_ids.add(id)
            index += 1
        if ids:
            yield MessageWithCalls(start, ids, frozenset(answered_ids), index if index < len(messages) else None)


def _list_call_ids(message: dict[str, Any]) -> tuple[str, ...]:
    if message["role"] != "assistant":
        return ()
    # A call of an unknown type may have any members, where the switches let it pass.
    return tuple(call["id"] for call in message.get("tool_calls") or () if isinstance(call.get("id"), str))


def list_unanswered_ids(message: MessageWithCalls) -> list[str]:
    """Return the ids of a message's calls that no tool message answers, each once."""
    return [id for id in dict.fromkeys(message.ids) if id not in message.answered_ids]


def join_text(message: dict[str, Any]) -> str:
    """Return all text of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content or () if isinstance(part.get("text"), str))


def find_parts(messages: list[dict[str, Any]], part_type: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the parts of a type, each with the index of its message and its index in the content."""
    for index, message in enumerate(messages):
        content = message.get("content")
        for number, part in enumerate(content if isinstance(content, list) else ()):
            if part.get("type") == part_type:
                yield index, number, part
