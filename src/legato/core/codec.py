"""Encoding of facts as JSON, and strict decoding.

Unknown fields, wrong types and unknown facts are errors. There is one decoder per released format. A ledger with a newer format is
refused with `NewerFormat`. `FORMATS` is the version table: a format, once released, stays in it.

A decoder is created when it is first needed: that takes as long as importing the rest of the core (docs/PERFORMANCE.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from legato.core.facts import LEDGER_FORMAT, AnyFact, Fact, Opened
from legato.errors import BadInput, CodecError, NewerFormat

_encoder = msgspec.json.Encoder()

FORMATS: dict[int, Any] = {1: AnyFact}
"""The union of fact types of each format."""


class _Peek(msgspec.Struct):
    fact: str = ""
    format: int = 1


@cache
def get_decoder(format: int) -> Callable[[bytes], AnyFact]:
    """Return the function that decodes facts of a format."""
    decoder: msgspec.json.Decoder[AnyFact] = msgspec.json.Decoder(FORMATS[format])
    return decoder.decode


def encode_fact(fact: AnyFact) -> bytes:
    """Return a fact as one line of JSON; `CodecError` if it cannot be encoded."""
    try:
        return _encoder.encode(fact)
    except (UnicodeEncodeError, TypeError, OverflowError) as error:
        raise CodecError(
            f"{type(fact).__name__} holds something that cannot be written: {error}",
            do="give text that is valid Unicode (no lone surrogates); nothing was recorded",
        ) from error


def measure_encoded_bytes(facts: Sequence[AnyFact]) -> int:
    """Return the size of facts encoded as JSON, in bytes."""
    return len(_encoder.encode(facts))


FactT = TypeVar("FactT", bound=Fact)


def validate_fact(fact: FactT) -> FactT:
    """Return the fact as later readers will decode it; `BadInput` if it could not be decoded again, and so must not be recorded."""
    try:
        return cast(FactT, decode_fact(encode_fact(cast(AnyFact, fact))))
    except CodecError as error:
        reason = error.__cause__ or error
        raise BadInput(
            f"{type(fact).__name__} cannot be recorded: {reason}",
            do="give text where text is meant, and numbers where numbers are; nothing was recorded",
        ) from error


def decode_fact(data: bytes, format: int = LEDGER_FORMAT) -> AnyFact:
    """Decode one fact; `CodecError` says why the bytes are none."""
    try:
        fact = get_decoder(format)(data)
    except KeyError:
        raise make_newer_format_error(format) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _explain(data, error) from error
    if type(fact) is Opened and fact.format > LEDGER_FORMAT:
        raise make_newer_format_error(fact.format)
    return fact


def make_newer_format_error(format: int, newest: int = LEDGER_FORMAT) -> NewerFormat:
    """Return the error for a format that this version does not know."""
    return NewerFormat(
        f"this ledger has format {format}, written by a newer Legato",
        expected=f"format {newest} or older",
        found=f"format {format}",
        do="upgrade legato to read it; nothing was changed",
    )


def _explain(data: bytes, error: Exception) -> CodecError:
    try:
        peek = msgspec.json.decode(data, type=_Peek)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        peek = _Peek()
    if peek.fact == "opened" and peek.format > LEDGER_FORMAT:
        return make_newer_format_error(peek.format)
    shown = data[:80].decode("utf-8", "replace")
    return CodecError(
        f"these bytes are not a fact: {error}",
        expected=f"one JSON fact of format {LEDGER_FORMAT}",
        found=f"{shown!r}{' ...' if len(data) > 80 else ''}",
        do="if a newer Legato wrote it, upgrade; if the bytes were damaged, restore them from a copy",
    )
