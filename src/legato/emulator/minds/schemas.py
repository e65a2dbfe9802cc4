"""JSON schemas as they come. May know: data. Decides: what a reference, a combination and a constraint mean, and whether a value fits.

Whoever sends a request wrote the schema, so nothing in it is taken for granted: a key of the wrong type is as if it were not there,
a reference that leads nowhere allows everything, and looking stops after so many steps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias
from urllib.parse import unquote

from legato.emulator.minds.patterns import Budget, Unsupported, matches

Schema: TypeAlias = Mapping[str, Any]

DEEPEST = 40
STEPS = 20_000

_KIND_OF_KEY = {
    **dict.fromkeys(("properties", "required"), "object"),
    **dict.fromkeys(("items", "prefixItems"), "array"),
    **dict.fromkeys(("pattern", "format"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(("additionalProperties", "minProperties", "patternProperties"), "object"),
    **dict.fromkeys(("minItems", "maxItems", "uniqueItems", "contains"), "array"),
}
"""The type that a schema means by a key where it names none, the plainest keys first."""
_ONE_OF_A_KIND = ("anyOf", "oneOf", "not", "pattern", "multipleOf", "contains", "if", "const")
_MOST_BITS = 1_500
TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")


class TooMuch(Exception):
    """The schema leads further than anyone will look."""


def mapping(value: object) -> Schema:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: object) -> Sequence[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list | tuple) else ()


def number(value: object) -> int | float | None:
    """The value if it is a finite number, and not one of thousands of digits, with which it takes long to reckon."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if (value.bit_length() < _MOST_BITS if isinstance(value, int) else math.isfinite(value)) else None


def length(schema: Schema, key: str, otherwise: int) -> int:
    """A bound that is a count."""
    bound = number(schema.get(key))
    return otherwise if bound is None else max(0, int(bound))


def same(one: object, other: object) -> bool:
    """Equal as JSON: 1 is 1.0, and true is not 1."""
    return canonical(one) == canonical(other)


def canonical(value: object) -> str:
    """One text for all values that are equal as JSON."""
    return json.dumps(_whole(value), sort_keys=True, default=str)


