"""JSON schemas as providers want them. May know: JSON. Decides: whether one is of an object, and closed enough to be enforced."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec


def not_an_object(schema: dict[str, Any]) -> str:
    """What a function's parameters are said to be, if they are not an object; empty if they are.

    >>> not_an_object({"type": "string"}), not_an_object({"type": "object"}), not_an_object({})
    ('"string"', '', '')
    """
    if not schema or schema.get("type") == "object":
        return ""
    given = schema.get("type")
    return f'"{given}"' if isinstance(given, str) else '"None"'


def is_closed(schema: Any) -> bool:
    """Whether every object in a schema forbids other members and requires its own: what OpenAI's strict mode asks for.

    >>> is_closed({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False})
    True
    >>> is_closed({"type": "object", "properties": {"a": {"type": "string"}}})
    False
    """
    if isinstance(schema, list):
        return all(is_closed(each) for each in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
    parts = [value for name, value in schema.items() if name not in ("enum", "const", "default", "examples", *_NAMED)]
    return all(is_closed(part) for part in parts) and all(is_closed(part) for name in _NAMED for part in _parts(schema.get(name)))


_NAMED = ("properties", "$defs", "definitions", "patternProperties")
"""Members whose own members are schemas under names of the author's choice."""


def _parts(named: Any) -> list[Any]:
    return list(named.values()) if isinstance(named, dict) else []


@lru_cache(maxsize=256)
def is_enforced(output: str) -> bool:
    """Whether OpenAI enforces the schema (JSON text) of an output: what fits it is an object, and the schema says so at once.

    >>> is_enforced('{"type": "object"}'), is_enforced('{"type": "integer"}'), is_enforced('{"$ref": "#/$defs/Tree"}')
    (True, False, False)
    """
    schema = msgspec.json.decode(output)
    return isinstance(schema, dict) and schema.get("type") == "object"


def output_format(output: str) -> dict[str, Any]:
    """The schema (JSON text) of an output as OpenAI's APIs take it, under a name."""
    return {"name": "output", "schema": msgspec.Raw(output.encode()), "strict": is_closed(msgspec.json.decode(output))}


def told(schema: str) -> str:
    """The schema (JSON text) of an output that a provider does not enforce, as the model is told of it."""
    return f"Reply with nothing but JSON, without a code fence, that fits this JSON schema:\n{schema}"
