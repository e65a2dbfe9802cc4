"""Checks of a value's shape, from which request_shape.py describes a Chat Completions request.

A check takes the switches in force, a value and its path, and yields what is wrong with it in the API's words, each with the id of the rule
that it breaks. Checks nest as deep as the shapes, never as deep as the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from legato.providers.rules.chat.rule_switches import ChatRuleSwitches
from legato.providers.rules.rule_set import Finding, ShapeFinding

# The default ids of the rules that checks find broken.
MISSING_MEMBER, WRONG_TYPE, UNSUPPORTED_VALUE, BELOW_MINIMUM, ABOVE_MAXIMUM = "CS1", "CS2", "CS3", "CS4", "CS5"
EMPTY_ARRAY, LONG_ARRAY, EMPTY_STRING, UNKNOWN_MEMBER = "CS6", "CS7", "CS8", "CS9"
NAME_PATTERN = re.compile("[a-zA-Z0-9_-]+")


ShapeCheck: TypeAlias = Callable[[ChatRuleSwitches, Any, str], Iterator[ShapeFinding]]


def describe_type(value: Any) -> str:
    """Return the type of a JSON value in the API's words.

    >>> describe_type(True), describe_type(3), describe_type(0.5), describe_type(None)
    ('a boolean', 'an integer', 'a decimal number', 'null')
    """
    if value is None:
        return "null"
    for type, name in ((bool, "a boolean"), (int, "an integer"), (float, "a decimal number"), (str, "a string"), (list, "an array")):
        if isinstance(value, type):
            return name
    return "an object"


def join_quoted(values: Sequence[str]) -> str:
    """Return values in quotes, as a list in prose.

    >>> join_quoted(["a", "b", "c"]), join_quoted(["a", "b"]), join_quoted(["a"])
    ("'a', 'b', and 'c'", "'a' and 'b'", "'a'")
    """
    quoted = [f"'{value}'" for value in values]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"


def format_number(number: int | float) -> str:
    """Return a number as errors print it. Integers of more than 40 digits are not printed."""
    return str(number) if isinstance(number, float) or abs(number) < 10**40 else "a very large number"


def wrong_type(path: str, expected: str, value: Any, rule_id: str = WRONG_TYPE) -> ShapeFinding:
    """Return the finding for a value of another type than expected."""
    message = f"Invalid type for '{path}': expected {expected}, but got {describe_type(value)} instead."
    return ShapeFinding(rule_id, Finding(message, param=path))


def missing_member(path: str) -> ShapeFinding:
    """Return the finding for a required member that is absent."""
    return ShapeFinding(MISSING_MEMBER, Finding(f"Missing required parameter: '{path}'.", param=path))


def unsupported_value(path: str, value: str, values: Sequence[str], rule_id: str = UNSUPPORTED_VALUE) -> ShapeFinding:
    """Return the finding for a value that is not among the supported ones."""
    return ShapeFinding(rule_id, Finding(f"Invalid value: '{value}'. Supported values are: {join_quoted(values)}.", param=path))


def any_value(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
    """Any value."""
    return iter(())


def boolean(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
    """A boolean."""
    if not isinstance(value, bool):
        yield wrong_type(path, "a boolean", value)


def string(*, limit_switch: str = "", too_long_rule: str = "", is_name: bool = False) -> ShapeCheck:
    """A string.

    `limit_switch`: the switch with its greatest length; `too_long_rule`: the rule that a longer one breaks. A name must match the pattern.
    """

    def check(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, str):
            yield wrong_type(path, "a string", value)
            return
        limit = getattr(switches, limit_switch) if limit_switch else 0
        if is_name and not value:
            expected = "Expected a string with minimum length 1, but got an empty string instead."
            yield ShapeFinding(EMPTY_STRING, Finding(f"Invalid '{path}': empty string. {expected}", param=path))
        elif limit and len(value) > limit:
            expected = f"Expected a string with maximum length {limit}, but got a string with length {len(value)} instead."
            yield ShapeFinding(too_long_rule, Finding(f"Invalid '{path}': string too long. {expected}", param=path))
        elif is_name and not NAME_PATTERN.fullmatch(value):
            expected = "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            yield ShapeFinding("C6", Finding(f"Invalid '{path}': string does not match pattern. {expected}", param=path))

    return check


def number(low: float | None = None, high: float | None = None, *, is_integer: bool = False) -> ShapeCheck:
    """A number within a range."""
    kind = "integer" if is_integer else "decimal"
    expected_type = "an integer" if is_integer else "a decimal"

    def check(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
        if isinstance(value, bool) or not isinstance(value, int if is_integer else int | float):
            yield wrong_type(path, expected_type, value)
        elif low is not None and not value >= low:
            message = f"Invalid '{path}': {kind} below minimum value. Expected a value >= {low}, but got {format_number(value)} instead."
            yield ShapeFinding(BELOW_MINIMUM, Finding(message, param=path, code=f"{kind}_below_min_value"))
        elif high is not None and value > high:
            message = f"Invalid '{path}': {kind} above maximum value. Expected a value <= {high}, but got {format_number(value)} instead."
            yield ShapeFinding(ABOVE_MAXIMUM, Finding(message, param=path, code=f"{kind}_above_max_value"))

    return check


def one_of(*values: str, rule_id: str = UNSUPPORTED_VALUE) -> ShapeCheck:
    """One of these strings."""

    def check(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, str):
            yield wrong_type(path, "a string", value)
        elif value not in values:
            yield unsupported_value(path, value, values, rule_id)

    return check


def array(
    check_element: ShapeCheck,
    element_kind: str = "objects",
    *,
    limit_switch: str = "",
    too_long_rule: str = LONG_ARRAY,
    empty_rule: str = "",
    type_rule: str = WRONG_TYPE,
) -> ShapeCheck:
    """An array.

    `limit_switch`: the switch with its greatest length; `too_long_rule`: the rule that a longer one breaks; `empty_rule`: the rule that an
    empty one breaks; none: it may be empty.
    """

    def check(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, list):
            yield wrong_type(path, f"an array of {element_kind}", value, type_rule)
            return
        limit = getattr(switches, limit_switch) if limit_switch else 0
        if empty_rule and not value:
            expected = "Expected an array with minimum length 1, but got an empty array instead."
            yield ShapeFinding(empty_rule, Finding(f"Invalid '{path}': empty array. {expected}", param=path))
        if limit and len(value) > limit:
            expected = f"Expected an array with maximum length {limit}, but got an array with length {len(value)} instead."
            yield ShapeFinding(too_long_rule, Finding(f"Invalid '{path}': array too long. {expected}", param=path))
        for index, element in enumerate(value):
            yield from check_element(switches, element, f"{path}[{index}]")

    return check


def object_of(required: Mapping[str, ShapeCheck], optional: Mapping[str, ShapeCheck] | None = None, *, is_open: bool = False) -> ShapeCheck:
    """An object. An open one may have further members. An optional member that is null counts as absent."""
    known = {**required, **(optional or {})}

    def check(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, dict):
            yield wrong_type(path, "an object", value)
            return
        for member, check_member in known.items():
            if member not in value:
                if member in required:
                    yield missing_member(f"{path}.{member}")
            elif value[member] is not None or member in required:
                yield from check_member(switches, value[member], f"{path}.{member}")
        if not is_open:
            for member in value:
                if member not in known:
                    yield ShapeFinding(UNKNOWN_MEMBER, Finding(f"Unknown parameter: '{path}.{member}'.", param=f"{path}.{member}"))

    return check


def tagged_union(tag: str, shapes: Mapping[str, ShapeCheck], *, rule_id: str = UNSUPPORTED_VALUE, default_tag: str = "") -> ShapeCheck:
    """An object whose member `tag` names its shape. Without a tag it has the default one, where shapes need not be strict."""

    def check(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
        if not isinstance(value, dict):
            yield wrong_type(path, "an object", value)
            return
        tag_path = f"{path}.{tag}"
        if tag not in value and default_tag and not switches.strict_shapes:
            yield from shapes[default_tag](switches, {**value, tag: default_tag}, path)
        elif tag not in value:
            yield missing_member(tag_path)
        elif not isinstance(value[tag], str):
            yield wrong_type(tag_path, "a string", value[tag])
        elif value[tag] not in shapes:
            yield unsupported_value(tag_path, value[tag], tuple(shapes), rule_id)
        else:
            yield from shapes[value[tag]](switches, value, path)

    return check


def string_or_array(check_string: ShapeCheck, check_array: ShapeCheck, expected: str, *, is_nullable: bool = False) -> ShapeCheck:
    """A string or an array. A nullable one may be null: another rule decides about that."""

    def check(switches: ChatRuleSwitches, value: Any, path: str) -> Iterator[ShapeFinding]:
        if isinstance(value, str):
            yield from check_string(switches, value, path)
        elif isinstance(value, list):
            yield from check_array(switches, value, path)
        elif value is not None or not is_nullable:
            yield wrong_type(path, expected, value)

    return check
