"""A check of JSON values against the schemas of OpenAI's published description (OpenAPI), as strict as `sdk_types`.

The description is not part of this project, nor of a package: pass a copy with `make pytest OPENAPI=openapi.json`. The description does not
forbid members that it does not list. This check does, unless a schema allows them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.provider_types.sdk_types import TAG_NAMES, Difference

SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


class Variant(NamedTuple):
    """One of the variants that a schema allows, with everything that it inherits."""

    json_types: tuple[str, ...] = ()
    allowed_values: tuple[Any, ...] = ()
    properties: dict[str, Any] = {}  # noqa: RUF012 - never changed
    required: frozenset[str] = frozenset()
    is_open: bool = False
    additional_properties: Any = None
    items: Any = None
    name: str = ""


class OpenAPIDescription:
    """OpenAI's description of its API."""

    def __init__(self, path: Path) -> None:
        self._schemas: dict[str, Any] = json.loads(path.read_text())["components"]["schemas"]
        self._variants: dict[int, list[Variant]] = {}

    def find_differences(self, value: Any, name: str) -> list[Difference]:
        """Return all differences between a value and the schema of this name."""
        return self._find_differences(value, {"$ref": f"#/components/schemas/{name}"}, "")

    def _find_differences(self, value: Any, schema: Any, path: str) -> list[Difference]:
        variants = self._list_variants(schema)
        tagged = [variant for variant in variants if self._has_tag(value, variant)]
        best: list[Difference] | None = None
        for variant in tagged or variants:
            differences = list(self._find_variant_differences(value, variant, path))
            if not differences:
                return []
            if best is None or len(differences) < len(best):
                best = differences
        if not tagged and len(variants) > 1 and isinstance(value, dict) and "type" in value:
            return [Difference(path, f"no variant of the schema is a {value['type']!r}")]
        return best or []

    def _find_variant_differences(self, value: Any, variant: Variant, path: str) -> Iterator[Difference]:
        if variant.allowed_values and not any(value == each and type(value) is type(each) for each in variant.allowed_values):
            yield Difference(path, f"{value!r:.80} is none of {', '.join(map(repr, variant.allowed_values))}")
        elif isinstance(value, dict):
            if variant.json_types and "object" not in variant.json_types:
                yield Difference(path, f"an object is no {' or '.join(variant.json_types)}")
                return
            yield from self._find_member_differences(value, variant, path)
        elif isinstance(value, list):
            if variant.json_types and "array" not in variant.json_types:
                yield Difference(path, f"a list is no {' or '.join(variant.json_types)}")
            elif variant.items is not None:
                for index, each in enumerate(value):
                    yield from self._find_differences(each, variant.items, f"{path}[{index}]")
        elif variant.json_types and not any(_is_scalar(value, kind) for kind in variant.json_types):
            yield Difference(path, f"{value!r:.80} is no {' or '.join(variant.json_types)}")

    def _find_member_differences(self, value: dict[str, Any], variant: Variant, path: str) -> Iterator[Difference]:
        for name in sorted(variant.required - value.keys()):
            yield Difference(f"{path}.{name}".lstrip("."), f"missing in {variant.name}")
        for name, each in value.items():
            here = f"{path}.{name}".lstrip(".")
            if name in variant.properties:
                yield from self._find_differences(each, variant.properties[name], here)
            elif isinstance(variant.additional_properties, dict):
                yield from self._find_differences(each, variant.additional_properties, here)
            elif variant.properties and not variant.is_open:
                yield Difference(here, f"unknown to {variant.name}")

    def _has_tag(self, value: Any, variant: Variant) -> bool:
        if not isinstance(value, dict):
            return False
        named = [name for name in TAG_NAMES if name in variant.required & variant.properties.keys()]
        tags = [(name, self._list_variants(variant.properties[name])) for name in named]
        constants = [(name, found[0].allowed_values) for name, found in tags if len(found) == 1 and found[0].allowed_values]
        return bool(constants) and all(value.get(name) in allowed for name, allowed in constants)

    def _list_variants(self, schema: dict[str, Any], name: str = "") -> list[Variant]:
        if id(schema) not in self._variants or "$ref" in schema:
            if "$ref" in schema:
                name = schema["$ref"].rpartition("/")[2]
                return self._list_variants(self._schemas[name], name)
            self._variants[id(schema)] = list(self._expand_schema(schema, name))
        return self._variants[id(schema)]

    def _expand_schema(self, schema: dict[str, Any], name: str) -> Iterator[Variant]:
        """Yield all variants of a schema: each choice of `anyOf` and `oneOf` with each part of `allOf` and with its own members."""
        parts = [[_make_variant(schema, name)]]
        parts += [self._list_variants(each, name) for each in schema.get("allOf", ())]
        choices = [schema[key] for key in ("anyOf", "oneOf") if key in schema]
        parts += [[variant for each in choice for variant in self._list_variants(each, name)] for choice in choices]
        for chosen in itertools.product(*parts):
            yield _merge_variants(chosen)
        if schema.get("nullable") is True:
            yield Variant(("null",))


def _make_variant(schema: dict[str, Any], name: str) -> Variant:
    kinds = schema.get("type", ())
    allowed = tuple(schema["enum"]) if "enum" in schema else (schema["const"],) if "const" in schema else ()
    others = schema.get("additionalProperties")
    return Variant(
        json_types=(kinds,) if isinstance(kinds, str) else tuple(kinds),
        allowed_values=allowed,
        properties=schema.get("properties", {}),
        required=frozenset(schema.get("required", ())),
        is_open=others is True or others == {},
        additional_properties=others if isinstance(others, dict) and others else None,
        items=schema.get("items"),
        name=name,
    )


def _merge_variants(parts: tuple[Variant, ...]) -> Variant:
    """Return a variant with the members of all parts."""
    return Variant(
        json_types=next((part.json_types for part in reversed(parts) if part.json_types), ()),
        allowed_values=next((part.allowed_values for part in reversed(parts) if part.allowed_values), ()),
        properties={name: schema for part in parts for name, schema in part.properties.items()},
        required=frozenset().union(*(part.required for part in parts)),
        is_open=any(part.is_open for part in parts),
        additional_properties=next((part.additional_properties for part in parts if part.additional_properties is not None), None),
        items=next((part.items for part in reversed(parts) if part.items is not None), None),
        name=next((part.name for part in reversed(parts) if part.name), ""),
    )


def _is_scalar(value: Any, kind: str) -> bool:
    return isinstance(value, SCALARS.get(kind, ())) and (kind == "boolean" or not isinstance(value, bool))
