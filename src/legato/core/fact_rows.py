"""Facts as rows. May know: how facts are written as JSON. Decides: how many facts are written together, shorter than one by one.

Every fact repeats its names, and the time in milliseconds since 1970. Together, the names of all facts that have the same ones are a
*shape*, written once; a fact is a row: the number of its shape, then its values, of which the last says how many milliseconds after the
fact before it it was recorded. That is plain JSON still, and needs nothing but itself to be read.

>>> from legato.core.facts import Said
>>> shapes, bundles = to_rows([Said("Hello", at=1_000), Said("Are you there?", at=3_500)])
>>> shapes, [bytes(rows) for rows in bundles]
([['said', 'content', 'at']], [b'[[0,"Hello",1000],[0,"Are you there?",2500]]'])
>>> [(fact.content, fact.at) for fact in from_rows(shapes, bundles)]
[('Hello', 1000), ('Are you there?', 3500)]

Rows come in bundles: quicker than one by one, and what is made on the way is gone before the garbage collector would look at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

import msgspec

from legato.core.codec import newer
from legato.core.facts import FORMAT, AnyFact

BUNDLE = 128
"""How many rows are one text. Any number can be read."""

_TAGS: frozenset[str] = frozenset(kind.__struct_config__.tag for kind in get_args(AnyFact))


def to_rows(facts: Sequence[AnyFact]) -> tuple[list[list[str]], list[msgspec.Raw]]:
    """The shapes of these facts, and the facts."""
    shapes: dict[tuple[str, ...], int] = {}
    bundles: list[msgspec.Raw] = []
    before = 0
    for first in range(0, len(facts), BUNDLE):
        rows = []
        for members in msgspec.to_builtins(facts[first : first + BUNDLE]):
            row = [*members.values()]
            kind, at = row[0], row[-1]
            row[0], row[-1] = shapes.setdefault((kind, *members), len(shapes)), at - before
            rows.append(row)
            before = at
        bundles.append(msgspec.Raw(msgspec.json.encode(rows)))
    return [[kind, *names] for kind, _, *names in shapes], bundles


def from_rows(shapes: Sequence[Sequence[str]], bundles: Iterable[msgspec.Raw]) -> list[AnyFact]:
    """The facts again. Strict, as the decoder of bytes is."""
    known = [_checked(shape) for shape in shapes]
    facts: list[AnyFact] = []
    at = 0
    for raw in bundles:
        bundle: list[dict[str, Any]] = []
        for row in msgspec.json.decode(raw, type=list[list[Any]]):
            number, later = (row[0], row[-1]) if row else (None, None)
            if type(number) is not int or not 0 <= number < len(known) or type(later) is not int:
                raise ValueError(f"a fact is no row of one of the {len(known)} shapes: {row!r:.80}")
            names = known[number]
            row[0], row[-1] = shapes[number][0], (at := at + later)
            bundle.append(dict(zip(names, row, strict=True)))
            if row[0] == "opened" and type(format := bundle[-1].get("format")) is int and format > FORMAT:
                raise newer(format)
        facts += msgspec.convert(bundle, list[AnyFact])
    return facts


def _checked(shape: Sequence[str]) -> Sequence[str]:
    """The names of a row's values, when its first says what it is."""
    names = ["fact", *shape[1:]]
    if shape[:1] == [] or shape[0] not in _TAGS or len(set(names)) != len(names) or names[-1] != "at":
        raise ValueError(f"this is no shape of a fact: {shape!r:.80}")
    return names
