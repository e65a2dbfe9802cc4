"""Schemas of typed outputs as the Messages API takes them. May know: JSON schemas. Decides: which can be enforced, and in which form.

The API enforces closed objects and a few constraints. What it does not enforce is said in the description instead, and checked when the
reply has come. A schema that it cannot take at all (objects with any members, definitions that contain themselves, values of any type)
is told in the instructions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

STRING_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
_ANYWHERE = ("title", "description", "default")
_BY_TYPE = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items",),
    "string": (),
    "integer": (),
    "number": (),
    "boolean": (),
    "null": (),
}
_PLAIN = (str, int, float, bool, type(None))


class _Inexpressible(Exception):
    """The API takes no such schema."""


@lru_cache(maxsize=256)
def enforced(schema: str) -> msgspec.Raw | None:
    """The schema (JSON text) in the form that the API enforces; None if it has none.

    >>> enforced('{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}')
    ... # doctest: +ELLIPSIS
    <msgspec.Raw ...>
    >>> enforced('{"type": "object", "additionalProperties": {"type": "string"}}') is None
    True
    """
    given = msgspec.json.decode(schema)
    definitions = given.get("$defs", {}) if isinstance(given, dict) else {}
    try:
        _refuse_circles(definitions)
        written = _closed({name: value for name, value in given.items() if name != "$defs"})
        if definitions:
            written["$defs"] = {name: _closed(value) for name, value in definitions.items()}
    except (_Inexpressible, AttributeError, TypeError):
        return None
    return msgspec.Raw(msgspec.json.encode(written))  # in the order of the type: a model thinks in the order in which it writes


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    enforced, used = _enforced_members(schema)
    kept = {name: schema[name] for name in ("title", "description") if name in schema} | enforced
    rest = {name: value for name, value in schema.items() if name not in used and name not in _ANYWHERE}
    if rest:
        told = ", ".join(f"{name}: {msgspec.json.encode(value, order='deterministic').decode()}" for name, value in sorted(rest.items()))
        kept["description"] = " ".join(filter(None, (kept.get("description"), f"({told})")))
    return kept


def _enforced_members(schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """What of a schema the API enforces, and the names of the members that it stands for."""
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return {"allOf" if name == "allOf" else "anyOf": [_closed(each) for each in schema[name]]}, {name, "discriminator", "type"}
    for name in ("const", "enum"):
        if name in schema:
            values = schema[name] if name == "enum" else (schema[name],)
            if not all(isinstance(value, _PLAIN) for value in values):
                raise _Inexpressible
            return {name: schema[name]}, {"const", "enum", "type"}
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _BY_TYPE:
        raise _Inexpressible
    members = {"type": kind, **_members(kind, schema)}
    return members, {*_BY_TYPE[kind], *members}


def _members(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    if kind == "object":
        if schema.get("additionalProperties") not in (None, False) or not schema.get("properties"):
            raise _Inexpressible  # it may have members that nobody can name
        properties = {name: _closed(value) for name, value in schema["properties"].items()}
        return {"properties": properties, "required": list(schema.get("required", ())), "additionalProperties": False}
    if kind == "array":
        if "items" not in schema:
            raise _Inexpressible
        least = {"minItems": schema["minItems"]} if schema.get("minItems") in (0, 1) else {}
        return {"items": _closed(schema["items"]), **least}
    return {"format": schema["format"]} if kind == "string" and schema.get("format") in STRING_FORMATS else {}


def _refuse_circles(definitions: dict[str, Any]) -> None:
    """A definition that contains itself, straight or by others, cannot be enforced."""
    leads_to = {name: _references(value) for name, value in definitions.items()}
    while leads_to:
        ends = [name for name, others in leads_to.items() if not others & leads_to.keys()]
        if not ends:
            raise _Inexpressible
        for name in ends:
            del leads_to[name]


def _references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {name for each in schema for name in _references(each)}
    if not isinstance(schema, dict):
        return set()
    here = {schema["$ref"].rpartition("/")[2]} if isinstance(schema.get("$ref"), str) else set()
    return here | {name for each in schema.values() for name in _references(each)}
