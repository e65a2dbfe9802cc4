"""JSON with the places where things stand, so that bytes can be compared, and not only what they mean."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

Span = tuple[int, int]

_value_at = json.JSONDecoder().raw_decode
_between = re.compile(r"[ \t\n\r,:]*")


def members(text: str, at: int = 0) -> dict[str, Span]:
    """Where the values of an object stand, by name and in order. `at`: where it begins."""
    found: dict[str, Span] = {}
    values = _values(text, at)
    for begin, end in values:
        name: str = json.loads(text[begin:end])
        assert name not in found, f"the member {name!r} stands there twice"
        found[name] = next(values)
    return found


def elements(text: str, at: int = 0) -> list[Span]:
    """Where the elements of an array stand. `at`: where it begins."""
    return list(_values(text, at))


def _values(text: str, at: int) -> Iterator[Span]:
    """All values directly within the object or array that begins here; of an object, names and values in turn."""
    place = _skip(text, at + 1)
    while text[place] not in "]}":
        _, end = _value_at(text, place)
        yield place, end
        place = _skip(text, end)


def _skip(text: str, at: int) -> int:
    match = _between.match(text, at)
    assert match is not None
    return match.end()
