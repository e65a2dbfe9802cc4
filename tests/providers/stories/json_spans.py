"""Positions of values in a JSON text, for comparing their bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

Span = tuple[int, int]

_value_at = json.JSONDecoder().raw_decode
_between = re.compile(r"[ \t\n\r,:]*")


def member_spans(text: str, at: int = 0) -> dict[str, Span]:
    """Return the spans of an object's values, by name and in order. `at`: the position of the object."""
    spans: dict[str, Span] = {}
    values = _value_spans(text, at)
    for begin, end in values:
        name: str = json.loads(text[begin:end])
        assert name not in spans, f"the member {name!r} is repeated"
        spans[name] = next(values)
    return spans


def element_spans(text: str, at: int = 0) -> list[Span]:
    """Return the spans of an array's elements. `at`: the position of the array."""
    return list(_value_spans(text, at))


def _value_spans(text: str, at: int) -> Iterator[Span]:
    """Yield the spans of all direct values of an object or array; of an object, names and values in turn."""
    place = _skip_separators(text, at + 1)
    while text[place] not in "]}":
        _, end = _value_at(text, place)
        yield place, end
        place = _skip_separators(text, end)


def _skip_separators(text: str, at: int) -> int:
    match = _between.match(text, at)
    assert match is not None
    return match.end()
