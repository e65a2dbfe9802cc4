"""JSON schemas from requests: flattening, merging and validation.

A schema comes from a client, so nothing in it is trusted: a keyword of the wrong type is ignored, a reference that leads nowhere allows
everything, and the work stops after `MAX_STEPS`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias
from urllib.parse import unquote

from legato.emulator.fake_models.patterns import PatternBudget, UnsupportedPattern, is_match

Schema: TypeAlias = Mapping[str, Any]

MAX_DEPTH = 40
MAX_STEPS = 20_000

_TYPE_OF_KEYWORD = {
    **dict.fromkeys(("properties", "required"), "object"),
    **dict.fromkeys(("items", "prefixItems"), "array"),
    **dict.fromkeys(("pattern", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(("additionalProperties", "minProperties", "patternProperties"), "object"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "contains"), "array"),
}
"""The type that a keyword implies in a schema without `type`, the most common keywords first."""
_UNMERGEABLE_KEYWORDS = ("anyOf", "oneOf", "not", "pattern", "multipleOf", "contains", "if", "const")
_MAX_INTEGER_BITS = 1_500
TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")


class SchemaTooLarge(Exception):
    """The schema takes more steps or levels than allowed."""


def as_mapping(value: object) -> Schema:
    """Return a mapping, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_sequence(value: object) -> Sequence[Any]:
    """Return a list or tuple, or an empty one."""
    return value if isinstance(value, list | tuple) else ()


def as_finite_number(value: object) -> int | float | None:
    """Return a finite number, or None. An integer of thousands of digits is None too: arithmetic with it takes long."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if (value.bit_length() < _MAX_INTEGER_BITS if isinstance(value, int) else math.isfinite(value)) else None


def read_count(schema: Schema, key: str, default: int) -> int:
    """Return a bound that is a count, such as `minItems`."""
    bound = as_finite_number(schema.get(key))
    return default if bound is None else max(0, int(bound))


def are_equal(one: object, other: object) -> bool:
    """Return True if two values are equal as JSON: 1 is 1.0, and true is not 1."""
    return to_canonical_json(one) == to_canonical_json(other)


def to_canonical_json(value: object) -> str:
    """Return the same text for all values that are equal as JSON."""
    return json.dumps(_normalize_numbers(value), sort_keys=True, default=str)


def _normalize_numbers(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [_normalize_numbers(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _normalize_numbers(each) for key, each in value.items()}
    return value


def list_types(schema: Schema) -> list[str]:
    """Return the types that a schema allows; none if it does not restrict them."""
    type_value = schema.get("type")
    names = [type_value] if isinstance(type_value, str) else list(as_sequence(type_value))
    types = [each for each in TYPES if each in names]
    types.sort(key=names.index)
    return types or [kind for key, kind in _TYPE_OF_KEYWORD.items() if key in schema][:1]


def merge_schemas(one: Schema, other: Schema) -> dict[str, Any]:
    """Merge two schemas into one that requires what both require, as far as one schema can."""
    result = dict(one)
    for key, second in other.items():
        first = result.get(key)
        if key not in result or first is second:
            result[key] = second
        elif key == "type":
            result[key] = first if first == second else _merge_types(one, other)
        elif key in _MERGE_FUNCTIONS:
            result[key] = _MERGE_FUNCTIONS[key](first, second)
        elif key in _UNMERGEABLE_KEYWORDS and not are_equal(first, second):
            result["allOf"] = [*as_sequence(result.get("allOf")), {key: second}]
    return result


def _merge_properties(first: object, second: object) -> dict[str, Any]:
    both = dict(as_mapping(first))
    for name, schema in as_mapping(second).items():
        both[name] = {"allOf": [both[name], schema]} if name in both else schema
    return both


def _merge_required(first: object, second: object) -> list[Any]:
    names = {name for name in as_sequence(first) if isinstance(name, str)}
    return [*as_sequence(first), *(name for name in as_sequence(second) if isinstance(name, str) and name not in names)]


def _larger_bound(first: object, second: object) -> int | float | None:
    return max(_list_bounds(first, second), default=None)


def _smaller_bound(first: object, second: object) -> int | float | None:
    return min(_list_bounds(first, second), default=None)


def _list_bounds(*bounds: object) -> list[int | float]:
    return [bound for bound in map(as_finite_number, bounds) if bound is not None]


def _intersect_enums(first: object, second: object) -> list[Any]:
    second_options = {to_canonical_json(option) for option in as_sequence(second)}
    return [each for each in as_sequence(first) if to_canonical_json(each) in second_options]


def _merge_member_schemas(first: object, second: object) -> object:
    """Merge the schemas of further members, which may also be true or false."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return {"allOf": [first, second]}
    return False if first is False or second is False else second if first is True else first


