"""The sessions of a store, page by page. May know: stores, sessions. Decides: in which order they come, what a search finds, what is kept.

Newest first. A cursor is a line's place in the store's order of lists (`LedgerInfo.touched`, and whose it is), so what happens meanwhile
moves sessions to the front, and whoever goes on behind a cursor sees nothing twice.

To tell of a session it has to be read. What was told is kept in the cache of sessions with the store's line of it, and told again while
that line is the same: two that are equal tell of the same facts. A session that waits for another is not kept: its own line does not say
what happens there.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from legato.errors import BadInput, DamagedStore, LegatoError, UnknownLedger
from legato.inspection.listing import Question, Row, questions, row_of, said_in, unreadable
from legato.runtime.session import Session
from legato.runtime.session_cache import SESSIONS, CachedState
from legato.stores.contract import LedgerInfo, Store

AT_ONCE = 256
"""Lines that a store is asked for at a time."""

LOOKED_AT = 2_000
"""Sessions that are read for one page at most. A search that has not filled its page by then gives what it found, and where to go on."""

BYTES_PER_ROW = 1_000
"""What a row takes in the cache, besides what was said."""

_PLACE = re.compile("(-?[0-9]{1,19})-(.*)", re.DOTALL)
_PLACES = 2**63
"""How a place is written, and how many a store may have on either side of 0: a damaged line may be anywhere."""


class RowsPage(Struct, frozen=True):
    """Some sessions; `next` is where to go on, empty where there are no more."""

    sessions: list[Row]
    next: str = ""


class Asked(Question, frozen=True, kw_only=True, rename={"where": "in"}):
    """A question in the inbox. `in`: the session where it is answered, which may hold the conversation that asks."""

    where: str
    workflow: str
    updated: int


class Inbox(Struct, frozen=True):
    """What people are asked, across sessions."""

    requests: list[Asked]
    next: str = ""


class Known(Struct, frozen=True):
    """What was told of a session when the store's line of it was this one."""

    info: LedgerInfo
    row: Row
    said: str


class Browsing:
    """The sessions of a store. `opened` gives a handle that has read its session; `served` says whether a workflow is at hand, by name."""

    def __init__(self, store: Store, opened: Callable[[str], Awaitable[Session]], served: Callable[[str], bool]) -> None:
        self._store = store
        self._opened = opened
        self._served = served
        self._rows = object()  # the kind under which the cache has what was told here: it depends on what is served

    async def page(self, *, search: str = "", status: str = "", workflow: str = "", limit: int = 50, after: str = "") -> RowsPage:
        """Sessions whose id or words have this in them, with this status, of this workflow. The newest first."""
        found: list[Row] = []
        looked, sought = 0, search.casefold()
        async for info in self._lines(after):
            if (known := await self._told(info)) is not None and _fits(known, sought, status, workflow):
                found.append(known.row)
            looked += 1
            if len(found) >= limit or looked >= LOOKED_AT:
                return RowsPage(found, _cursor(info))
        return RowsPage(found)

    async def inbox(self, *, limit: int = 50, after: str = "") -> Inbox:
        """What is pending anywhere: that of the session that moved last, first. The questions of one session are never parted."""
        asked: list[Asked] = []
        looked = 0
        async for info in self._lines(after):
            known = await self._told(info)
            if known is not None and known.row.pending:
                asked += await self._asked(known.row)
            looked += 1
            if len(asked) >= limit or looked >= LOOKED_AT:
                return Inbox(asked, _cursor(info))
        return Inbox(asked)

    async def _asked(self, row: Row) -> list[Asked]:
        own = await self._questions(row.id)
        told = {each.id for each in await self._questions(row.within)} if row.within else set()  # there they are asked, and answered
        more: dict[str, Any] = {"where": row.id, "workflow": row.workflow, "updated": row.updated}
        return [Asked(**asdict(each), **more) for each in own if each.id not in told]

    async def _questions(self, id: str) -> tuple[Question, ...]:
        try:
            return questions(await self._opened(id))
        except LegatoError:  # deleted, or not to be read
            return ()

    async def _lines(self, after: str) -> AsyncIterator[LedgerInfo]:
        """The store's lines behind a cursor."""
        behind = _place(after)
        while lines := await self._store.list(AT_ONCE, behind):
            for info in lines:
                yield info
            behind = lines[-1]

    async def _told(self, info: LedgerInfo) -> Known | None:
        known: Known | None = SESSIONS.get(self._store, info.ledger, self._rows)
        if known is not None and known.info == info:
            return known
        if info.damaged:
            return Known(info, unreadable(info, DamagedStore(info.damaged)), "")
        was_cached = SESSIONS.get(self._store, info.ledger, CachedState) is not None
        try:
            session = await self._opened(info.ledger)
        except UnknownLedger:  # deleted since it was listed
            return None
        except LegatoError as error:
            return Known(info, unreadable(info, error), "")
        state = session.state
        told = Known(info, row_of(session, info, self._served(state.workflow)), said_in(session).casefold())
        if not was_cached:
            SESSIONS.drop(self._store, info.ledger, CachedState)  # a list of a thousand sessions leaves room for those that are used
        if state.length == info.length and not any(call.waited for call in state.started):
            SESSIONS.put(self._store, info.ledger, self._rows, told, len(told.said) + BYTES_PER_ROW)
        return told


def _fits(known: Known, sought: str, status: str, workflow: str) -> bool:
    row = known.row
    if (status and row.status != status) or (workflow and row.workflow != workflow):
        return False
    return not sought or sought in row.id.casefold() or sought in known.said


def _cursor(info: LedgerInfo) -> str:
    return f"{info.touched}-{info.ledger}"


def _place(cursor: str) -> LedgerInfo | None:
    """The line that a cursor is of, as far as the store's order needs it."""
    if not cursor:
        return None
    written = _PLACE.fullmatch(cursor)
    if written is None or not -_PLACES <= int(written[1]) < _PLACES:
        raise BadInput("this is no cursor of a list", found=repr(cursor)[:80], do="give the one that the page before had, or none")
    return LedgerInfo(written[2], 0, 0, "", int(written[1]))
