"""Takes a body apart into its members, to say which of them are found again elsewhere, and which are not.

A member is named by its path, with the types of the objects on the way: `output[function_call].namespace`. Null, empty texts and empty
lists say nothing and are no members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

WORDS = ("text", "content", "refusal", "thinking", "reasoning", "reasoning_content", "summary", "transcript")
"""Members that hold words. Their texts may be found under any of these names, and as a part of a longer text."""

JSON_TEXTS = ("notes", "extra", "body", "arguments", "input", "encrypted")
"""Members that hold JSON as text."""

OTHER_NAMES = {
    "name": ("tool",),
    "id": ("call_id", "item_id", "response_id"),
    "encrypted_content": ("encrypted",),
    "signature": ("encrypted",),
    "data": ("encrypted",),
    "input": ("arguments",),
}
"""The names under which a member of a provider's body is recorded or sent, besides its own."""


class Member(Struct, frozen=True):
    """One value of a body, and where it stands."""

    path: str
    name: str
    value: str | int | float | bool


def members_of(value: Any, path: str = "", name: str = "") -> Iterator[Member]:
    """All values in some JSON. Elements of a list are told apart by their type, and by nothing else."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from members_of(member, f"{path}.{key}" if path else key, key)
    elif isinstance(value, list | tuple):
        for element in value:
            kind = element.get("type") if isinstance(element, dict) else None
            yield from members_of(element, f"{path}[{kind if isinstance(kind, str) else ''}]", name)
    elif value is not None and value != "":
        yield Member(path, name, value)


class Values:
    """The members of what was recorded or sent, to look others up in by name and value."""

    def __init__(self, parts: Iterable[Any]) -> None:
        self._pairs: set[tuple[str, Any]] = set()
        self._words: list[str] = []
        for part in parts:
            self._add(msgspec.to_builtins(part))

    def _add(self, value: Any) -> None:
        for member in members_of(value):
            self._pairs.add((member.name, member.value))
            if isinstance(member.value, str):
                if member.name in WORDS:
                    self._words.append(member.value)
                if member.name in JSON_TEXTS:
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
        return member.name in WORDS and isinstance(member.value, str) and any(member.value in words for words in self._words)


def matches(path: str, pattern: str) -> bool:
    """Whether a path is one that a pattern means; `*` stands for anything.

    >>> matches("output[message].status", "output[*].status")
    True
    """
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), path) is not None
