"""Plausible values for a JSON schema. May know: schemas as tools have them. Decides: by dice."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

_schemas: dict[str, Any] = {}


def sample(schema: str, dice: Random) -> Any:
    """A value that a JSON schema (as text) plausibly admits.

    >>> sample('{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}', Random(1))
    {'n': 2}
    """
    known = _schemas.get(schema)
    if known is None:
        known = _schemas[schema] = json.loads(schema)
    return _sample(known, known.get("$defs", {}), dice, 0)


def _sample(schema: Any, definitions: Any, dice: Random, depth: int) -> Any:
    if not isinstance(schema, dict):
        return None
    if "$ref" in schema:
        return _sample(definitions.get(schema["$ref"].rpartition("/")[2], {}), definitions, dice, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return dice.choice(schema["enum"])
    for several in ("anyOf", "oneOf", "allOf"):
        if schema.get(several):
            return _sample(dice.choice(schema[several]), definitions, dice, depth + 1)
    kind = schema.get("type", "object")
    kind = dice.choice(kind) if isinstance(kind, list) else kind
    return _KINDS[kind](schema, definitions, dice, depth) if kind in _KINDS else None


def _sample_object(schema: dict[str, Any], definitions: Any, dice: Random, depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    return {
        name: _sample(inner, definitions, dice, depth + 1)
        for name, inner in schema.get("properties", {}).items()
        if name in required or (depth < 4 and dice.random() < 0.5)
    }


def _sample_array(schema: dict[str, Any], definitions: Any, dice: Random, depth: int) -> list[Any]:
    length = schema.get("minItems", 0) + (dice.randrange(2) if depth < 4 else 0)
    return [_sample(schema.get("items", {}), definitions, dice, depth + 1) for _ in range(length)]


def _sample_number(schema: dict[str, Any], definitions: Any, dice: Random, depth: int) -> Any:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + (1 if "exclusiveMinimum" in schema else 0))
    return low + dice.randrange(0, 10) if "maximum" not in schema else dice.randint(int(low), int(schema["maximum"]))


def _sample_string(schema: dict[str, Any], definitions: Any, dice: Random, depth: int) -> str:
    longer: int = schema.get("minLength", 0) - 1
    return dice.choice(("a", "b", "order 7", "é")) + "x" * max(0, longer)


def _sample_boolean(schema: dict[str, Any], definitions: Any, dice: Random, depth: int) -> bool:
    return dice.random() < 0.5


_KINDS: dict[str, Callable[[dict[str, Any], Any, Random, int], Any]] = {
    "object": _sample_object,
    "array": _sample_array,
    "integer": _sample_number,
    "number": _sample_number,
    "string": _sample_string,
    "boolean": _sample_boolean,
}
