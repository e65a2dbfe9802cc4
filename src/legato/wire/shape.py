"""Things of one shape are judged once. May know: JSON. Decides: what of a fragment no clause asks about.

A conversation is made of few shapes: a message of the user, words, thinking and words, a call and its output. No clause asks what
was said, only whether anything was; nor which id a call has, only whether it can be one and whose it is. So of all fragments that
differ in nothing else one is judged, and each that this would not do for is judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from legato.wire.law import Complaint
from legato.wire.names import is_wire_id

LONGEST = 100
"""How long a text may be that a clause might ask about, for its fragment to be judged by its shape."""

_encode = msgspec.json.Encoder().encode
_BLANK, _TEXT = " ", "x"

Judge = Callable[[list[dict[str, Any]]], Sequence[Complaint]]


def by_shape(judge: Judge, said: frozenset[str], ids: frozenset[str]) -> Callable[[list[dict[str, Any]]], tuple[Complaint, ...]]:
    """A judge that judges one of each shape. `said`: the names of members whose texts say something; `ids`: of those that pair calls."""

    @lru_cache(maxsize=1024)
    def is_legal(shape: bytes) -> bool:
        return not judge(msgspec.json.decode(shape))

    def judged(items: list[dict[str, Any]]) -> tuple[Complaint, ...]:
        shape = _Shape(said, ids).of(items)
        return () if shape is not None and is_legal(shape) else tuple(judge(items))

    return judged


class _Unlike(Exception):
    """It has something that is like nothing else."""


class _Shape:
    def __init__(self, said: frozenset[str], ids: frozenset[str]) -> None:
        self._said = said
        self._ids = ids
        self._known: dict[str, str] = {}

    def of(self, items: list[dict[str, Any]]) -> bytes | None:
        """The shape of some items; None if they have none that others could have."""
        try:
            return _encode([self._object(item) for item in items])
        except _Unlike:
            return None

    def _object(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _Unlike
        return {name: self._member(name, member) for name, member in value.items()}

    def _member(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            if name in self._said:
                return _TEXT if value and not value.isspace() else value and _BLANK
            if name in self._ids and is_wire_id(value):
                return self._known.setdefault(value, f"call{len(self._known)}")
            if len(value) > LONGEST:
                raise _Unlike
            return value
        if isinstance(value, dict):
            return {} if name in self._said else self._object(value)
        if isinstance(value, list):
            return [self._object(each) for each in value]
        if isinstance(value, msgspec.Raw):
            if name in self._said:
                return {}
            raise _Unlike
        return value
