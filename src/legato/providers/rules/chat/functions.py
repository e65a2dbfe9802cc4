"""What the schema of a function or of structured output must look like. May know: JSON Schema. Decides: where one is not strict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def open_objects(schema: dict[str, Any]) -> Iterator[str]:
    """What keeps a schema from being strict, outermost first, each as the rest of a sentence.

    >>> list(open_objects({"type": "object", "properties": {}}))
    ["In context=(), 'additionalProperties' is required to be supplied and to be false."]
    """
    # A stack instead of recursion: a schema may nest deeper than Python's frames.
    waiting: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while waiting:
        context, part = waiting.pop()
        if not isinstance(part, dict):
            continue
        properties = part.get("properties")
        if part.get("type") == "object" or isinstance(properties, dict):
            where = f"In context={context}"
            if part.get("additionalProperties") is not False:
                yield f"{where}, 'additionalProperties' is required to be supplied and to be false."
            elif isinstance(properties, dict) and (absent := _not_required(properties, part.get("required"))):
                told = "'required' is required to be supplied and to be an array including every key in properties."
                yield f"{where}, {told} Missing '{absent}'."
        waiting.extend(reversed(list(_parts(context, part))))


def _not_required(properties: dict[str, Any], required: Any) -> str:
    named = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    return next((name for name in properties if name not in named), "")


def _parts(context: tuple[str, ...], schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    # Deeper than this nobody reads the context, and its length would make the whole quadratic.
    below = context if len(context) < 40 else context[:40]
    for keyword in ("properties", "$defs", "definitions"):
        members = schema.get(keyword)
        if isinstance(members, dict):
            for name, part in members.items():
                yield (*below, keyword, name), part
    yield (*below, "items"), schema.get("items")
    for keyword in ("anyOf", "allOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list):
            for index, part in enumerate(options):
                yield (*below, keyword, str(index)), part
