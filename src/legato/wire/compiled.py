"""What compiling a request gives. May know: nothing. Decides: nothing."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from legato.wire.law import Complaint


class Compiled(Struct, frozen=True):
    """A request as it is sent, and what is needed to read the reply to it."""

    body: bytes
    tools: Mapping[str, str]  # the tools' own names by those that were sent
    sequence: tuple[bytes, ...] = ()  # what the provider is told and holds, whole, for the proof of a later request
    base: str = ""  # the response or conversation that it goes on from
    reasoning: bool = False  # whether it sends reasoning back
    losses: tuple[str, ...] = ()
    complaints: tuple[Complaint, ...] = ()  # of the provider's law book: there are none, unless Legato has a bug
    bare: bool = False  # whether reasoning was left out because the provider refused it
    hosted: bool = False  # whether it sends back what the provider did by itself


class Fragment(Struct, frozen=True):
    """A group as it is sent, without the brackets; what of it could not be; and what is wrong with it."""

    body: bytes
    losses: tuple[str, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    reasoning: bool = False
    hosted: bool = False
