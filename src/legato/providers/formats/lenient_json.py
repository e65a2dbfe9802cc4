"""Lenient access to JSON from a provider: a member that is missing or of the wrong type reads as an empty value."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from legato.errors import ModelFailed

_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
"""An escape in a JSON string. Group 1: the digits of a code unit."""


def decode_json(data: bytes | str) -> Any:
    """Decode JSON. `ModelFailed` says what is wrong and at which byte."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        encoded = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        problem, excerpt = _describe_error(encoded, error), encoded[:80].decode("utf-8", "replace")
        raise ModelFailed(f"the provider sent invalid JSON ({problem}): {excerpt!r}", retryable=True) from error


def _describe_error(data: bytes, error: Exception) -> str:
    """Return what is wrong with an invalid JSON text, and at which byte. The decoder does not always name the byte."""
    try:
        data.decode()
    except UnicodeDecodeError as problem:
        return f"no UTF-8 at byte {problem.start}"
    if isinstance(error, RecursionError):
        return "nested too deep"
    message = str(error).removeprefix("JSON is malformed: ")
    if "truncated" not in message and "surrogate" not in message:
        return message
    at = _find_lone_surrogate(data)
    return f"cut off at byte {len(data)}" if at is None else f"half of a surrogate pair at byte {at}"


def _find_lone_surrogate(data: bytes) -> int | None:
    """Return the position of the first escape that is one half of a surrogate pair without the other half; None if there is none.

    >>> _find_lone_surrogate(rb'"\\ud83d\\ude00 \\\\ud83d"'), _find_lone_surrogate(rb'"a\\ude00"')
    (None, 2)
    """
    high: re.Match[bytes] | None = None
    for escape in _ESCAPE.finditer(data):
        code = int(escape[1] or b"0", 16)
        if high is not None and not (escape.start() == high.end() and 0xDC00 <= code < 0xE000):
            return high.start()
        if high is None and 0xDC00 <= code < 0xE000:
            return escape.start()
        high = escape if 0xD800 <= code < 0xDC00 else None
    return None if high is None else high.start()


def as_text(value: Any) -> str:
    """Return a string; an empty one for any other value."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    """Return a positive integer; 0 for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def parse_object(json_text: str) -> dict[str, Any]:
    """Return the object in a JSON text; an empty one if it has none.

    >>> parse_object('{"a": 1}'), parse_object(""), parse_object("no JSON")
    ({'a': 1}, {}, {})
    """
    try:
        return as_object(msgspec.json.decode(json_text)) if json_text else {}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}


def as_objects(value: Any) -> list[dict[str, Any]]:
    """Return the JSON objects in a list; none for any other value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def to_json(value: Any) -> str:
    """Return a value as JSON text, deterministically."""
    return msgspec.json.encode(value, order="deterministic").decode()
