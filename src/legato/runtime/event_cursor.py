"""How far somebody was told. May know: the state. Decides: how that is written, and what may be read as it.

A fact may be several events, and what a session asks when it comes to rest is told without a fact. So a cursor counts facts, and then
events of what comes next. It names the ledger too: a position means something only within one, and an id may be used again.
"""

from __future__ import annotations

import re

from msgspec import Struct

from legato.core.digests import digest_bytes
from legato.core.state import State
from legato.errors import BadInput

_WRITTEN = re.compile(r"([0-9a-f]{8})-(\d{1,9})(?:\.(\d{1,6}))?(?:\.([0-9a-f]{8}))?", re.ASCII)


class Cursor(Struct, frozen=True):
    """All events of the first `facts` facts were told, and `events` more: of the next fact, or, if `rest` names it, of the rest there.

    >>> str(Cursor(birthmark("the conversation"), 7, 1))
    '97bb8f56-7.1'
    >>> cursor_after('97bb8f56-7.1').facts
    7
    """

    ledger: str = ""
    facts: int = 0
    events: int = 0
    rest: str = ""

    def __str__(self) -> str:
        events = f".{self.events}" if self.events or self.rest else ""
        return f"{self.ledger}-{self.facts}{events}{f'.{self.rest}' if self.rest else ''}"

    def fits(self, state: State) -> bool:
        """Whether it is of this conversation: a position in another one means nothing here."""
        return self.facts <= state.length and self.ledger in ("", birthmark(state.ledger))


def birthmark(name: str) -> str:
    """What a cursor says of the ledger with this unique name."""
    return digest_bytes(name.encode("utf-8", "surrogatepass"))[:8]


def cursor_after(after: str | int | None) -> Cursor:
    """Where to go on after a cursor, or after all events of the fact at a position; None: at the beginning."""
    if after is None:
        return Cursor()
    if isinstance(after, int) and not isinstance(after, bool) and after >= -1:
        return Cursor(facts=after + 1)
    return _read(after)


def _read(written: object) -> Cursor:
    """The cursor that this text is; `BadInput` if it is none: it comes from people's browsers."""
    found = _WRITTEN.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        raise BadInput(
            "this is not a cursor of a session's events",
            expected="the `cursor` of an event that was received, or the position of a fact",
            found=repr(written)[:80],
            do="give the last one that was received, or none to begin with the first event",
        )
    return Cursor(found[1], int(found[2]), int(found[3] or 0), found[4] or "")
