"""How the shape of a Chat Completions request is written down, and what differs from it. May know: this API's words.

Decides: nothing about any field; `request.py` has the shapes. A check looks at one value and gives, in order, what is wrong with it,
each with the id of the clause it breaks. Checks nest as deep as the shapes, never as deep as the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from legato.providers.rules.chat.profile import Profile
from legato.providers.rules.rule_set import Fault

MISSING, TYPE, VALUE, BELOW, ABOVE = "CS1", "CS2", "CS3", "CS4", "CS5"
EMPTY_ARRAY, LONG_ARRAY, EMPTY_TEXT, UNKNOWN_MEMBER = "CS6", "CS7", "CS8", "CS9"
NAME = re.compile("[a-zA-Z0-9_-]+")


class Found(Struct, frozen=True):
    """A difference, and the clause that it breaks."""

    clause: str
    fault: Fault


Check: TypeAlias = Callable[[Profile, Any, str], Iterator[Found]]


def kind(value: Any) -> str:
    """What a value is, in the API's words.

    >>> kind(True), kind(3), kind(0.5), kind(None)
    ('a boolean', 'an integer', 'a decimal number', 'null')
    """
    if value is None:
        return "null"
    for of, word in ((bool, "a boolean"), (int, "an integer"), (float, "a decimal number"), (str, "a string"), (list, "an array")):
        if isinstance(value, of):
            return word
    return "an object"


def listed(values: Sequence[str]) -> str:
    """Names as the API lists them.

    >>> listed(["a", "b", "c"]), listed(["a", "b"]), listed(["a"])
    ("'a', 'b', and 'c'", "'a' and 'b'", "'a'")
    """
    quoted = [f"'{value}'" for value in values]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"


def shown(number: int | float) -> str:
    """A number in a message. One that nobody would print is not."""
    return str(number) if isinstance(number, float) or abs(number) < 10**40 else "a very large number"


def wrong_type(path: str, expected: str, value: Any, clause: str = TYPE) -> Found:
    """A value is of another type than it should be."""
    return Found(clause, Fault(f"Invalid type for '{path}': expected {expected}, but got {kind(value)} instead.", param=path))


def missing(path: str) -> Found:
    """A member is not there."""
    return Found(MISSING, Fault(f"Missing required parameter: '{path}'.", param=path))


def unsupported(path: str, value: str, values: Sequence[str], clause: str = VALUE) -> Found:
    """A value is none of those that are known."""
    return Found(clause, Fault(f"Invalid value: '{value}'. Supported values are: {listed(values)}.", param=path))


def anything(profile: Profile, value: Any, path: str) -> Iterator[Found]:
    """Nothing is asked of this value."""
    return iter(())


def flag(profile: Profile, value: Any, path: str) -> Iterator[Found]:
    """A boolean."""
    if not isinstance(value, bool):
        yield wrong_type(path, "a boolean", value)


def text(*, limit: str = "", long: str = "", name: bool = False) -> Check:
    """A string. `limit` is the profile's field with its greatest length, `long` the clause; a `name` must match the names' pattern."""

    def check(profile: Profile, value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, str):
            yield wrong_type(path, "a string", value)
            return
        most = getattr(profile, limit) if limit else 0
        if name and not value:
            yield Found(
                EMPTY_TEXT,
                Fault(
                    f"Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead.",
                    param=path,
                ),
            )
        elif most and len(value) > most:
            told = f"Expected a string with maximum length {most}, but got a string with length {len(value)} instead."
            yield Found(long, Fault(f"Invalid '{path}': string too long. {told}", param=path))
        elif name and not NAME.fullmatch(value):
            told = "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            yield Found("C6", Fault(f"Invalid '{path}': string does not match pattern. {told}", param=path))

    return check


def number(low: float | None = None, high: float | None = None, *, whole: bool = False) -> Check:
    """A number within a range."""
    word = "integer" if whole else "decimal"
    expected = "an integer" if whole else "a decimal"

    def check(profile: Profile, value: Any, path: str) -> Iterator[Found]:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            yield wrong_type(path, expected, value)
        elif low is not None and not value >= low:
            told = f"{word} below minimum value. Expected a value >= {low}, but got {shown(value)} instead."
            yield Found(BELOW, Fault(f"Invalid '{path}': {told}", param=path, code=f"{word}_below_min_value"))
        elif high is not None and value > high:
            told = f"{word} above maximum value. Expected a value <= {high}, but got {shown(value)} instead."
            yield Found(ABOVE, Fault(f"Invalid '{path}': {told}", param=path, code=f"{word}_above_max_value"))

    return check


def choice(*values: str, clause: str = VALUE) -> Check:
    """One of these strings."""

    def check(profile: Profile, value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, str):
            yield wrong_type(path, "a string", value)
        elif value not in values:
            yield unsupported(path, value, values, clause)

    return check


def array(item: Check, of: str = "objects", *, limit: str = "", long: str = LONG_ARRAY, empty: str = "", type_clause: str = TYPE) -> Check:
    """An array; `empty` is the clause that an empty one breaks, `limit` the profile's field with its greatest length."""

    def check(profile: Profile, value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, list):
            yield wrong_type(path, f"an array of {of}", value, type_clause)
            return
        most = getattr(profile, limit) if limit else 0
        if empty and not value:
            told = "Expected an array with minimum length 1, but got an empty array instead."
            yield Found(empty, Fault(f"Invalid '{path}': empty array. {told}", param=path))
        if most and len(value) > most:
            told = f"Expected an array with maximum length {most}, but got an array with length {len(value)} instead."
            yield Found(long, Fault(f"Invalid '{path}': array too long. {told}", param=path))
        for index, each in enumerate(value):
            yield from item(profile, each, f"{path}[{index}]")

    return check


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None, *, open: bool = False) -> Check:
    """An object. In an `open` one further members are not looked at. An optional member that is null counts as left out."""
    known = {**required, **(optional or {})}

    def check(profile: Profile, value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, dict):
            yield wrong_type(path, "an object", value)
            return
        for member, each in known.items():
            if member not in value:
                if member in required:
                    yield missing(f"{path}.{member}")
            elif value[member] is not None or member in required:
                yield from each(profile, value[member], f"{path}.{member}")
        if not open:
            for member in value:
                if member not in known:
                    at = f"{path}.{member}"
                    yield Found(UNKNOWN_MEMBER, Fault(f"Unknown parameter: '{at}'.", param=at))

    return check


