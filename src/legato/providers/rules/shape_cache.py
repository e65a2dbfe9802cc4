"""A cache for rule checks: of all fragments of one shape, one is checked.

A conversation is made of few shapes: a user message, words, thinking and words, a call and its output. No rule asks what a text says,
only whether it is empty; nor what a call id is, only whether it is valid and which call it belongs to. So fragments that differ in
nothing else have the same violations. Shapes found legal are remembered; a fragment with violations is checked anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from legato.providers.rules.identifiers import is_usable_call_id
from legato.providers.rules.rule_set import RuleViolation

MAX_TEXT_CHARS = 100
"""The length up to which a text that a rule might look at is part of a shape. A fragment with a longer one is not cached."""

MAX_SHAPES = 1000
"""The number of shapes that are remembered."""

Fragment: TypeAlias = list[dict[str, Any]]
"""Some messages or items with everything that belongs to them."""


def cache_by_shape(
    check: Callable[[Fragment], Sequence[RuleViolation]], text_members: frozenset[str], id_members: frozenset[str]
) -> Callable[[Fragment], tuple[RuleViolation, ...]]:
    """Return a check that runs `check` once for each legal shape.

    `text_members`: names of members whose texts no rule reads. `id_members`: names of members that pair calls with outputs.
    """
    legal_shapes: set[tuple[object, ...]] = set()

    def check_cached(items: Fragment) -> tuple[RuleViolation, ...]:
        id_numbers: dict[str, int] = {}
        try:
            shape = tuple([_describe_object(item, text_members, id_members, id_numbers) for item in items])
        except _NotCacheable:
            return tuple(check(items))
        if shape in legal_shapes:
            return ()
        violations = tuple(check(items))
        if not violations:
            if len(legal_shapes) >= MAX_SHAPES:
                legal_shapes.clear()
            legal_shapes.add(shape)
        return violations

    return check_cached


class _NotCacheable(Exception):
    """A fragment with a value that makes its shape unique."""


def _describe_object(
    value: Any, text_members: frozenset[str], id_members: frozenset[str], id_numbers: dict[str, int]
) -> tuple[object, ...]:
    if not isinstance(value, dict):
        raise _NotCacheable
    shape: list[object] = []
    for name, member in value.items():
        shape.append(name)
        if isinstance(member, str):
            if name in text_members:
                shape.append(1 if member and not member.isspace() else 2 if member else 3)
            else:
                shape.append(_describe_text(name, member, id_members, id_numbers))
        elif isinstance(member, list):
            shape.append(tuple([_describe_object(each, text_members, id_members, id_numbers) for each in member]))
        elif name in text_members and isinstance(member, (dict, msgspec.Raw)):
            shape.append(dict)
        elif isinstance(member, dict):
            shape.append(_describe_object(member, text_members, id_members, id_numbers))
        elif member is None or isinstance(member, bool):
            shape.append(repr(member))
        else:
            raise _NotCacheable
    return tuple(shape)


def _describe_text(name: str, text: str, id_members: frozenset[str], id_numbers: dict[str, int]) -> object:
    """Return the number of an id, in order of appearance, or the text itself."""
    if name in id_members and is_usable_call_id(text):
        return id_numbers.setdefault(text, len(id_numbers))
    if len(text) > MAX_TEXT_CHARS:
        raise _NotCacheable
    return text
