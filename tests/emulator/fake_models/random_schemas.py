"""Random satisfiable JSON schemas, with every keyword that the fake models support, and random user texts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

PROPERTIES = """
    order_id orderId amount amount_cents email city from_city date time query limit name tags reason urgent currency url count x colour
    next größe a/b~c
"""
NAMES = st.sampled_from(["", "with space", *PROPERTIES.split()])
KEYWORDS = """
    type properties required enum const anyOf oneOf allOf not $ref $defs items pattern minimum maximum minLength maxLength minItems
    maxItems multipleOf format default if then additionalProperties patternProperties propertyNames uniqueItems contains prefixItems
    exclusiveMinimum dependentRequired minProperties examples nullable a b
"""
PATTERNS = [
    "^[A-Z]-[0-9]+$", "^[a-z]{3,8}$", r"^\d{4}-\d{2}$", "^(red|green|blue)$", r"^\+?[0-9 ]{7,}$", "ab+c", r"^[^\s@]+@[^\s@]+\.[a-z]{2,}$",
    r"^(?!0)\d{1,5}$", "^$|^x", r"^[\w.-]+$", r"\bword\b", "^(?:a|b){2}c?$", r"^[A-Fa-f0-9]{8}$", ".", "",
]  # fmt: skip
FORMATS = ["date", "date-time", "time", "email", "uuid", "uri", "hostname", "ipv4", "ipv6", "duration", "unknown-format"]
USER_TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            "Please refund 49.90 EUR for order A-17 to ann@example.com.",
            "What is the weather in Paris and London on 3 May 2026 at 14:30?",
            'Look up "blue teapot", orders A-17, B-22 and #12345, at most 3 results, urgent!',
            "Mail ann@example.com and bob@example.org https://example.com/a?b=c 123e4567-e89b-12d3-a456-426614174000",
            "-5 0 1 7 1,000 3.14159 99999999999",
        ]
    ),
    st.text(max_size=60),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=5), st.floats(-4, 4))


@st.composite
def strings(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    kind = draw(st.integers(0, 3))
    if kind == 1:
        schema["pattern"] = draw(st.sampled_from(PATTERNS))
    elif kind == 2:
        schema["format"] = draw(st.sampled_from(FORMATS))
    elif kind == 3:
        least = draw(st.integers(0, 40))
        schema |= {"minLength": least} if draw(st.booleans()) else {}
        schema |= {"maxLength": least + draw(st.integers(0, 20))} if draw(st.booleans()) else {}
    return schema


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    integer = draw(st.booleans())
    schema: dict[str, Any] = {"type": "integer" if integer else "number"}
    bound = st.one_of(st.integers(-1000, 1000), st.integers(-(10**25), 10**25))
    bound = bound if integer else st.one_of(bound, st.floats(-1e6, 1e6), st.floats(-1e300, 1e300))
    low = draw(bound)
    high = low + draw(st.integers(6, 50)) if abs(low) < 10**9 else low + abs(low)
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["minimum", "exclusiveMinimum"]))] = low
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["maximum", "exclusiveMaximum"]))] = high
    if draw(st.booleans()) and abs(low) < 10**9:
        schema["multipleOf"] = draw(st.sampled_from([1, 2, 3, 5] if integer else [1, 2, 0.5, 0.25, 0.1, 0.01, 2.5]))
    return schema


def unions(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner),
        st.builds(lambda one: {"anyOf": [one, {"type": "null"}]}, inner),
        st.builds(lambda one: {"allOf": [one]}, inner),
        st.builds(lambda one: {"allOf": [{"required": ["id"]}, {"properties": {"id": one}, "type": "object"}]}, inner),
        st.builds(lambda one: {"oneOf": [{"type": "array", "items": one, "maxItems": 2}, {"type": "boolean"}]}, inner),
        st.builds(
            lambda one: {
                "oneOf": [
                    {"type": "object", "properties": {"kind": {"const": "a"}, "of": one}, "required": ["kind", "of"]},
                    {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
                ]
            },
            inner,
        ),
    )


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": draw(inner)}
    if draw(st.booleans()):
        schema["minItems"] = draw(st.integers(0, 4))
    if draw(st.booleans()):
        schema["maxItems"] = draw(st.integers(schema.get("minItems", 0), 6))
    if draw(st.booleans()):
        schema["prefixItems"] = draw(st.lists(inner, min_size=1, max_size=2))
    return schema


UNIQUE = st.sampled_from(
    [
        {"type": "array", "uniqueItems": True, "minItems": 4, "items": {"type": "integer", "minimum": 1, "maximum": 4}},
        {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"type": "boolean"}},
        {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"enum": ["a", "b", "c"]}},
        {"type": "array", "uniqueItems": True, "minItems": 5, "items": {"type": "string"}},
        {"type": "array", "uniqueItems": True, "minItems": 5, "items": {"type": "string", "maxLength": 1, "minLength": 1}},
        {"type": "array", "uniqueItems": True, "minItems": 5, "items": {"type": "string", "pattern": "^[a-z]{4}$"}},
        {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"properties": {"id": {"type": "string"}}, "required": ["id"]}},
        {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"type": "string", "format": "email"}},
        {"type": "array", "minItems": 2, "contains": {"const": 7}, "items": {"type": "integer"}},
    ]
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    properties = draw(st.dictionaries(NAMES, inner, max_size=4))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if properties:
        schema["required"] = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    more = draw(st.sampled_from(["closed", "open", "typed", "counted", "patterned", "needs", "unnamed"]))
    if more == "closed":
        schema["additionalProperties"] = False
    elif more == "typed":
        schema |= {"additionalProperties": draw(inner), "minProperties": draw(st.integers(0, 5))}
    elif more == "counted":
        schema |= {"minProperties": 2, "maxProperties": max(2, len(properties))}
    elif more == "patterned":
        schema |= {"patternProperties": {"^x-[a-z]+$": draw(inner)}, "additionalProperties": False, "minProperties": len(properties) + 1}
    elif more == "needs" and properties:
        schema["dependentRequired"] = {next(iter(properties)): sorted(properties)}
    elif more == "unnamed":
        schema["required"] = [*schema.get("required", []), "nowhere_described"]
    return schema


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]} if isinstance(schema.get("type"), str) else schema


LEAVES = st.one_of(
    strings(),
    numbers(),
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({}),
    st.builds(lambda values: {"enum": values}, st.lists(SCALARS, min_size=1, max_size=4)),
    st.builds(lambda value: {"const": value}, SCALARS),
    st.just({"$ref": "#/$defs/node"}),
    st.just({"$ref": "#/$defs/tree"}),
    st.just({"$ref": "#/$defs/a~1b~0c"}),
    st.just({"type": "string", "not": {"const": "standard"}}),
    st.just({"type": "string", "nullable": True}),
    UNIQUE,
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(arrays(inner), objects(inner), unions(inner), inner.map(_nullable)),
    max_leaves=8,
)
DEFINITIONS = {
    "node": {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        "required": ["value", "next"],
        "additionalProperties": False,
    },
    "tree": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
        "required": ["name", "children"],
    },
    "a/b~c": {"type": "string", "minLength": 2},
}


@st.composite
def tool_schemas(draw: st.DrawFn) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    return {**draw(objects(SCHEMAS)), "$defs": DEFINITIONS}


JSON = st.recursive(
    st.one_of(SCALARS, st.sampled_from(["string", "object", "array", "#", "#/properties/a", "^a+$", "(a+)+$", "integer"]), st.integers()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(KEYWORDS.split()),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=25,
)
"""Anything at all, in the words of JSON schema."""