def tagged(tag: str, shapes: Mapping[str, Check], *, clause: str = VALUE, default: str = "") -> Check:
    """An object whose member `tag` says which of the shapes it has. Without it, it has the `default` one, if shapes need not be strict."""

    def check(profile: Profile, value: Any, path: str) -> Iterator[Found]:
        if not isinstance(value, dict):
            yield wrong_type(path, "an object", value)
            return
        at = f"{path}.{tag}"
        if tag not in value and default and not profile.strict_shapes:
            yield from shapes[default](profile, {**value, tag: default}, path)
        elif tag not in value:
            yield missing(at)
        elif not isinstance(value[tag], str):
            yield wrong_type(at, "a string", value[tag])
        elif value[tag] not in shapes:
            yield unsupported(at, value[tag], tuple(shapes), clause)
        else:
            yield from shapes[value[tag]](profile, value, path)

    return check


def either(whole: Check, parts: Check, expected: str, *, null: bool = False) -> Check:
    """A string or an array. With `null`, null too: whether that is right is another clause's business."""

    def check(profile: Profile, value: Any, path: str) -> Iterator[Found]:
        if isinstance(value, str):
            yield from whole(profile, value, path)
        elif isinstance(value, list):
            yield from parts(profile, value, path)
        elif value is not None or not null:
            yield wrong_type(path, expected, value)

    return check
