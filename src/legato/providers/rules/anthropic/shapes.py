"""How the shape of a Messages request is written down, and what differs from it. May know: this API's words.

Decides: nothing about any field; `request.py` has the shapes. The words are those of pydantic, by which the API validates. A check looks
at one value and gives, in order, what is wrong with it, each with the id of the clause it breaks. Checks nest as deep as the shapes,
never as deep as the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from legato.providers.rules.rule_set import Fault

MISSING, TYPE, OBJECT, VALUE, TAG, RANGE, PATTERN, LENGTH, EXTRA = "MS1", "MS2", "MS3", "MS4", "MS5", "MS6", "MS7", "MS8", "M20b"
UNSET = -1
"""What some clients send for `top_k` and `top_p` where they are not set (measured)."""


class Found(Struct, frozen=True):
    """A difference, and the clause that it breaks."""

    clause: str
    fault: Fault


Check: TypeAlias = Callable[[Any, str], Iterator[Found]]


def found(clause: str, path: str, told: str) -> Found:
    """A difference at a place."""
    return Found(clause, Fault(f"{path}: {told}", path=path))


def listed(values: Sequence[str]) -> str:
    """Values as pydantic lists them.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ("'a', 'b' or 'c'", "'a'")
    """
    *most, last = [f"'{value}'" for value in values]
    return f"{', '.join(most)} or {last}" if most else last


def anything(value: Any, path: str) -> Iterator[Found]:
    """Nothing is asked of this value."""
    return iter(())


def flag(value: Any, path: str) -> Iterator[Found]:
    """A boolean."""
    if not isinstance(value, bool):
        yield found(TYPE, path, "Input should be a valid boolean")


def free(value: Any, path: str) -> Iterator[Found]:
    """An object with any members."""
    if not isinstance(value, dict):
        yield found(TYPE, path, "Input should be a valid dictionary")


def text(*, pattern: str = "", mismatch: str = PATTERN, most: int = 0) -> Check:
    """A string."""
    shape = re.compile(pattern)

    def check(value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, str):
            yield found(TYPE, path, "Input should be a valid string")
        elif most and len(value) > most:
            yield found(LENGTH, path, f"String should have at most {most} characters")
        elif pattern and (not shape.match(value) or value.endswith("\n")):
            yield found(mismatch, path, f"String should match pattern '{pattern}'")

    return check


def number(low: float | None = None, high: float | None = None, *, whole: bool = False) -> Check:
    """A number within a range."""

    def check(value: Any, path: str) -> Iterator[Found]:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            yield found(TYPE, path, f"Input should be a valid {'integer' if whole else 'number'}")
        elif low is not None and not value >= low:
            yield found(RANGE, path, f"Input should be greater than or equal to {low}")
        elif high is not None and value > high:
            yield found(RANGE, path, f"Input should be less than or equal to {high}")

    return check


def unless_unset(check: Check) -> Check:
    """A number that counts as left out where it is -1."""
    return lambda value, path: iter(()) if value == UNSET and not isinstance(value, bool) else check(value, path)


def choice(*values: str) -> Check:
    """One of these strings."""

    def check(value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, str) or value not in values:
            yield found(VALUE, path, f"Input should be {listed(values)}")

    return check


def array(item: Check) -> Check:
    """A list."""

    def check(value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, list):
            yield found(TYPE, path, "Input should be a valid list")
            return
        for index, each in enumerate(value):
            yield from item(each, f"{path}.{index}")

    return check


def text_or(other: Check) -> Check:
    """A string, or what else is allowed in its place."""
    return lambda value, path: iter(()) if isinstance(value, str) else other(value, path)


def either(whole: Check, parts: Check) -> Check:
    """A string or a list. What is neither is said to be no list."""
    return lambda value, path: (whole if isinstance(value, str) else parts)(value, path)


def record(
    required: Mapping[str, Check],
    optional: Mapping[str, Check] | None = None,
    *,
    open: bool = False,
    lacks: Mapping[str, str] | None = None,
) -> Check:
    """An object. In an `open` one further members are not looked at. `lacks` has the clauses of members whose absence has its own.

    Null counts as left out, except for what must be there (D).
    """
    known = {**required, **(optional or {})}
    absence = {member: (lacks or {}).get(member, MISSING) for member in required}

    def check(value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, dict):
            yield found(OBJECT, path, "Input should be a valid dictionary or object to extract fields from")
            return
        for member, each in known.items():
            if member in value and (member in required or value[member] is not None):
                yield from each(value[member], f"{path}.{member}")
            elif member in required:
                yield found(absence[member], f"{path}.{member}", "Field required")
        if not open:
            for member in value:
                if member not in known:
                    yield found(EXTRA, f"{path}.{member}", "Extra inputs are not permitted")

    return check


def tagged(shapes: Mapping[str, Check], *, default: str = "") -> Check:
    """An object whose `type` says which of the shapes it has; the type becomes a part of the path. `default` is that without a type."""
    expected = ", ".join(f"'{tag}'" for tag in sorted(shapes))

    def check(value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, dict):
            yield found(OBJECT, path, "Input should be a valid dictionary or object to extract fields from")
            return
        tag = value.get("type")
        if tag is None and default:
            tag = default
        if "type" not in value and not default:
            yield found(MISSING, f"{path}.type", "Field required")
        elif not isinstance(tag, str):
            yield found(TYPE, f"{path}.type", "Input should be a valid string")
        elif tag not in shapes:
            yield found(TAG, path, f"Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}")
        else:
            yield from shapes[tag](value, f"{path}.{tag}")

    return check
