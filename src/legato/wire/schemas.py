"""JSON schemas as providers want them. May know: JSON. Decides: whether a schema is closed enough to be enforced to the letter."""

from __future__ import annotations

from typing import Any


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
    return all(is_closed(value) for name, value in schema.items() if name not in ("enum", "const", "default", "examples"))
