"""Facts to bytes and back. May know: the facts. Decides: what is a readable ledger.

Strict: unknown fields, wrong types and unknown facts are refused. There is one decoder per released format; a ledger
written by a newer format is refused by name. `FORMATS` is the version table: a format, once released, stays in it.

A decoder is made when it is first needed: that takes as long as importing the rest of the core (docs/PERFORMANCE.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from legato.core.facts import FORMAT, AnyFact, Fact, Opened
from legato.errors import BadInput, CodecError, NewerFormat

_encoder = msgspec.json.Encoder()

FORMATS: dict[int, Any] = {1: AnyFact}
"""What is a fact, by format."""


class _Peek(msgspec.Struct):
    fact: str = ""
    format: int = 1


@cache
def decoder(format: int) -> Callable[[bytes], AnyFact]:
    """What reads facts of a format."""
    made: msgspec.json.Decoder[AnyFact] = msgspec.json.Decoder(FORMATS[format])
    return made.decode


def encode(fact: AnyFact) -> bytes:
    """One fact as one line of JSON."""
    try:
        return _encoder.encode(fact)
    except (UnicodeEncodeError, TypeError, OverflowError) as error:
        raise CodecError(
            f"{type(fact).__name__} holds something that cannot be written: {error}",
            do="give text that is valid Unicode (no lone surrogates); nothing was recorded",
        ) from error


def weigh(facts: Sequence[AnyFact]) -> int:
    """How many bytes they are, written down."""
    return len(_encoder.encode(facts))


FactT = TypeVar("FactT", bound=Fact)


def proved(fact: FactT) -> FactT:
    """The fact as every later reader will find it; `BadInput` if it could not be read again, and so must not be written."""
    try:
        return cast(FactT, decode(encode(cast(AnyFact, fact))))
    except CodecError as error:
        reason = error.__cause__ or error
        raise BadInput(
            f"{type(fact).__name__} cannot be recorded: {reason}",
            do="give text where text is meant, and numbers where numbers are; nothing was recorded",
        ) from error


def decode(data: bytes, format: int = FORMAT) -> AnyFact:
    """The fact that these bytes are, or a `CodecError` that says why they are none."""
    try:
        fact = decoder(format)(data)
    except KeyError:
        raise newer(format) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _explain(data, error) from error
    if type(fact) is Opened and fact.format > FORMAT:
        raise newer(fact.format)
    return fact


def newer(format: int, known: int = FORMAT) -> NewerFormat:
    """The refusal of a format that this version does not know."""
    return NewerFormat(
        f"this ledger has format {format}, written by a newer Legato",
        expected=f"format {known} or older",
        found=f"format {format}",
        do="upgrade legato to read it; nothing was changed",
    )


def _explain(data: bytes, error: Exception) -> CodecError:
    try:
        peek = msgspec.json.decode(data, type=_Peek)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        peek = _Peek()
    if peek.fact == "opened" and peek.format > FORMAT:
        return newer(peek.format)
    shown = data[:80].decode("utf-8", "replace")
    return CodecError(
        f"these bytes are not a fact: {error}",
        expected=f"one JSON fact of format {FORMAT}",
        found=f"{shown!r}{' ...' if len(data) > 80 else ''}",
        do="if a newer Legato wrote it, upgrade; if the bytes were damaged, restore them from a copy",
    )
