"""JSON read without trust: what is not of the kind that is asked for counts as absent. May know: nothing. Decides: nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pydantic_core


def mapping(value: Any) -> dict[str, Any]:
    """An object, or an empty one.

    >>> mapping([1])
    {}
    """
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """An array, or an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[dict[str, Any]]:
    """An array's members, each as an object."""
    return [mapping(member) for member in listing(value)]


def string(value: Any) -> str:
    """A string, or an empty one."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int | None:
    """A whole number; Python's booleans are none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_text(value: Any) -> str:
    """Any JSON value as text; empty if it is nested too deeply to be written."""
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return ""


def from_text(text: str) -> Any:
    """What a JSON text says, as far as it goes: a text that was cut short gives what is complete in it. None: it is no JSON.

    >>> from_text('{"city": "Oslo", "days": [1, 2')
    {'city': 'Oslo', 'days': [1, 2]}
    """
    try:
        return pydantic_core.from_json(text, allow_partial=True)
    except ValueError:
        return None
