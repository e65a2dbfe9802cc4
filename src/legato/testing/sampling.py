"""Plausible values for a JSON schema. May know: schemas as tools have them. Decides: by dice."""

from __future__ import annotations

import json
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
    match kind:
        case "object":
            required = schema.get("required", ())
            return {
                name: _sample(inner, definitions, dice, depth + 1)
                for name, inner in schema.get("properties", {}).items()
                if name in required or (depth < 4 and dice.random() < 0.5)
            }
        case "array":
            length = schema.get("minItems", 0) + (dice.randrange(2) if depth < 4 else 0)
            return [_sample(schema.get("items", {}), definitions, dice, depth + 1) for _ in range(length)]
        case "integer" | "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + (1 if "exclusiveMinimum" in schema else 0))
            return low + dice.randrange(0, 10) if "maximum" not in schema else dice.randint(int(low), int(schema["maximum"]))
        case "string":
            return dice.choice(("a", "b", "order 7", "é")) + "x" * max(0, schema.get("minLength", 0) - 1)
        case "boolean":
            return dice.random() < 0.5
        case _:
            return None
