"""Things of one shape are judged once. May know: JSON. Decides: what of a fragment no clause asks about.

A conversation is made of few shapes: a message of the user, words, thinking and words, a call and its output. No clause asks what
was said, only whether anything was; nor which id a call has, only whether it can be one and whose it is. So of all fragments that
differ in nothing else one is judged, and what is found to be legal is not asked again. What is not, is judged each time by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from legato.providers.rules.names import is_wire_id
from legato.providers.rules.rule_set import Complaint

LONGEST = 100
"""How long a text may be that a clause might ask about, for its fragment to be like others."""

MOST = 1000
"""How many shapes are remembered."""

Judge = Callable[[list[dict[str, Any]]], Sequence[Complaint]]


def by_shape(judge: Judge, said: frozenset[str], ids: frozenset[str]) -> Callable[[list[dict[str, Any]]], tuple[Complaint, ...]]:
    """A judge that judges one of each shape. `said`: the names of members whose texts say something; `ids`: of those that pair calls."""
    legal: set[tuple[object, ...]] = set()

    def judged(items: list[dict[str, Any]]) -> tuple[Complaint, ...]:
        known: dict[str, int] = {}
        try:
            shape = tuple([_object(item, said, ids, known) for item in items])
        except _Unlike:
            return tuple(judge(items))
        if shape in legal:
            return ()
        complaints = tuple(judge(items))
        if not complaints:
            if len(legal) >= MOST:
                legal.clear()
            legal.add(shape)
        return complaints

    return judged


class _Unlike(Exception):
    """It has something that is like nothing else."""


def _object(value: Any, said: frozenset[str], ids: frozenset[str], known: dict[str, int]) -> tuple[object, ...]:
    if not isinstance(value, dict):
        raise _Unlike
    shape: list[object] = []
    for name, member in value.items():
        shape.append(name)
        if isinstance(member, str):
            if name in said:
                shape.append(1 if member and not member.isspace() else 2 if member else 3)
            else:
                shape.append(_text(name, member, ids, known))
        elif isinstance(member, list):
            shape.append(tuple([_object(each, said, ids, known) for each in member]))
        elif name in said and isinstance(member, (dict, msgspec.Raw)):
            shape.append(dict)
        elif isinstance(member, dict):
            shape.append(_object(member, said, ids, known))
        elif member is None or isinstance(member, bool):
            shape.append(repr(member))
        else:
            raise _Unlike
    return tuple(shape)


def _text(name: str, text: str, ids: frozenset[str], known: dict[str, int]) -> object:
    """What of a text that says nothing a clause might ask about: which of the ids it is, or the text itself."""
    if name in ids and is_wire_id(text):
        return known.setdefault(text, len(known))
    if len(text) > LONGEST:
        raise _Unlike
    return text
