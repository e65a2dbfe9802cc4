"""A check of JSON values against the types of an SDK, stricter than the SDK: nothing missing, nothing unknown, nothing converted.

The SDKs' models accept any object and convert nothing, so that old clients survive new servers. Here each member must be declared, each
declared member without a default must exist, and a number is not a string.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from typing_extensions import is_typeddict

TAG_NAMES = ("type", "object", "role")
"""Members that distinguish the variants of a union."""


class Difference(NamedTuple):
    """One difference between a value and its type: the path, and the problem."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: {self.problem}"


class Member(NamedTuple):
    """A member of an object, as its type declares it."""

    annotation: Any
    required: bool


def find_differences(value: Any, annotation: Any, path: str = "") -> list[Difference]:
    """Return all differences between a JSON value and a type."""
    return list(_find_differences(value, annotation, path))


def _find_differences(value: Any, annotation: Any, path: str) -> Iterator[Difference]:
    annotation = _unwrap_annotation(annotation)
    if annotation is Any or annotation is object:
        return
    origin = get_origin(annotation)
    if origin is Union or origin is types.UnionType:
        yield from _compare_with_closest_variant(value, _list_variants(annotation), path)
    elif origin is Literal:
        if not any(value == allowed and type(value) is type(allowed) for allowed in get_args(annotation)):
            yield Difference(path, f"{_render_value(value)} is none of {', '.join(map(repr, get_args(annotation)))}")
    elif origin in (list, typing.Iterable) or annotation is list:
        if not isinstance(value, list):
            yield Difference(path, f"{_render_value(value)} is no list")
            return
        inner = get_args(annotation)[0] if get_args(annotation) else Any
        for index, each in enumerate(value):
            yield from _find_differences(each, inner, f"{path}[{index}]")
    elif origin is dict or annotation is dict:
        if not isinstance(value, dict):
            yield Difference(path, f"{_render_value(value)} is no object")
            return
        inner = get_args(annotation)[1] if get_args(annotation) else Any
        for name, each in value.items():
            yield from _find_differences(each, inner, f"{path}.{name}")
    elif _is_object(annotation if origin is None else origin):
        yield from _find_member_differences(value, annotation, path)
    elif not _is_scalar(value, annotation):
        yield Difference(path, f"{_render_value(value)} is no {getattr(annotation, '__name__', annotation)}")


def _find_member_differences(value: Any, annotation: Any, path: str) -> Iterator[Difference]:
    if not isinstance(value, dict):
        yield Difference(path, f"{_render_value(value)} is no object")
        return
    members = list_members(annotation)
    for name, member in members.items():
        if name in value:
            yield from _find_differences(value[name], member.annotation, f"{path}.{name}".lstrip("."))
        elif member.required:
            yield Difference(f"{path}.{name}".lstrip("."), f"missing in {getattr(annotation, '__name__', annotation)}")
    for name in value.keys() - members.keys():
        yield Difference(f"{path}.{name}".lstrip("."), f"unknown to {getattr(annotation, '__name__', annotation)}")


def _list_variants(annotation: Any) -> tuple[Any, ...]:
    """Return the types that a union allows, including those of nested unions."""
    annotation = _unwrap_annotation(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for each in get_args(annotation) for inner in _list_variants(each))
    return (annotation,)


def _compare_with_closest_variant(value: Any, variants: tuple[Any, ...], path: str) -> list[Difference]:
    """Return the differences from the most likely variant: one whose literals match, with the fewest differences."""
    tagged = [variant for variant in variants if _has_tag(value, variant)]
    best: list[Difference] | None = None
    for variant in tagged or variants:
        differences = find_differences(value, variant, path)
        if not differences:
            return []
        if best is None or len(differences) < len(best):
            best = differences
    if not tagged and len(variants) > 1 and isinstance(value, dict) and "type" in value:
        return [Difference(path, f"no variant of the type is a {value['type']!r}")]
    return best or [Difference(path, f"{_render_value(value)} has no type that is allowed")]


def _has_tag(value: Any, variant: Any) -> bool:
    """Return True if an object has the required literals that identify a variant of a union."""
    if not isinstance(value, dict) or not _is_object(variant):
        return False
    tags = {
        name: get_args(_unwrap_annotation(member.annotation)) for name, member in list_members(variant).items() if _is_tag(name, member)
    }
    return bool(tags) and all(value.get(name) in allowed for name, allowed in tags.items())


def _is_tag(name: str, member: Member) -> bool:
    return name in TAG_NAMES and member.required and get_origin(_unwrap_annotation(member.annotation)) is Literal


@cache
def list_members(annotation: Any) -> dict[str, Member]:
    """Return the members of an object's type, by their names in JSON."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {
            field.alias or name: Member(field.annotation, field.is_required())
            for name, field in annotation.model_fields.items()
            if not name.startswith("_")
        }
    hints = get_type_hints(annotation, include_extras=True)
    return {name: Member(hint, name in annotation.__required_keys__) for name, hint in hints.items()}


def _unwrap_annotation(annotation: Any) -> Any:
    """Return the type itself, without its annotations."""
    while get_origin(annotation) in (Annotated, typing.Required, typing.NotRequired):
        annotation = get_args(annotation)[0]
    return annotation


def _is_object(annotation: Any) -> bool:
    return isinstance(annotation, type) and (issubclass(annotation, BaseModel) or is_typeddict(annotation))


def _is_scalar(value: Any, annotation: Any) -> bool:
    if annotation is None or annotation is type(None):
        return value is None
    if annotation is datetime:
        return isinstance(value, str) and _is_time(value)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is annotation


def _is_time(text: str) -> bool:
    try:
        return bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def _render_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
