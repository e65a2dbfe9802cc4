"""Schemas of typed outputs, in the form that the Messages API enforces.

The API enforces closed objects and a few constraints. Other constraints are written into descriptions, and checked when the reply came.
A schema that the API cannot enforce at all (objects with arbitrary members, recursive definitions, values of any type) is written into
the instructions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from legato.providers.formats.lenient_json import to_json

STRING_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
_MEMBERS_OF_ANY_TYPE = ("title", "description", "default")
_MEMBERS_BY_TYPE = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items",),
    "string": (),
    "integer": (),
    "number": (),
    "boolean": (),
    "null": (),
}
_SCALARS = (str, int, float, bool, type(None))


class _NotEnforceable(Exception):
    """The API cannot enforce the schema."""


@lru_cache(maxsize=256)
def make_enforceable_schema(schema: str) -> msgspec.Raw | None:
    """Return a schema (JSON text) in the form that the API enforces; None if it cannot be enforced.

    >>> make_enforceable_schema('{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}')
    ... # doctest: +ELLIPSIS
    <msgspec.Raw ...>
    >>> make_enforceable_schema('{"type": "object", "additionalProperties": {"type": "string"}}') is None
    True
    """
    decoded = msgspec.json.decode(schema)
    definitions = decoded.get("$defs", {}) if isinstance(decoded, dict) else {}
    try:
        _refuse_cycles(definitions)
        result = _close_schema({name: value for name, value in decoded.items() if name != "$defs"})
        if definitions:
            result["$defs"] = {name: _close_schema(value) for name, value in definitions.items()}
    except (_NotEnforceable, AttributeError, TypeError):
        return None
    return msgspec.Raw(msgspec.json.encode(result))  # in the order of the type's fields: a model thinks in the order in which it writes


def _close_schema(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    members, covered = _find_enforced_members(schema)
    result = {name: schema[name] for name in ("title", "description") if name in schema} | members
    rest = {name: value for name, value in schema.items() if name not in covered and name not in _MEMBERS_OF_ANY_TYPE}
    if rest:
        constraints = ", ".join(f"{name}: {to_json(value)}" for name, value in sorted(rest.items()))
        result["description"] = " ".join(filter(None, (result.get("description"), f"({constraints})")))
    return result


def _find_enforced_members(schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return the members of a schema that the API enforces, and the names of the members that they cover."""
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            keyword = "allOf" if name == "allOf" else "anyOf"
            return {keyword: [_close_schema(each) for each in schema[name]]}, {name, "discriminator", "type"}
    for name in ("const", "enum"):
        if name in schema:
            values = schema[name] if name == "enum" else (schema[name],)
            if not all(isinstance(value, _SCALARS) for value in values):
                raise _NotEnforceable
            return {name: schema[name]}, {"const", "enum", "type"}
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _MEMBERS_BY_TYPE:
        raise _NotEnforceable
    members = {"type": kind, **_write_members_of_type(kind, schema)}
    return members, {*_MEMBERS_BY_TYPE[kind], *members}


def _write_members_of_type(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    if kind == "object":
        if schema.get("additionalProperties") not in (None, False) or not schema.get("properties"):
            raise _NotEnforceable  # an object with arbitrary members
        properties = {name: _close_schema(value) for name, value in schema["properties"].items()}
        return {"properties": properties, "required": list(schema.get("required", ())), "additionalProperties": False}
    if kind == "array":
        if "items" not in schema:
            raise _NotEnforceable
        min_items = {"minItems": schema["minItems"]} if schema.get("minItems") in (0, 1) else {}
        return {"items": _close_schema(schema["items"]), **min_items}
    return {"format": schema["format"]} if kind == "string" and schema.get("format") in STRING_FORMATS else {}


def _refuse_cycles(definitions: dict[str, Any]) -> None:
    """Raise if a definition contains itself, directly or through others: it cannot be enforced."""
    references = {name: _find_references(value) for name, value in definitions.items()}
    while references:
        ends = [name for name, others in references.items() if not others & references.keys()]
        if not ends:
            raise _NotEnforceable
        for name in ends:
            del references[name]


def _find_references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {name for each in schema for name in _find_references(each)}
    if not isinstance(schema, dict):
        return set()
    here = {schema["$ref"].rpartition("/")[2]} if isinstance(schema.get("$ref"), str) else set()
    return here | {name for each in schema.values() for name in _find_references(each)}
