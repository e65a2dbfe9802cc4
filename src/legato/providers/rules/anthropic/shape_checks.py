"""Checks of a value's shape, from which request_shape.py describes a Messages request.

A check takes a value and its path, and yields what is wrong with it, each with the id of the rule that it breaks. The messages are those of
pydantic, by which the API validates. Checks nest as deep as the shapes, never as deep as the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from legato.providers.rules.rule_set import Finding, ShapeFinding

# The default ids of the rules that checks find broken.
MISSING_MEMBER, WRONG_TYPE, NOT_AN_OBJECT, UNSUPPORTED_VALUE, UNKNOWN_TAG = "MS1", "MS2", "MS3", "MS4", "MS5"
OUT_OF_RANGE, PATTERN_MISMATCH, STRING_TOO_LONG, UNKNOWN_MEMBER = "MS6", "MS7", "MS8", "M20b"

UNSET_NUMBER = -1
"""The value that some clients send for `top_k` and `top_p` in place of none (measured)."""


ShapeCheck: TypeAlias = Callable[[Any, str], Iterator[ShapeFinding]]


def shape_finding(rule_id: str, path: str, message: str) -> ShapeFinding:
    """Return the finding for a value at a path."""
    return ShapeFinding(rule_id, Finding(f"{path}: {message}", path=path))


def join_quoted(values: Sequence[str]) -> str:
    """Return values in quotes, as pydantic lists them.

    >>> join_quoted(["a", "b", "c"]), join_quoted(["a"])
    ("'a', 'b' or 'c'", "'a'")
    """
    *most, last = [f"'{value}'" for value in values]
    return f"{', '.join(most)} or {last}" if most else last


def any_value(value: Any, path: str) -> Iterator[ShapeFinding]:
    """Any value."""
    return iter(())


def boolean(value: Any, path: str) -> Iterator[ShapeFinding]:
    """A boolean."""
    if not isinstance(value, bool):
        yield shape_finding(WRONG_TYPE, path, "Input should be a valid boolean")


def any_object(value: Any, path: str) -> Iterator[ShapeFinding]:
    """An object with any members."""
    if not isinstance(value, dict):
        yield shape_finding(WRONG_TYPE, path, "Input should be a valid dictionary")


def string(*, pattern: str = "", mismatch_rule: str = PATTERN_MISMATCH, max_chars: int = 0) -> ShapeCheck:
    """A string."""
    compiled_pattern = re.compile(pattern)

    def check(value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, str):
            yield shape_finding(WRONG_TYPE, path, "Input should be a valid string")
        elif max_chars and len(value) > max_chars:
            yield shape_finding(STRING_TOO_LONG, path, f"String should have at most {max_chars} characters")
        elif pattern and (not compiled_pattern.match(value) or value.endswith("\n")):
            yield shape_finding(mismatch_rule, path, f"String should match pattern '{pattern}'")

    return check


def number(low: float | None = None, high: float | None = None, *, is_integer: bool = False) -> ShapeCheck:
    """A number within a range."""

    def check(value: Any, path: str) -> Iterator[ShapeFinding]:
        if isinstance(value, bool) or not isinstance(value, int if is_integer else int | float):
            yield shape_finding(WRONG_TYPE, path, f"Input should be a valid {'integer' if is_integer else 'number'}")
        elif low is not None and not value >= low:
            yield shape_finding(OUT_OF_RANGE, path, f"Input should be greater than or equal to {low}")
        elif high is not None and value > high:
            yield shape_finding(OUT_OF_RANGE, path, f"Input should be less than or equal to {high}")

    return check


def number_or_unset(check: ShapeCheck) -> ShapeCheck:
    """A number that counts as absent if it is -1."""
    return lambda value, path: iter(()) if value == UNSET_NUMBER and not isinstance(value, bool) else check(value, path)


def one_of(*values: str) -> ShapeCheck:
    """One of these strings."""

    def check(value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, str) or value not in values:
            yield shape_finding(UNSUPPORTED_VALUE, path, f"Input should be {join_quoted(values)}")

    return check


def array(check_element: ShapeCheck) -> ShapeCheck:
    """A list."""

    def check(value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, list):
            yield shape_finding(WRONG_TYPE, path, "Input should be a valid list")
            return
        for index, element in enumerate(value):
            yield from check_element(element, f"{path}.{index}")

    return check


def string_or(check_other: ShapeCheck) -> ShapeCheck:
    """A string, or another value that is allowed in its place."""
    return lambda value, path: iter(()) if isinstance(value, str) else check_other(value, path)


def string_or_array(check_string: ShapeCheck, check_array: ShapeCheck) -> ShapeCheck:
    """A string or a list. For any other value the error speaks of a list."""
    return lambda value, path: (check_string if isinstance(value, str) else check_array)(value, path)


def object_of(
    required: Mapping[str, ShapeCheck],
    optional: Mapping[str, ShapeCheck] | None = None,
    *,
    is_open: bool = False,
    absence_rules: Mapping[str, str] | None = None,
) -> ShapeCheck:
    """An object. An open one may have further members. `absence_rules`: the rules of members whose absence has its own.

    A null member counts as absent unless it is required (D).
    """
    known = {**required, **(optional or {})}
    rules = {member: (absence_rules or {}).get(member, MISSING_MEMBER) for member in required}

    def check(value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, dict):
            yield shape_finding(NOT_AN_OBJECT, path, "Input should be a valid dictionary or object to extract fields from")
            return
        for member, check_member in known.items():
            if member in value and (member in required or value[member] is not None):
                yield from check_member(value[member], f"{path}.{member}")
            elif member in required:
                yield shape_finding(rules[member], f"{path}.{member}", "Field required")
        if not is_open:
            for member in value:
                if member not in known:
                    yield shape_finding(UNKNOWN_MEMBER, f"{path}.{member}", "Extra inputs are not permitted")

    return check


def tagged_union(shapes: Mapping[str, ShapeCheck], *, default_tag: str = "") -> ShapeCheck:
    """An object whose `type` names its shape, and becomes a part of its path. Without a type it has the default one."""
    expected = ", ".join(f"'{tag}'" for tag in sorted(shapes))

    def check(value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, dict):
            yield shape_finding(NOT_AN_OBJECT, path, "Input should be a valid dictionary or object to extract fields from")
            return
        tag = value.get("type")
        if tag is None and default_tag:
            tag = default_tag
        if "type" not in value and not default_tag:
            yield shape_finding(MISSING_MEMBER, f"{path}.type", "Field required")
        elif not isinstance(tag, str):
            yield shape_finding(WRONG_TYPE, f"{path}.type", "Input should be a valid string")
        elif tag not in shapes:
            yield shape_finding(
                UNKNOWN_TAG, path, f"Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}"
            )
        else:
            yield from shapes[tag](value, f"{path}.{tag}")

    return check
