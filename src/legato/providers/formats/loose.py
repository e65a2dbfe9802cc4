"""Reading what a provider sent without trusting it. May know: JSON. Decides: what stands for a member that is missing or odd."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from legato.errors import ModelFailed

_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
"""An escape in a JSON string; of one that names a code unit, its digits."""


def json_of(data: bytes | str) -> Any:
    """What the bytes say; `ModelFailed` if they are no JSON, with the position of what is wrong."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        sent = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        shown = sent[:80].decode("utf-8", "replace")
        raise ModelFailed(f"the provider sent something that is no JSON ({_fault(sent, error)}): {shown!r}", retryable=True) from error


def _fault(data: bytes, error: Exception) -> str:
    """What is wrong with a text that is no JSON, and at which byte. The decoder does not always say where."""
    try:
        data.decode()
    except UnicodeDecodeError as wrong:
        return f"no UTF-8 at byte {wrong.start}"
    if isinstance(error, RecursionError):
        return "nested too deep"
    told = str(error).removeprefix("JSON is malformed: ")
    if "truncated" not in told and "surrogate" not in told:
        return told
    at = _lone_surrogate(data)
    return f"cut off at byte {len(data)}" if at is None else f"half of a surrogate pair at byte {at}"


def _lone_surrogate(data: bytes) -> int | None:
    """Where the first escape stands that is half of a surrogate pair without the other.

    >>> _lone_surrogate(rb'"\\ud83d\\ude00 \\\\ud83d"'), _lone_surrogate(rb'"a\\ude00"')
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


def text(value: Any) -> str:
    """A string, or none."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> int:
    """A count, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def mapping(value: Any) -> dict[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def object_in(written: str) -> dict[str, Any]:
    """The object that a JSON text holds, or an empty one.

    >>> object_in('{"a": 1}'), object_in(""), object_in("no JSON")
    ({'a': 1}, {}, {})
    """
    try:
        return mapping(msgspec.json.decode(written)) if written else {}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def json_text(value: Any) -> str:
    """Something as JSON text, the same every time."""
    return msgspec.json.encode(value, order="deterministic").decode()
