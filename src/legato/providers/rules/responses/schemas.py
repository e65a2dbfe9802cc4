"""Strict JSON schemas. May know: nothing. Decides: whether a schema leaves anything open that strict mode wants closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_ONE = ("items", "additionalProperties")  # members that hold one schema
_MANY = ("properties", "$defs", "definitions")  # members that hold schemas by name
_LISTS = ("anyOf", "allOf", "oneOf")  # members that hold schemas in a row
_DEEPEST = 64  # steps; the provider's own limit is ten levels of objects


def objects(schema: Any) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every schema of an object in this schema, with the way to it. Without recursion: a schema may be as deep as its sender likes."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while waiting:
        way, here = waiting.pop()
        if not isinstance(here, dict) or len(way) > _DEEPEST:
            continue
        if here.get("type") == "object" or isinstance(here.get("properties"), dict):
            yield way, here
        inner: list[tuple[tuple[str, ...], Any]] = [((*way, name), here[name]) for name in _ONE if name in here]
        for name in _MANY:
            if isinstance(named := here.get(name), dict):
                inner += [((*way, name, key), value) for key, value in named.items()]
        for name in _LISTS:
            if isinstance(row := here.get(name), list):
                inner += [((*way, name, str(index)), value) for index, value in enumerate(row)]
        waiting += reversed(inner)


def not_closed(schema: Any) -> Iterator[str]:
    """What strict mode says about an object that other properties might be added to.

    >>> list(not_closed({"type": "object", "properties": {}}))
    ["In context=(), 'additionalProperties' is required to be supplied and to be false."]
    """
    for way, here in objects(schema):
        if here.get("additionalProperties") is not False:
            yield f"In context={way!r}, 'additionalProperties' is required to be supplied and to be false."


def not_required(schema: Any) -> Iterator[str]:
    """What strict mode says about a property that is not required.

    >>> list(not_required({"type": "object", "properties": {"a": {}}, "required": ["a"]}))
    []
    """
    for way, here in objects(schema):
        properties, required = here.get("properties"), here.get("required")
        named = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        for name in properties if isinstance(properties, dict) else ():
            if name not in named:
                yield (
                    f"In context={way!r}, 'required' is required to be supplied and to be an array including every key in properties. "
                    f"Missing '{name}'."
                )
