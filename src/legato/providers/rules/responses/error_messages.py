"""OpenAI's error messages about a value, each as a finding, and OpenAI's names of JSON types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.providers.rules.rule_set import Finding

AS_OF = "2026-11"
"""The month of the newest evidence, for rules that do not name another."""


def describe_type(value: Any) -> str:
    """Return the type of a JSON value in OpenAI's words. A boolean is no integer.

    >>> describe_type(True), describe_type(7), describe_type(0.5), describe_type(None)
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


def join_quoted(values: Sequence[str], conjunction: str = "and") -> str:
    """Return values in quotes, as a list in prose.

    >>> join_quoted(["a", "b"]), join_quoted(["a", "b", "c"], "or")
    ("'a' and 'b'", "'a', 'b', or 'c'")
    """
    quoted = [f"'{value}'" for value in values]
    if len(quoted) < 3:
        return f" {conjunction} ".join(quoted)
    return f"{', '.join(quoted[:-1])}, {conjunction} {quoted[-1]}"


def format_number(number: int | float) -> str:
    """Return a number as it was sent. Python refuses to print integers of thousands of digits."""
    if isinstance(number, int) and number.bit_length() > 4096:
        return "a very large integer"
    return str(number)


def wrong_type(path: str, expected: str, value: Any) -> Finding:
    """Return the finding for a value of another type than expected."""
    return Finding(f"Invalid type for '{path}': expected {expected}, but got {describe_type(value)} instead.", path, code="invalid_type")


def missing_member(path: str) -> Finding:
    """Return the finding for a required member that is absent."""
    return Finding(f"Missing required parameter: '{path}'.", path, code="missing_required_parameter")


def unknown_member(path: str) -> Finding:
    """Return the finding for an unknown member."""
    return Finding(f"Unknown parameter: '{path}'.", path, code="unknown_parameter")


def unsupported_value(path: str, value: Any, values: Sequence[str]) -> Finding:
    """Return the finding for a value that is not among the supported ones. Anything but a string is printed as an empty one."""
    text = value if isinstance(value, str) else ""
    return Finding(f"Invalid value: '{text}'. Supported values are: {join_quoted(values)}.", path, code="invalid_value")


def string_too_long(path: str, limit: int, text: str) -> Finding:
    """Return the finding for a string beyond its limit."""
    return Finding(
        f"Invalid '{path}': string too long. Expected a string with maximum length {limit}, "
        f"but got a string with length {len(text)} instead.",
        path,
        code="string_above_max_length",
    )


def empty_string(path: str) -> Finding:
    """Return the finding for a string that may not be empty."""
    return Finding(
        f"Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        path,
        code="empty_string",
    )


def pattern_mismatch(path: str, pattern: str) -> Finding:
    """Return the finding for a string that does not match its pattern."""
    return Finding(
        f"Invalid '{path}': string does not match pattern. Expected a string that matches the pattern '{pattern}'.",
        path,
        code="invalid_value",
    )


def array_too_long(path: str, limit: int, length: int) -> Finding:
    """Return the finding for an array beyond its limit."""
    return Finding(
        f"Invalid '{path}': array too long. Expected an array with maximum length {limit}, but got an array with length {length} instead.",
        path,
        code="array_above_max_length",
    )


def out_of_range(path: str, number: int | float, low: int | None, high: int | None, kind: str) -> Finding | None:
    """Return the finding for a number outside its bounds. None: it is within them. `kind`: 'integer' or 'decimal'.

    NaN is below every bound.
    """
    if low is not None and not number >= low:
        return Finding(
            f"Invalid '{path}': {kind} below minimum value. Expected a value >= {low}, but got {format_number(number)} instead.",
            path,
            code=f"{kind}_below_min_value",
        )
    if high is not None and number > high:
        return Finding(
            f"Invalid '{path}': {kind} above maximum value. Expected a value <= {high}, but got {format_number(number)} instead.",
            path,
            code=f"{kind}_above_max_value",
        )
    return None
