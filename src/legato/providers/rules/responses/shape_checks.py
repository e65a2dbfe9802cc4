"""Checks of a value's type and range, from which the rules about fields are built.

A check takes the field's name and its value, and yields what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from legato.providers.rules.responses.error_messages import (
    join_quoted,
    missing_member,
    out_of_range,
    unknown_member,
    unsupported_value,
    wrong_type,
)
from legato.providers.rules.rule_set import Finding

ShapeCheck: TypeAlias = Callable[[str, Any], Iterator[Finding]]


def of_type(python_type: type, expected: str) -> ShapeCheck:
    """A value of a type. `expected`: the type in the server's words."""

    def check(name: str, value: Any) -> Iterator[Finding]:
        if not isinstance(value, python_type):
            yield wrong_type(name, expected, value)

    return check


def integer(low: int | None = None, high: int | None = None) -> ShapeCheck:
    """An integer within bounds."""

    def check(name: str, value: Any) -> Iterator[Finding]:
        if not isinstance(value, int) or isinstance(value, bool):
            yield wrong_type(name, "an integer", value)
        elif finding := out_of_range(name, value, low, high, "integer"):
            yield finding

    return check


def decimal(low: int, high: int) -> ShapeCheck:
    """A number within bounds."""

    def check(name: str, value: Any) -> Iterator[Finding]:
        if not isinstance(value, int | float) or isinstance(value, bool):
            yield wrong_type(name, "a decimal", value)
        elif finding := out_of_range(name, value, low, high, "decimal"):
            yield finding

    return check


def one_of(*values: str, unlisted: Sequence[str] = ()) -> ShapeCheck:
    """One of some strings. `unlisted`: values that are accepted although errors do not list them."""

    def check(name: str, value: Any) -> Iterator[Finding]:
        if not isinstance(value, str):
            yield wrong_type(name, f"one of {join_quoted(values, 'or')}", value)
        elif value not in values and value not in unlisted:
            yield unsupported_value(name, value, values)

    return check


def object_of(**members: ShapeCheck | None) -> ShapeCheck:
    """An object with these members and no others. A null member counts as absent."""

    def check(name: str, value: Any) -> Iterator[Finding]:
        if not isinstance(value, dict):
            yield wrong_type(name, "an object", value)
            return
        for member, inner in value.items():
            if member not in members:
                yield unknown_member(f"{name}.{member}")
            elif inner is not None and (find := members[member]) is not None:
                yield from find(f"{name}.{member}", inner)

    return check


string = of_type(str, "a string")
boolean = of_type(bool, "a boolean")
an_object = of_type(dict, "an object")


def array_of_values(values: Sequence[str]) -> ShapeCheck:
    """An array of some of the values. Errors about the type shorten their names."""
    short = join_quoted([f"{value[:3]}...{value[-3:]}" for value in values], "or")

    def check(name: str, value: Any) -> Iterator[Finding]:
        if not isinstance(value, list):
            yield wrong_type(name, f"an array of one of {short}", value)
            return
        for index, element in enumerate(value):
            if not isinstance(element, str):
                yield wrong_type(f"{name}[{index}]", f"one of {short}", element)
            elif element not in values:
                yield unsupported_value(f"{name}[{index}]", element, values)

    return check


def object_with_id(expected: str) -> ShapeCheck:
    """An object with an id."""

    def check(name: str, value: Any) -> Iterator[Finding]:
        if not isinstance(value, dict):
            yield wrong_type(name, expected, value)
        elif "id" not in value:
            yield missing_member(f"{name}.id")
        else:
            yield from string(f"{name}.id", value["id"])

    return check


def array_of_objects(name: str, value: Any) -> Iterator[Finding]:
    """An array of objects."""
    if not isinstance(value, list):
        yield wrong_type(name, "an array of objects", value)
        return
    for index, element in enumerate(value):
        yield from an_object(f"{name}[{index}]", element)
