"""The rules of strict JSON schemas: every object is closed, and requires all its properties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_SCHEMA_KEYWORDS = ("items", "additionalProperties")  # the value is a schema
_SCHEMA_MAP_KEYWORDS = ("properties", "$defs", "definitions")  # the value has schemas by name
_SCHEMA_LIST_KEYWORDS = ("anyOf", "allOf", "oneOf")  # the value is a list of schemas
_MAX_DEPTH = 64  # steps; the provider's own limit is ten levels of objects


def walk_object_schemas(schema: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield every schema of an object inside a schema, with its path. Without recursion: a schema has any depth."""
    pending: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while pending:
        path, part = pending.pop()
        if not isinstance(part, dict) or len(path) > _MAX_DEPTH:
            continue
        if part.get("type") == "object" or isinstance(part.get("properties"), dict):
            yield path, part
        inner: list[tuple[tuple[str, ...], Any]] = [((*path, name), part[name]) for name in _SCHEMA_KEYWORDS if name in part]
        for name in _SCHEMA_MAP_KEYWORDS:
            if isinstance(schemas := part.get(name), dict):
                inner += [((*path, name, key), value) for key, value in schemas.items()]
        for name in _SCHEMA_LIST_KEYWORDS:
            if isinstance(options := part.get(name), list):
                inner += [((*path, name, str(index)), value) for index, value in enumerate(options)]
        pending += reversed(inner)


def describe_open_objects(schema: Any) -> Iterator[str]:
    """Yield OpenAI's message about each object that allows further properties.

    >>> list(describe_open_objects({"type": "object", "properties": {}}))
    ["In context=(), 'additionalProperties' is required to be supplied and to be false."]
    """
    for path, part in walk_object_schemas(schema):
        if part.get("additionalProperties") is not False:
            yield f"In context={path!r}, 'additionalProperties' is required to be supplied and to be false."


def describe_optional_properties(schema: Any) -> Iterator[str]:
    """Yield OpenAI's message about each property that is not required.

    >>> list(describe_optional_properties({"type": "object", "properties": {"a": {}}, "required": ["a"]}))
    []
    """
    for path, part in walk_object_schemas(schema):
        properties, required = part.get("properties"), part.get("required")
        required_names = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        for name in properties if isinstance(properties, dict) else ():
            if name not in required_names:
                yield (
                    f"In context={path!r}, 'required' is required to be supplied and to be an array including every key in properties. "
                    f"Missing '{name}'."
                )