def _whole(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [_whole(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _whole(each) for key, each in value.items()}
    return value


def kinds(schema: Schema) -> list[str]:
    """The types that a schema allows, as far as it says; none if it says nothing."""
    told = schema.get("type")
    named = [told] if isinstance(told, str) else list(listed(told))
    types = [each for each in TYPES if each in named]
    types.sort(key=named.index)
    return types or [kind for key, kind in _KIND_OF_KEY.items() if key in schema][:1]


def merged(one: Schema, other: Schema) -> dict[str, Any]:
    """A schema that asks for what both ask for, as far as one schema can say so."""
    result = dict(one)
    for key, theirs in other.items():
        ours = result.get(key)
        if key not in result or ours is theirs:
            result[key] = theirs
        elif key == "type":
            result[key] = ours if ours == theirs else _types_of_both(one, other)
        elif key in _MERGED:
            result[key] = _MERGED[key](ours, theirs)
        elif key in _ONE_OF_A_KIND and not same(ours, theirs):
            result["allOf"] = [*listed(result.get("allOf")), {key: theirs}]
    return result


def _properties_of_both(ours: object, theirs: object) -> dict[str, Any]:
    both = dict(mapping(ours))
    for name, schema in mapping(theirs).items():
        both[name] = {"allOf": [both[name], schema]} if name in both else schema
    return both


def _required_by_either(ours: object, theirs: object) -> list[Any]:
    named = {name for name in listed(ours) if isinstance(name, str)}
    return [*listed(ours), *(name for name in listed(theirs) if isinstance(name, str) and name not in named)]


def _larger(ours: object, theirs: object) -> int | float | None:
    return max(_bounds(ours, theirs), default=None)


def _smaller(ours: object, theirs: object) -> int | float | None:
    return min(_bounds(ours, theirs), default=None)


def _bounds(*bounds: object) -> list[int | float]:
    return [bound for bound in map(number, bounds) if bound is not None]


def _options_of_both(ours: object, theirs: object) -> list[Any]:
    both_have = {canonical(option) for option in listed(theirs)}
    return [each for each in listed(ours) if canonical(each) in both_have]


def _members_for_both(ours: object, theirs: object) -> object:
    """The schema of further members, which may also be true or false."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return {"allOf": [ours, theirs]}
    return False if ours is False or theirs is False else theirs if ours is True else ours


_MERGED: dict[str, Callable[[Any, Any], Any]] = {
    "properties": _properties_of_both,
    "required": _required_by_either,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), _larger),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), _smaller),
    "enum": _options_of_both,
    **dict.fromkeys(("items", "additionalProperties"), _members_for_both),
    "uniqueItems": lambda ours, theirs: True,
    "allOf": lambda ours, theirs: [*listed(ours), *listed(theirs)],
    **dict.fromkeys(("$defs", "patternProperties", "dependentRequired"), lambda ours, theirs: {**mapping(theirs), **mapping(ours)}),
}
"""What a key says where two schemas have it, by what either says. Keys that are not here say what the first schema says."""


def _types_of_both(one: Schema, other: Schema) -> list[str]:
    ours, theirs = kinds(one), kinds(other)
    both = [each for each in ours if each in theirs]
    if "integer" not in both and (("integer" in ours and "number" in theirs) or ("number" in ours and "integer" in theirs)):
        both.append("integer")
    return both


class Schemas:
    """A schema with all that it refers to."""

    def __init__(self, root: object) -> None:
        self.root = root
        self.steps = 0
        self.patterns = Budget()
        self._flattened: dict[int, tuple[object, dict[str, Any]]] = {}
        self._options: dict[int, tuple[object, frozenset[str]]] = {}

    def _step(self, depth: int, count: int = 1) -> None:
        if self.steps >= STEPS or depth > DEEPEST:
            raise TooMuch
        self.steps += count

    def _among(self, value: object, options: list[Any]) -> bool:
        """Whether a value equals one of the options, which are spelled once: there may be thousands, and each of them is looked for."""
        known = self._options.get(id(options))
        if known is None or known[0] is not options:
            spelled = [canonical(option) for option in options]
            self.steps += sum(map(len, spelled)) // 20
            known = self._options[id(options)] = options, frozenset(spelled)
        spelled_value = canonical(value)
        self.steps += len(spelled_value) // 20
        return spelled_value in known[1]

    def _equals(self, one: object, other: object) -> bool:
        ours, theirs = canonical(one), canonical(other)
        self.steps += (len(ours) + len(theirs)) // 20
        return ours == theirs

    def target(self, reference: object) -> object:
        """What a reference within the document leads to; everything is allowed if it leads nowhere."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        found: object = self.root
        for part in unquote(reference[1:]).split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and part in found:
                found = found[part]
            elif isinstance(found, list) and part.isdecimal() and len(part) < 9 and int(part) < len(found):
                found = found[int(part)]
            else:
                return True
        return found

    def flat(self, schema: object, depth: int = 0) -> dict[str, Any]:
        """The schema with its references and its `allOf` taken in. It is shared: look, do not touch."""
        self._step(depth)
        known = self._flattened.get(id(schema))
        if known is None or known[0] is not schema:
            known = self._flattened[id(schema)] = schema, self._taken_in(schema, depth)
        return known[1]

    def _taken_in(self, schema: object, depth: int) -> dict[str, Any]:
        result = dict(mapping(schema))
        while "$ref" in result or "allOf" in result:
            reference, parts = result.pop("$ref", None), listed(result.pop("allOf", None))
            if reference is not None:
                result = merged(result, self.flat(self.target(reference), depth + 1))
            kept = []
            for part in parts:
                if any(key in result and key in mapping(part) for key in _ONE_OF_A_KIND):
                    kept.append(part)
                else:
                    self._step(depth, 1 + (len(mapping(result.get("properties"))) + len(listed(result.get("required")))) // 8)
                    result = merged(result, self.flat(part, depth + 1))
            if kept:  # two of a kind that one schema cannot say: the second is only checked
                result["also"] = [*listed(result.get("also")), *kept]
            self._step(depth)
        return result

    def fits(self, value: object, schema: object, depth: int = 0) -> bool:
        """Whether a value satisfies a schema. Formats are not looked at, as in JSON schema itself."""
        self._step(depth)
        if isinstance(schema, bool):
            return schema
        schema = mapping(schema)
        if not schema:
            return True
        if "$ref" in schema and not self.fits(value, self.target(schema["$ref"]), depth + 1):
            return False
        if "const" in schema and not self._equals(value, schema["const"]):
            return False
        if isinstance(schema.get("enum"), list) and not self._among(value, schema["enum"]):
            return False
        types = [each for each in kinds({"type": schema.get("type")}) if each in TYPES]
        if types and not any(_is(value, each) for each in types):
            return False
        if not self._fits_its_kind(value, schema, depth):
            return False
        return self._fits_combined(value, schema, depth)

    def _fits_combined(self, value: object, schema: Schema, depth: int) -> bool:
        for key in ("allOf", "also"):
            if not all(self.fits(value, part, depth + 1) for part in listed(schema.get(key))):
                return False
        if listed(schema.get("anyOf")) and not any(self.fits(value, part, depth + 1) for part in schema["anyOf"]):
            return False
        if listed(schema.get("oneOf")) and sum(self.fits(value, part, depth + 1) for part in schema["oneOf"]) != 1:
            return False
        if "not" in schema and self.fits(value, schema["not"], depth + 1):
            return False
        if "if" in schema:
            branch = "then" if self.fits(value, schema["if"], depth + 1) else "else"
            return branch not in schema or self.fits(value, schema[branch], depth + 1)
        return True

    def _fits_its_kind(self, value: object, schema: Schema, depth: int) -> bool:
        match value:
            case bool() | None:
                return True
            case int() | float():
                self.steps += value.bit_length() // 512 if isinstance(value, int) else 0
                return _number_fits(value, schema)
            case str():
                return self._text_fits(value, schema)
            case list():
                return self._list_fits(value, schema, depth)
            case dict():
                return self._object_fits(value, schema, depth)
            case _:
                return True

    def _text_fits(self, value: str, schema: Schema) -> bool:
        if not length(schema, "minLength", 0) <= len(value) <= length(schema, "maxLength", len(value)):
            return False
        return "pattern" not in schema or self.matched(schema["pattern"], value)

    def _list_fits(self, value: list[Any], schema: Schema, depth: int) -> bool:
        if not length(schema, "minItems", 0) <= len(value) <= length(schema, "maxItems", len(value)):
            return False
        if schema.get("uniqueItems") is True and len({canonical(each) for each in value}) < len(value):
            return False
        if not all(self.fits(each, self.item(schema, at), depth + 1) for at, each in enumerate(value)):
            return False
        return "contains" not in schema or any(self.fits(each, schema["contains"], depth + 1) for each in value)

    def item(self, schema: Schema, at: int) -> object:
        """The schema of a list's item at a place."""
        prefix = listed(schema.get("prefixItems")) or listed(schema.get("items"))
        if at < len(prefix):
            return prefix[at]
        rest = schema.get("additionalItems") if isinstance(schema.get("items"), list) else schema.get("items")
        return rest if isinstance(rest, bool | Mapping) else True

    def _object_fits(self, value: dict[str, Any], schema: Schema, depth: int) -> bool:
        if not length(schema, "minProperties", 0) <= len(value) <= length(schema, "maxProperties", len(value)):
            return False
        if any(name not in value for name in listed(schema.get("required")) if isinstance(name, str)):
            return False
        for name, needs in mapping(schema.get("dependentRequired")).items():
            if name in value and any(isinstance(need, str) and need not in value for need in listed(needs)):
                return False
        if "propertyNames" in schema and not all(self.fits(name, schema["propertyNames"], depth + 1) for name in value):
            return False
        return all(self.fits(each, part, depth + 1) for name, each in value.items() for part in self.property(schema, name))

    def matched(self, pattern: object, text: str) -> bool:
        """Whether a pattern matches; one that is not understood is taken to."""
        try:
            return not isinstance(pattern, str) or matches(pattern, text, self.patterns)
        except Unsupported:
            return True

    def property(self, schema: Schema, name: str) -> list[Any]:
        """The schemas of an object's property: its own, those whose pattern its name matches, or that of the rest."""
        known = mapping(schema.get("properties"))
        self.steps += len(mapping(schema.get("patternProperties")))
        found = [known[name]] if name in known else []
        found += [part for pattern, part in mapping(schema.get("patternProperties")).items() if self.matched(pattern, name)]
        rest = schema.get("additionalProperties")
        return found or ([rest] if isinstance(rest, bool | Mapping) else [])


def _is(value: object, kind: str) -> bool:
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


def _number_fits(value: int | float, schema: Schema) -> bool:
    low, high, above, below, step = (
        number(schema.get(key)) for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    )
    if schema.get("exclusiveMinimum") is True:  # as the oldest drafts have it
        above = low
    if schema.get("exclusiveMaximum") is True:
        below = high
    if (low is not None and value < low) or (high is not None and value > high):
        return False
    if (above is not None and value <= above) or (below is not None and value >= below):
        return False
    return step is None or step <= 0 or _multiple(value, step)


def _multiple(value: int | float, step: int | float) -> bool:
    """Exactly, and as validators reckon that divide floats."""
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        divided = value / step
        return divided.is_integer() and Fraction(str(value)) % Fraction(str(step)) == 0
    except OverflowError:
        return Fraction(value) % Fraction(step) == 0
