"""What compiling a request gives. May know: nothing. Decides: nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from legato.providers.rules.rule_set import Complaint


class Compiled(Struct, frozen=True):
    """A request as it is sent, and what is needed to read the reply to it."""

    body: bytes
    tools: Mapping[str, str]  # the tools' own names by those that were sent
    told: str = ""  # the digest of all that the provider is told and may hold, for the proof of a later request; empty: it holds nothing
    base: str = ""  # the response or conversation that it goes on from
    reasoning: bool = False  # whether it sends reasoning back
    losses: tuple[str, ...] = ()
    complaints: tuple[Complaint, ...] = ()  # of the provider's law book: there are none, unless Legato has a bug
    bare: bool = False  # whether reasoning was left out because the provider refused it
    hosted: bool = False  # whether it sends back what the provider did by itself
    container: str = ""  # where the provider's code is to run, as the request has it (JSON text)


def joined(head: bytes, opening: Sequence[bytes], pieces: Sequence[bytes], tail: bytes) -> bytes:
    """A body of pieces with commas between them. They are copied once, however many they are."""
    first = b",".join(opening)
    if not pieces:
        return head + first + tail
    parts = [*pieces]
    parts[0] = head + first + (b"," if first else b"") + parts[0]
    parts[-1] += tail
    return b",".join(parts)


class Fragment(Struct, frozen=True):
    """A group as it is sent, without the brackets; what of it could not be; and what is wrong with it."""

    body: bytes
    losses: tuple[str, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    thinks: bool = False  # reasoning is a part of it
    hosted: bool = False  # something is that the provider did by itself


class Head(Struct, frozen=True):
    """Everything but the conversation, as an object; and the tools' own names by those that are sent."""

    body: bytes
    names: Mapping[str, str]
    complaints: tuple[Complaint, ...] = ()
