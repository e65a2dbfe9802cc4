"""Checks a JSON value against a schema of OpenAI's published description (OpenAPI), as strictly as `sdk_types` does.

The description is not part of this project and of no package; whoever has a copy of it names the file (`make pytest OPENAPI=openapi.json`).
It does not say that objects have no other members than those that it lists. Here they have not, unless it says that they may.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.provider_types.sdk_types import TAGS, Difference

SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


class Variant(NamedTuple):
    """One of the forms that a schema allows, with all that it inherits."""

    kinds: tuple[str, ...] = ()
    allowed: tuple[Any, ...] = ()
    properties: dict[str, Any] = {}  # noqa: RUF012 - never changed
    required: frozenset[str] = frozenset()
    is_open: bool = False
    others: Any = None
    items: Any = None
    name: str = ""


class Description:
    """OpenAI's description of its API."""

    def __init__(self, path: Path) -> None:
        self._schemas: dict[str, Any] = json.loads(path.read_text())["components"]["schemas"]
        self._variants: dict[int, list[Variant]] = {}

    def compare(self, value: Any, name: str) -> list[Difference]:
        """All differences between a value and the schema of this name."""
        return self._compare(value, {"$ref": f"#/components/schemas/{name}"}, "")

    def _compare(self, value: Any, schema: Any, path: str) -> list[Difference]:
        variants = self._variants_of(schema)
        tagged = [variant for variant in variants if self._has_tag(value, variant)]
        best: list[Difference] | None = None
        for variant in tagged or variants:
            differences = list(self._compare_variant(value, variant, path))
            if not differences:
                return []
            if best is None or len(differences) < len(best):
                best = differences
        if not tagged and len(variants) > 1 and isinstance(value, dict) and "type" in value:
            return [Difference(path, f"no variant of the schema is a {value['type']!r}")]
        return best or []

    def _compare_variant(self, value: Any, variant: Variant, path: str) -> Iterator[Difference]:
        if variant.allowed and not any(value == each and type(value) is type(each) for each in variant.allowed):
            yield Difference(path, f"{value!r:.80} is none of {', '.join(map(repr, variant.allowed))}")
        elif isinstance(value, dict):
            if variant.kinds and "object" not in variant.kinds:
                yield Difference(path, f"an object is no {' or '.join(variant.kinds)}")
                return
            yield from self._compare_members(value, variant, path)
        elif isinstance(value, list):
            if variant.kinds and "array" not in variant.kinds:
                yield Difference(path, f"a list is no {' or '.join(variant.kinds)}")
            elif variant.items is not None:
                for index, each in enumerate(value):
                    yield from self._compare(each, variant.items, f"{path}[{index}]")
        elif variant.kinds and not any(_is_scalar(value, kind) for kind in variant.kinds):
            yield Difference(path, f"{value!r:.80} is no {' or '.join(variant.kinds)}")

    def _compare_members(self, value: dict[str, Any], variant: Variant, path: str) -> Iterator[Difference]:
        for name in sorted(variant.required - value.keys()):
            yield Difference(f"{path}.{name}".lstrip("."), f"missing in {variant.name}")
        for name, each in value.items():
            here = f"{path}.{name}".lstrip(".")
            if name in variant.properties:
                yield from self._compare(each, variant.properties[name], here)
            elif isinstance(variant.others, dict):
                yield from self._compare(each, variant.others, here)
            elif variant.properties and not variant.is_open:
                yield Difference(here, f"unknown to {variant.name}")

    def _has_tag(self, value: Any, variant: Variant) -> bool:
        if not isinstance(value, dict):
            return False
        named = [name for name in TAGS if name in variant.required & variant.properties.keys()]
        tags = [(name, self._variants_of(variant.properties[name])) for name in named]
        constants = [(name, found[0].allowed) for name, found in tags if len(found) == 1 and found[0].allowed]
        return bool(constants) and all(value.get(name) in allowed for name, allowed in constants)

    def _variants_of(self, schema: dict[str, Any], name: str = "") -> list[Variant]:
        if id(schema) not in self._variants or "$ref" in schema:
            if "$ref" in schema:
                name = schema["$ref"].rpartition("/")[2]
                return self._variants_of(self._schemas[name], name)
            self._variants[id(schema)] = list(self._expanded(schema, name))
        return self._variants[id(schema)]

    def _expanded(self, schema: dict[str, Any], name: str) -> Iterator[Variant]:
        """All forms of a schema: each choice of `anyOf` and `oneOf` with each part of `allOf` and with its own members."""
        parts = [[_own(schema, name)]]
        parts += [self._variants_of(each, name) for each in schema.get("allOf", ())]
        choices = [schema[key] for key in ("anyOf", "oneOf") if key in schema]
        parts += [[variant for each in choice for variant in self._variants_of(each, name)] for choice in choices]
        for chosen in itertools.product(*parts):
            yield _merged(chosen)
        if schema.get("nullable") is True:
            yield Variant(("null",))


def _own(schema: dict[str, Any], name: str) -> Variant:
    kinds = schema.get("type", ())
    allowed = tuple(schema["enum"]) if "enum" in schema else (schema["const"],) if "const" in schema else ()
    others = schema.get("additionalProperties")
    return Variant(
        kinds=(kinds,) if isinstance(kinds, str) else tuple(kinds),
        allowed=allowed,
        properties=schema.get("properties", {}),
        required=frozenset(schema.get("required", ())),
        is_open=others is True or others == {},
        others=others if isinstance(others, dict) and others else None,
        items=schema.get("items"),
        name=name,
    )


def _merged(parts: tuple[Variant, ...]) -> Variant:
    """All parts at once."""
    return Variant(
        kinds=next((part.kinds for part in reversed(parts) if part.kinds), ()),
        allowed=next((part.allowed for part in reversed(parts) if part.allowed), ()),
        properties={name: schema for part in parts for name, schema in part.properties.items()},
        required=frozenset().union(*(part.required for part in parts)),
        is_open=any(part.is_open for part in parts),
        others=next((part.others for part in parts if part.others is not None), None),
        items=next((part.items for part in reversed(parts) if part.items is not None), None),
        name=next((part.name for part in reversed(parts) if part.name), ""),
    )


def _is_scalar(value: Any, kind: str) -> bool:
    return isinstance(value, SCALARS.get(kind, ())) and (kind == "boolean" or not isinstance(value, bool))
