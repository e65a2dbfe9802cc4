"""Facts as the file has them: JSON in shorthand. May know: how facts are written as JSON. Decides: which pieces of it are one byte each.

Every fact repeats the same names (`"fact":"answered"`, `"items":[{"item":"words","text":"`): beside words of a hundred tokens they were a
third of a file (docs/PERFORMANCE.md). JSON has no bytes below 0x20, so each of these can stand for a piece that a kind of fact is
full of. What is short for what depends on the first byte alone; a body that begins with `{` is JSON as it is. Nothing is lost: putting
the pieces back gives the very bytes that were encoded, wherever a piece happened to occur.

A row of this table, once released, stays as it is: a better one gets a first byte of its own, and a file with it a number of its own
(`VERSION` in sqlite_file.py), so that a Legato which does not know it refuses it by name.
"""

from __future__ import annotations

from legato.core.codec import encode
from legato.core.facts import Answered, AnyFact, Gated, HandedOff, Judged, Returned, Said, Started

_TABLE: dict[int, tuple[type, tuple[bytes, ...]]] = {
    # The first piece is how such a fact begins. Where one piece contains another, it stands before it.
    0x01: (
        Answered,
        (
            b'{"fact":"answered","agent":"',
            b'","frame":"',
            b'","upto":',
            b',"items":[{"item":"words","text":"',
            b',"items":[{"item":"reasoning","',
            b',"items":[{"item":"call","tool":"',
            b'"},{"item":"words","text":"',
            b'"},{"item":"call","tool":"',
            b'","arguments":"',
            b'","call_id":"',
            b'","item_id":"',
            b'"}],"usage":{"input":',
            b',"output":',
            b',"cached":',
            b',"cost":',
            b',"model":"',
            b'","response_id":"',
            b'","origin":"',
            b'","request_id":"',
            b',"took":',
            b',"at":1',
        ),
    ),
    0x02: (Said, (b'{"fact":"said","content":"', b'","at":1', b'","author":"', b'","key":"')),
    0x03: (HandedOff, (b'{"fact":"handed_off","call":[', b'],"source":"', b'","target":"', b'","at":1')),
    0x04: (Started, (b'{"fact":"started","call":[', b'],"attempt":', b',"epoch":', b',"digest":"', b',"at":1')),
    0x05: (Returned, (b'{"fact":"returned","call":[', b'],"output":"', b'","attempt":', b',"status":"', b',"took":', b',"at":1')),
    0x06: (Gated, (b'{"fact":"gated","call":[', b'],"needed":', b',"digest":"', b'","at":1')),
    0x07: (Judged, (b'{"fact":"judged","kind":"', b'","position":', b',"agent":"', b',"at":1')),
}
_FIRST = 0x08  # the bytes before it begin a body; those from here on are pieces within one

MAX_SHORTHAND_BYTES = 1_048_576
"""A longer body is kept as it is: each piece is looked for in all of it, 0.2 s for 30 MB, and what is saved is a small part of it."""


def _pairs(first: int, pieces: tuple[bytes, ...]) -> tuple[tuple[bytes, bytes], ...]:
    shorts = [first, *range(_FIRST, 0x20)]
    return tuple((bytes([short]), piece) for short, piece in zip(shorts, pieces, strict=False))


_PIECES = {first: _pairs(first, pieces) for first, (_, pieces) in _TABLE.items()}
_PIECES_OF = {kind: _pairs(first, pieces) for first, (kind, pieces) in _TABLE.items()}


def shorthand(fact: AnyFact) -> bytes:
    """A fact as it is kept."""
    body = encode(fact)
    pairs = _PIECES_OF.get(type(fact), ()) if len(body) <= MAX_SHORTHAND_BYTES else ()
    if not pairs or not body.startswith(pairs[0][1]):
        return body  # a message of parts begins in another way: nothing would say what is short for what
    for short, piece in pairs:
        body = body.replace(piece, short)
    return body


def written_out(body: bytes) -> bytes:
    """The JSON that a body is short for."""
    for short, piece in _PIECES.get(body[0], ()) if body else ():
        body = body.replace(short, piece)
    return body
