"""The members of JSON bodies, to look up which members of one body occur in another.

A member is named by its path, with the types of the objects on the way: `output[function_call].namespace`. Null, empty texts and empty
lists are no members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

TEXT_MEMBERS = ("text", "content", "refusal", "thinking", "reasoning", "reasoning_content", "summary", "transcript")
"""Members with text. Their texts may occur under any of these names, and as a part of a longer text."""

JSON_TEXT_MEMBERS = ("notes", "extra", "body", "arguments", "input", "encrypted")
"""Members with JSON as text."""

OTHER_NAMES = {
    "name": ("tool",),
    "id": ("call_id", "item_id", "response_id"),
    "encrypted_content": ("encrypted",),
    "signature": ("encrypted",),
    "data": ("encrypted",),
    "input": ("arguments",),
}
"""Further names under which a member of a provider's body is recorded or sent."""


class Member(Struct, frozen=True):
    """One value of a body, and its path."""

    path: str
    name: str
    value: str | int | float | bool


def list_members(value: Any, path: str = "", name: str = "") -> Iterator[Member]:
    """Yield all values in a JSON value. The path of a list element has its type, and no index."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from list_members(member, f"{path}.{key}" if path else key, key)
    elif isinstance(value, list | tuple):
        for element in value:
            kind = element.get("type") if isinstance(element, dict) else None
            yield from list_members(element, f"{path}[{kind if isinstance(kind, str) else ''}]", name)
    elif value is not None and value != "":
        yield Member(path, name, value)


class MemberIndex:
    """An index of the members of recorded or sent values, by name and value."""

    def __init__(self, parts: Iterable[Any]) -> None:
        self._pairs: set[tuple[str, Any]] = set()
        self._texts: list[str] = []
        for part in parts:
            self._add(msgspec.to_builtins(part))

    def _add(self, value: Any) -> None:
        for member in list_members(value):
            self._pairs.add((member.name, member.value))
            if isinstance(member.value, str):
                if member.name in TEXT_MEMBERS:
                    self._texts.append(member.value)
                if member.name in JSON_TEXT_MEMBERS:
                    self._add_json(member.value)

    def _add_json(self, text: str) -> None:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict | list):
            self._add(value)

    def __contains__(self, member: Member) -> bool:
        if any((name, member.value) in self._pairs for name in (member.name, *OTHER_NAMES.get(member.name, ()))):
            return True
        return member.name in TEXT_MEMBERS and isinstance(member.value, str) and any(member.value in text for text in self._texts)


def matches_pattern(path: str, pattern: str) -> bool:
    """Return True if a path matches a pattern; `*` matches anything.

    >>> matches("output[message].status", "output[*].status")
    True
    """
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), path) is not None
