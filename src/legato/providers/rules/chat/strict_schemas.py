"""The rules of strict JSON schemas, for functions and structured outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def describe_strict_mode_problems(schema: dict[str, Any]) -> Iterator[str]:
    """Yield OpenAI's messages about a schema that is not strict, outermost first.

    >>> list(describe_strict_mode_problems({"type": "object", "properties": {}}))
    ["In context=(), 'additionalProperties' is required to be supplied and to be false."]
    """
    # A stack instead of recursion: a schema may nest deeper than Python's frames.
    pending: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while pending:
        path, part = pending.pop()
        if not isinstance(part, dict):
            continue
        properties = part.get("properties")
        if part.get("type") == "object" or isinstance(properties, dict):
            place = f"In context={path}"
            if part.get("additionalProperties") is not False:
                yield f"{place}, 'additionalProperties' is required to be supplied and to be false."
            elif isinstance(properties, dict) and (name := _find_optional_property(properties, part.get("required"))):
                message = "'required' is required to be supplied and to be an array including every key in properties."
                yield f"{place}, {message} Missing '{name}'."
        pending.extend(reversed(list(_list_subschemas(path, part))))


def _find_optional_property(properties: dict[str, Any], required: Any) -> str:
    required_names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return next((name for name in properties if name not in required_names), "")


def _list_subschemas(path: tuple[str, ...], schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    # A longer path helps no reader, and its length would make the whole quadratic.
    path = path if len(path) < 40 else path[:40]
    for keyword in ("properties", "$defs", "definitions"):
        members = schema.get(keyword)
        if isinstance(members, dict):
            for name, part in members.items():
                yield (*path, keyword, name), part
    yield (*path, "items"), schema.get("items")
    for keyword in ("anyOf", "allOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list):
            for index, part in enumerate(options):
                yield (*path, keyword, str(index)), part
