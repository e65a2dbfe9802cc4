"""Reading JSON without trust: a value of another type than the wanted one counts as absent."""

from __future__ import annotations

from typing import Any

import msgspec
import pydantic_core


def as_object(value: Any) -> dict[str, Any]:
    """Return an object, or an empty one.

    >>> as_object([1])
    {}
    """
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return an array, or an empty one."""
    return value if isinstance(value, list) else []


def as_objects(value: Any) -> list[dict[str, Any]]:
    """Return an array's members, each as an object."""
    return [as_object(member) for member in as_list(value)]


def as_string(value: Any) -> str:
    """Return a string, or an empty one."""
    return value if isinstance(value, str) else ""


def as_integer(value: Any) -> int | None:
    """Return a whole number, or None. Python's booleans are no numbers here."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def encode_json_or_empty(value: Any) -> str:
    """Encode a JSON value; empty if it is nested too deeply."""
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError:
        return ""


def parse_partial_json(text: str) -> Any:
    """Decode JSON text that may be cut short: the result has what is complete in it. None: it is no JSON.

    >>> parse_partial_json('{"city": "Oslo", "days": [1, 2')
    {'city': 'Oslo', 'days': [1, 2]}
    """
    try:
        return pydantic_core.from_json(text, allow_partial=True)
    except ValueError:
        return None
