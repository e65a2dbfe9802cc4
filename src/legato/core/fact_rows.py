"""A compact JSON encoding of many facts, as rows.

Encoded one by one, every fact repeats its field names and its full timestamp. Here the field names of facts with the same fields are a
*shape*, written once. A fact is a row: the number of its shape, then its values; the last value is the number of milliseconds since the
fact before. The result is plain JSON, and decoding needs nothing else.

>>> from legato.core.facts import MessageReceived
>>> shapes, bundles = encode_rows([MessageReceived("Hello", at=1_000), MessageReceived("Are you there?", at=3_500)])
>>> shapes, [bytes(rows) for rows in bundles]
([['message_received', 'content', 'at']], [b'[[0,"Hello",1000],[0,"Are you there?",2500]]'])
>>> [(fact.content, fact.at) for fact in decode_rows(shapes, bundles)]
[('Hello', 1000), ('Are you there?', 3500)]

Rows are encoded in bundles: that is faster than one by one, and the intermediate objects of a bundle are freed before the garbage
collector scans them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

import msgspec

from legato.core.codec import make_newer_format_error
from legato.core.facts import LEDGER_FORMAT, AnyFact

ROWS_PER_BUNDLE = 128
"""The number of rows that are encoded as one text. Bundles of any size can be decoded."""

_TAGS: frozenset[str] = frozenset(kind.__struct_config__.tag for kind in get_args(AnyFact))


def encode_rows(facts: Sequence[AnyFact]) -> tuple[list[list[str]], list[msgspec.Raw]]:
    """Return the shapes of these facts, and the facts in bundles of rows."""
    shapes: dict[tuple[str, ...], int] = {}
    bundles: list[msgspec.Raw] = []
    before = 0
    for first in range(0, len(facts), ROWS_PER_BUNDLE):
        rows = []
        for members in msgspec.to_builtins(facts[first : first + ROWS_PER_BUNDLE]):
            row = [*members.values()]
            kind, at = row[0], row[-1]
            row[0], row[-1] = shapes.setdefault((kind, *members), len(shapes)), at - before
            rows.append(row)
            before = at
        bundles.append(msgspec.Raw(msgspec.json.encode(rows)))
    return [[kind, *names] for kind, _, *names in shapes], bundles


def decode_rows(shapes: Sequence[Sequence[str]], bundles: Iterable[msgspec.Raw]) -> list[AnyFact]:
    """Return the facts that were encoded. As strict as the decoder of single facts."""
    field_names = [_parse_shape(shape) for shape in shapes]
    facts: list[AnyFact] = []
    at = 0
    for raw in bundles:
        bundle: list[dict[str, Any]] = []
        for row in msgspec.json.decode(raw, type=list[list[Any]]):
            number, later = (row[0], row[-1]) if row else (None, None)
            if type(number) is not int or not 0 <= number < len(field_names) or type(later) is not int:
                raise ValueError(f"a row does not fit one of the {len(field_names)} shapes: {row!r:.80}")
            names = field_names[number]
            row[0], row[-1] = shapes[number][0], (at := at + later)
            bundle.append(dict(zip(names, row, strict=True)))
            if row[0] == "opened" and type(format := bundle[-1].get("format")) is int and format > LEDGER_FORMAT:
                raise make_newer_format_error(format)
        facts += msgspec.convert(bundle, list[AnyFact])
    return facts


def _parse_shape(shape: Sequence[str]) -> Sequence[str]:
    """Return the field names of a shape's rows."""
    names = ["fact", *shape[1:]]
    if shape[:1] == [] or shape[0] not in _TAGS or len(set(names)) != len(names) or names[-1] != "at":
        raise ValueError(f"this is not the shape of a fact: {shape!r:.80}")
    return names
