"""Random values for the JSON schemas of tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

_parsed_schemas: dict[str, Any] = {}


def sample_schema(schema: str, rng: Random) -> Any:
    """Return a random value that is valid, in all likelihood, under a JSON schema (as text).

    >>> sample_schema('{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}', Random(1))
    {'n': 2}
    """
    parsed = _parsed_schemas.get(schema)
    if parsed is None:
        parsed = _parsed_schemas[schema] = json.loads(schema)
    return _sample_value(parsed, parsed.get("$defs", {}), rng, 0)


def _sample_value(schema: Any, definitions: Any, rng: Random, depth: int) -> Any:
    if not isinstance(schema, dict):
        return None
    if "$ref" in schema:
        return _sample_value(definitions.get(schema["$ref"].rpartition("/")[2], {}), definitions, rng, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    for keyword in ("anyOf", "oneOf", "allOf"):
        if schema.get(keyword):
            return _sample_value(rng.choice(schema[keyword]), definitions, rng, depth + 1)
    kind = schema.get("type", "object")
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    return _SAMPLERS[kind](schema, definitions, rng, depth) if kind in _SAMPLERS else None


def _sample_object(schema: dict[str, Any], definitions: Any, rng: Random, depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    return {
        name: _sample_value(inner, definitions, rng, depth + 1)
        for name, inner in schema.get("properties", {}).items()
        if name in required or (depth < 4 and rng.random() < 0.5)
    }


def _sample_array(schema: dict[str, Any], definitions: Any, rng: Random, depth: int) -> list[Any]:
    length = schema.get("minItems", 0) + (rng.randrange(2) if depth < 4 else 0)
    return [_sample_value(schema.get("items", {}), definitions, rng, depth + 1) for _ in range(length)]


def _sample_number(schema: dict[str, Any], definitions: Any, rng: Random, depth: int) -> Any:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + (1 if "exclusiveMinimum" in schema else 0))
    return low + rng.randrange(0, 10) if "maximum" not in schema else rng.randint(int(low), int(schema["maximum"]))


def _sample_string(schema: dict[str, Any], definitions: Any, rng: Random, depth: int) -> str:
    padding: int = schema.get("minLength", 0) - 1
    return rng.choice(("a", "b", "order 7", "é")) + "x" * max(0, padding)


def _sample_boolean(schema: dict[str, Any], definitions: Any, rng: Random, depth: int) -> bool:
    return rng.random() < 0.5


_SAMPLERS: dict[str, Callable[[dict[str, Any], Any, Random, int], Any]] = {
    "object": _sample_object,
    "array": _sample_array,
    "integer": _sample_number,
    "number": _sample_number,
    "string": _sample_string,
    "boolean": _sample_boolean,
}