_MERGE_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "properties": _merge_properties,
    "required": _merge_required,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), _larger_bound),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), _smaller_bound),
    "enum": _intersect_enums,
    **dict.fromkeys(("items", "additionalProperties"), _merge_member_schemas),
    "uniqueItems": lambda first, second: True,
    "allOf": lambda first, second: [*as_sequence(first), *as_sequence(second)],
    **dict.fromkeys(("$defs", "patternProperties", "dependentRequired"), lambda first, second: {**as_mapping(second), **as_mapping(first)}),
}
"""The functions that merge the values of a keyword of two schemas. Any other keyword keeps the first schema's value."""


def _merge_types(one: Schema, other: Schema) -> list[str]:
    first, second = list_types(one), list_types(other)
    both = [each for each in first if each in second]
    if "integer" not in both and (("integer" in first and "number" in second) or ("number" in first and "integer" in second)):
        both.append("integer")
    return both


class SchemaDocument:
    """A schema with everything that it refers to, and the steps that work on it took."""

    def __init__(self, root: object) -> None:
        self.root = root
        self.steps = 0
        self.pattern_budget = PatternBudget()
        self._flattened: dict[int, tuple[object, dict[str, Any]]] = {}
        self._options: dict[int, tuple[object, frozenset[str]]] = {}

    def _count_step(self, depth: int, count: int = 1) -> None:
        if self.steps >= MAX_STEPS or depth > MAX_DEPTH:
            raise SchemaTooLarge
        self.steps += count

    def _is_among(self, value: object, options: list[Any]) -> bool:
        """Return True if a value equals one of the options. Options are encoded once: there may be thousands."""
        cached = self._options.get(id(options))
        if cached is None or cached[0] is not options:
            canonical_options = [to_canonical_json(option) for option in options]
            self.steps += sum(map(len, canonical_options)) // 20
            cached = self._options[id(options)] = options, frozenset(canonical_options)
        canonical_value = to_canonical_json(value)
        self.steps += len(canonical_value) // 20
        return canonical_value in cached[1]

    def _are_equal(self, one: object, other: object) -> bool:
        first, second = to_canonical_json(one), to_canonical_json(other)
        self.steps += (len(first) + len(second)) // 20
        return first == second

    def resolve_reference(self, reference: object) -> object:
        """Return the target of a reference within the document; True, which allows everything, if it leads nowhere."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        target: object = self.root
        for part in unquote(reference[1:]).split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, Mapping) and part in target:
                target = target[part]
            elif isinstance(target, list) and part.isdecimal() and len(part) < 9 and int(part) < len(target):
                target = target[int(part)]
            else:
                return True
        return target

    def flatten(self, schema: object, depth: int = 0) -> dict[str, Any]:
        """Return a schema with its references and its `allOf` merged in. The result is shared: do not change it."""
        self._count_step(depth)
        cached = self._flattened.get(id(schema))
        if cached is None or cached[0] is not schema:
            cached = self._flattened[id(schema)] = schema, self._merge_referenced(schema, depth)
        return cached[1]

    def _merge_referenced(self, schema: object, depth: int) -> dict[str, Any]:
        result = dict(as_mapping(schema))
        while "$ref" in result or "allOf" in result:
            reference, parts = result.pop("$ref", None), as_sequence(result.pop("allOf", None))
            if reference is not None:
                result = merge_schemas(result, self.flatten(self.resolve_reference(reference), depth + 1))
            unmerged = []
            for part in parts:
                if any(key in result and key in as_mapping(part) for key in _UNMERGEABLE_KEYWORDS):
                    unmerged.append(part)
                else:
                    self._count_step(depth, 1 + (len(as_mapping(result.get("properties"))) + len(as_sequence(result.get("required")))) // 8)
                    result = merge_schemas(result, self.flatten(part, depth + 1))
            if unmerged:  # a keyword that cannot be merged: the second value is only checked
                result["also"] = [*as_sequence(result.get("also")), *unmerged]
            self._count_step(depth)
        return result

    def is_valid(self, value: object, schema: object, depth: int = 0) -> bool:
        """Return True if a value is valid for a schema. Formats are not checked, as in JSON schema itself."""
        self._count_step(depth)
        if isinstance(schema, bool):
            return schema
        schema = as_mapping(schema)
        if not schema:
            return True
        if "$ref" in schema and not self.is_valid(value, self.resolve_reference(schema["$ref"]), depth + 1):
            return False
        if "const" in schema and not self._are_equal(value, schema["const"]):
            return False
        if isinstance(schema.get("enum"), list) and not self._is_among(value, schema["enum"]):
            return False
        types = [each for each in list_types({"type": schema.get("type")}) if each in TYPES]
        if types and not any(_has_type(value, each) for each in types):
            return False
        if not self._is_valid_for_type(value, schema, depth):
            return False
        return self._is_valid_combination(value, schema, depth)

    def _is_valid_combination(self, value: object, schema: Schema, depth: int) -> bool:
        for key in ("allOf", "also"):
            if not all(self.is_valid(value, part, depth + 1) for part in as_sequence(schema.get(key))):
                return False
        if as_sequence(schema.get("anyOf")) and not any(self.is_valid(value, part, depth + 1) for part in schema["anyOf"]):
            return False
        if as_sequence(schema.get("oneOf")) and sum(self.is_valid(value, part, depth + 1) for part in schema["oneOf"]) != 1:
            return False
        if "not" in schema and self.is_valid(value, schema["not"], depth + 1):
            return False
        if "if" in schema:
            branch = "then" if self.is_valid(value, schema["if"], depth + 1) else "else"
            return branch not in schema or self.is_valid(value, schema[branch], depth + 1)
        return True

    def _is_valid_for_type(self, value: object, schema: Schema, depth: int) -> bool:
        match value:
            case bool() | None:
                return True
            case int() | float():
                self.steps += value.bit_length() // 512 if isinstance(value, int) else 0
                return _is_valid_number(value, schema)
            case str():
                return self._is_valid_text(value, schema)
            case list():
                return self._is_valid_list(value, schema, depth)
            case dict():
                return self._is_valid_object(value, schema, depth)
            case _:
                return True

    def _is_valid_text(self, value: str, schema: Schema) -> bool:
        if not read_count(schema, "minLength", 0) <= len(value) <= read_count(schema, "maxLength", len(value)):
            return False
        return "pattern" not in schema or self.is_pattern_match(schema["pattern"], value)

    def _is_valid_list(self, value: list[Any], schema: Schema, depth: int) -> bool:
        if not read_count(schema, "minItems", 0) <= len(value) <= read_count(schema, "maxItems", len(value)):
            return False
        if schema.get("uniqueItems") is True and len({to_canonical_json(each) for each in value}) < len(value):
            return False
        if not all(self.is_valid(each, self.find_item_schema(schema, index), depth + 1) for index, each in enumerate(value)):
            return False
        return "contains" not in schema or any(self.is_valid(each, schema["contains"], depth + 1) for each in value)

    def find_item_schema(self, schema: Schema, index: int) -> object:
        """Return the schema of a list's item at an index."""
        prefix = as_sequence(schema.get("prefixItems")) or as_sequence(schema.get("items"))
        if index < len(prefix):
            return prefix[index]
        rest = schema.get("additionalItems") if isinstance(schema.get("items"), list) else schema.get("items")
        return rest if isinstance(rest, bool | Mapping) else True

    def _is_valid_object(self, value: dict[str, Any], schema: Schema, depth: int) -> bool:
        if not read_count(schema, "minProperties", 0) <= len(value) <= read_count(schema, "maxProperties", len(value)):
            return False
        if any(name not in value for name in as_sequence(schema.get("required")) if isinstance(name, str)):
            return False
        for name, needs in as_mapping(schema.get("dependentRequired")).items():
            if name in value and any(isinstance(need, str) and need not in value for need in as_sequence(needs)):
                return False
        if "propertyNames" in schema and not all(self.is_valid(name, schema["propertyNames"], depth + 1) for name in value):
            return False
        return all(
            self.is_valid(each, part, depth + 1) for name, each in value.items() for part in self.find_property_schemas(schema, name)
        )

    def is_pattern_match(self, pattern: object, text: str) -> bool:
        """Return True if a pattern matches a text, or is not supported."""
        try:
            return not isinstance(pattern, str) or is_match(pattern, text, self.pattern_budget)
        except UnsupportedPattern:
            return True

    def find_property_schemas(self, schema: Schema, name: str) -> list[Any]:
        """Return the schemas of a property: its own, those of patterns that match its name, or that of further properties."""
        cached = as_mapping(schema.get("properties"))
        self.steps += len(as_mapping(schema.get("patternProperties")))
        target = [cached[name]] if name in cached else []
        target += [part for pattern, part in as_mapping(schema.get("patternProperties")).items() if self.is_pattern_match(pattern, name)]
        rest = schema.get("additionalProperties")
        return target or ([rest] if isinstance(rest, bool | Mapping) else [])


def _has_type(value: object, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1


def _is_valid_number(value: int | float, schema: Schema) -> bool:
    low, high, above, below, step = (
        as_finite_number(schema.get(key)) for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    )
    if schema.get("exclusiveMinimum") is True:  # the oldest drafts have a boolean
        above = low
    if schema.get("exclusiveMaximum") is True:
        below = high
    if (low is not None and value < low) or (high is not None and value > high):
        return False
    if (above is not None and value <= above) or (below is not None and value >= below):
        return False
    return step is None or step <= 0 or _is_multiple(value, step)


def _is_multiple(value: int | float, step: int | float) -> bool:
    """Return True for an exact multiple that validators with float division accept too."""
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        divided = value / step
        return divided.is_integer() and Fraction(str(value)) % Fraction(str(step)) == 0
    except OverflowError:
        return Fraction(value) % Fraction(step) == 0
