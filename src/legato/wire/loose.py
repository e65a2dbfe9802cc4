"""Reading what a provider sent without trusting it. May know: JSON. Decides: what stands for a member that is missing or odd."""

from __future__ import annotations

from typing import Any

import msgspec

from legato.errors import ModelFailed


def json_of(data: bytes | str) -> Any:
    """What the bytes say; `ModelFailed` if they are no JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        shown = data[:80] if isinstance(data, str) else data[:80].decode("utf-8", "replace")
        raise ModelFailed(f"the provider sent something that is no JSON: {shown!r}", retryable=True) from error


def text(value: Any) -> str:
    """A string, or none."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> int:
    """A count, or 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def mapping(value: Any) -> dict[str, Any]:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def json_text(value: Any) -> str:
    """Something as JSON text, the same every time."""
    return msgspec.json.encode(value, order="deterministic").decode()
