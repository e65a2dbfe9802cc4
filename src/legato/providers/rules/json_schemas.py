"""JSON schemas of functions and outputs, as providers want them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec


def describe_non_object(schema: dict[str, Any]) -> str:
    """Return OpenAI's message about a schema that is not of an object; empty if it is of an object.

    >>> describe_non_object({"type": "object"}), describe_non_object({})
    ('', '')
    """
    type = schema.get("type")
    if not schema or type == "object":
        return ""
    return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{type if isinstance(type, str) else None}\"'."


def is_strict(schema: Any) -> bool:
    """Return True if a schema fits OpenAI's strict mode: every object forbids other members and requires its own.

    >>> is_strict({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False})
    True
    >>> is_strict({"type": "object", "properties": {"a": {"type": "string"}}})
    False
    """
    if isinstance(schema, list):
        return all(is_strict(each) for each in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
    parts = [value for name, value in schema.items() if name not in ("enum", "const", "default", "examples", *_SCHEMA_MAPS)]
    return all(is_strict(part) for part in parts) and all(is_strict(part) for name in _SCHEMA_MAPS for part in _values(schema.get(name)))


_SCHEMA_MAPS = ("properties", "$defs", "definitions", "patternProperties")
"""Keywords whose members are schemas, under names that the author chose."""


def _values(schema_map: Any) -> list[Any]:
    return list(schema_map.values()) if isinstance(schema_map, dict) else []


@lru_cache(maxsize=256)
def is_enforced_by_openai(schema_json: str) -> bool:
    """Return True if OpenAI enforces an output's schema: it must be of an object, and say so at its top level.

    >>> [is_enforced_by_openai(schema) for schema in ('{"type": "object"}', '{"type": "integer"}', '{"$ref": "#/$defs/Tree"}')]
    [True, False, False]
    """
    schema = msgspec.json.decode(schema_json)
    return isinstance(schema, dict) and schema.get("type") == "object"


def render_output_format(schema_json: str) -> dict[str, Any]:
    """Return an output's schema as OpenAI's APIs take it: with a name."""
    return {"name": "output", "schema": msgspec.Raw(schema_json.encode()), "strict": is_strict(msgspec.json.decode(schema_json))}


def render_schema_instructions(schema_json: str) -> str:
    """Return the instructions for a model whose provider does not enforce the schema of its output."""
    return f"Reply with nothing but JSON, without a code fence, that fits this JSON schema:\n{schema_json}"
