"""Cursors: the position of a client in the events of a session, and their text form.

A fact may become several events, and the events of an idle session have no fact of their own. So a cursor counts facts, and then the events
that follow them. It also identifies the ledger, because a position is valid in one ledger only, and a session id may be used again.
"""

from __future__ import annotations

import re

from msgspec import Struct

from legato.core.digests import digest_bytes
from legato.core.state import State
from legato.errors import BadInput

_CURSOR_TEXT = re.compile(r"([0-9a-f]{8})-(\d{1,9})(?:\.(\d{1,6}))?(?:\.([0-9a-f]{8}))?", re.ASCII)


class EventCursor(Struct, frozen=True):
    """The position behind all events of the first `facts` facts, and behind `events` more.

    These are events of the next fact, or of the idle session at this length: `idle` is then the digest of its status and requests.

    >>> str(EventCursor(digest_ledger_id("the conversation"), 7, 1))
    '97bb8f56-7.1'
    >>> parse_cursor('97bb8f56-7.1').facts
    7
    """

    ledger_digest: str = ""
    facts: int = 0
    events: int = 0
    idle: str = ""

    def __str__(self) -> str:
        events = f".{self.events}" if self.events or self.idle else ""
        return f"{self.ledger_digest}-{self.facts}{events}{f'.{self.idle}' if self.idle else ''}"

    def belongs_to(self, state: State) -> bool:
        """Return True if this is a cursor of the ledger that the state is of."""
        return self.facts <= state.length and self.ledger_digest in ("", digest_ledger_id(state.ledger_id))


def digest_ledger_id(ledger_id: str) -> str:
    """Return the digest that identifies a ledger in cursors."""
    return digest_bytes(ledger_id.encode("utf-8", "surrogatepass"))[:8]


def parse_cursor(after: str | int | None) -> EventCursor:
    """Return the cursor of this text, or the cursor behind all events of the fact at a position. None: the first event."""
    if after is None:
        return EventCursor()
    if isinstance(after, int) and not isinstance(after, bool) and after >= -1:
        return EventCursor(facts=after + 1)
    return _parse_text(after)


def _parse_text(text: object) -> EventCursor:
    """Return the cursor of a text, which may come from a browser; `BadInput` if it is no cursor."""
    match = _CURSOR_TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BadInput(
            "this is not a cursor of a session's events",
            expected="the `cursor` of an event that was received, or the position of a fact",
            found=repr(text)[:80],
            do="give the last one that was received, or none to begin with the first event",
        )
    return EventCursor(match[1], int(match[2]), int(match[3] or 0), match[4] or "")
