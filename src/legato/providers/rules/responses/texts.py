"""The provider's sentences. May know: faults. Decides: how OpenAI words what is wrong with a value, and how it names a JSON type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.providers.rules.rule_set import Fault

SEEN = "2026-11"


def named(value: Any) -> str:
    """A JSON value's type in OpenAI's words. A boolean is no integer.

    >>> named(True), named(7), named(0.5), named(None)
    ('a boolean', 'an integer', 'a decimal', 'null')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a decimal"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def listed(values: Sequence[str], word: str = "and") -> str:
    """Values in quotes, as a list in prose.

    >>> listed(["a", "b"]), listed(["a", "b", "c"], "or")
    ("'a' and 'b'", "'a', 'b', or 'c'")
    """
    quoted = [f"'{value}'" for value in values]
    if len(quoted) < 3:
        return f" {word} ".join(quoted)
    return f"{', '.join(quoted[:-1])}, {word} {quoted[-1]}"


def shown(number: int | float) -> str:
    """A number as it was sent. Python refuses to print integers of thousands of digits; nobody needs to read them."""
    if isinstance(number, int) and number.bit_length() > 4096:
        return "a very large integer"
    return str(number)


def wrong_type(path: str, expected: str, value: Any) -> Fault:
    """A value of another type than expected."""
    return Fault(f"Invalid type for '{path}': expected {expected}, but got {named(value)} instead.", path, code="invalid_type")


def missing(path: str) -> Fault:
    """A required member is not there."""
    return Fault(f"Missing required parameter: '{path}'.", path, code="missing_required_parameter")


def unknown(path: str) -> Fault:
    """A member that nobody knows."""
    return Fault(f"Unknown parameter: '{path}'.", path, code="unknown_parameter")


def not_one_of(path: str, value: Any, values: Sequence[str]) -> Fault:
    """A value outside its list. What is no string is printed as an empty one."""
    text = value if isinstance(value, str) else ""
    return Fault(f"Invalid value: '{text}'. Supported values are: {listed(values)}.", path, code="invalid_value")


def too_long(path: str, limit: int, text: str) -> Fault:
    """A string beyond its limit."""
    return Fault(
        f"Invalid '{path}': string too long. Expected a string with maximum length {limit}, "
        f"but got a string with length {len(text)} instead.",
        path,
        code="string_above_max_length",
    )


def empty(path: str) -> Fault:
    """A string that may not be empty."""
    return Fault(
        f"Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        path,
        code="empty_string",
    )


def off_pattern(path: str, pattern: str) -> Fault:
    """A string with other characters than it may have."""
    return Fault(
        f"Invalid '{path}': string does not match pattern. Expected a string that matches the pattern '{pattern}'.",
        path,
        code="invalid_value",
    )


def array_too_long(path: str, limit: int, length: int) -> Fault:
    """An array beyond its limit."""
    return Fault(
        f"Invalid '{path}': array too long. Expected an array with maximum length {limit}, but got an array with length {length} instead.",
        path,
        code="array_above_max_length",
    )


def out_of_range(path: str, number: int | float, low: int | None, high: int | None, kind: str) -> Fault | None:
    """A number below or above its bounds; `kind` is 'integer' or 'decimal'. NaN is below everything."""
    if low is not None and not number >= low:
        return Fault(
            f"Invalid '{path}': {kind} below minimum value. Expected a value >= {low}, but got {shown(number)} instead.",
            path,
            code=f"{kind}_below_min_value",
        )
    if high is not None and number > high:
        return Fault(
            f"Invalid '{path}': {kind} above maximum value. Expected a value <= {high}, but got {shown(number)} instead.",
            path,
            code=f"{kind}_above_max_value",
        )
    return None
