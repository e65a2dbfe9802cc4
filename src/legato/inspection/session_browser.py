"""Pages of the sessions of a store, newest first, with search and an inbox of pending requests.

A cursor is the position of a ledger in the store's list order (`LedgerInfo.touched`, then the ledger's name). Sessions that change move to
the front, so a client that continues after a cursor sees no session twice.

A summary needs the whole session to be read. So it is cached in the session cache beside the store's `LedgerInfo`, and valid while the
store returns an equal one: equal infos stand for the same facts. The summary of a session that waits for a child session is not cached:
its own info does not change when the child does.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from legato.errors import BadInput, DamagedStore, LegatoError, UnknownLedger
from legato.inspection.session_summaries import (
    RequestSummary,
    SessionSummary,
    join_message_texts,
    summarize_requests,
    summarize_session,
    summarize_unreadable,
)
from legato.runtime.session import Session
from legato.runtime.session_cache import SESSION_CACHE, CachedState
from legato.stores.contract import LedgerInfo, Store

STORE_PAGE_SIZE = 256
"""Ledgers that are requested from the store at a time."""

MAX_SESSIONS_READ = 2_000
"""Most sessions that are read for one page. A search that has not filled its page by then returns what it has, and a cursor."""

CACHED_SUMMARY_BYTES = 1_000
"""Bytes that a summary takes in the cache, besides its searchable text."""

_CURSOR = re.compile("(-?[0-9]{1,19})-(.*)", re.DOTALL)
_TOUCHED_LIMIT = 2**63
"""A cursor as text, and the bound of `touched` on either side of 0: that of a damaged ledger may have any value."""


class SessionPage(Struct, frozen=True):
    """Some sessions; `next` is the cursor of the next page, empty if there is none."""

    sessions: list[SessionSummary]
    next: str = ""


class InboxRequest(RequestSummary, frozen=True, kw_only=True, rename={"answered_in": "in"}):
    """A pending request in the inbox. `answered_in`: the session that takes the answer; the request may come from its child session."""

    answered_in: str
    workflow: str
    updated: int


class Inbox(Struct, frozen=True):
    """Pending requests of all sessions; `next` is the cursor of the next page, empty if there is none."""

    requests: list[InboxRequest]
    next: str = ""


class CachedSummary(Struct, frozen=True):
    """The summary of a session as of a `LedgerInfo`."""

    info: LedgerInfo
    summary: SessionSummary
    searchable_text: str


class SessionBrowser:
    """The sessions of a store.

    `open_session` returns a handle that has read its session; `is_served` returns True if the workflow of this name is available.
    """

    def __init__(self, store: Store, open_session: Callable[[str], Awaitable[Session]], is_served: Callable[[str], bool]) -> None:
        self._store = store
        self._open_session = open_session
        self._is_served = is_served
        self._cache_kind = object()  # of this object alone: its summaries depend on `is_served`

    async def page(self, *, search: str = "", status: str = "", workflow: str = "", limit: int = 50, after: str = "") -> SessionPage:
        """Return the sessions with this text in their id or messages, this status and this workflow, newest first."""
        matches: list[SessionSummary] = []
        count, search = 0, search.casefold()
        async for info in self._ledger_infos(after):
            if (cached := await self._summarize(info)) is not None and _matches(cached, search, status, workflow):
                matches.append(cached.summary)
            count += 1
            if len(matches) >= limit or count >= MAX_SESSIONS_READ:
                return SessionPage(matches, _encode_cursor(info))
        return SessionPage(matches)

    async def inbox(self, *, limit: int = 50, after: str = "") -> Inbox:
        """Return the pending requests of all sessions, those of the latest session first. A page never splits those of one session."""
        requests: list[InboxRequest] = []
        count = 0
        async for info in self._ledger_infos(after):
            cached = await self._summarize(info)
            if cached is not None and cached.summary.pending:
                requests += await self._inbox_requests(cached.summary)
            count += 1
            if len(requests) >= limit or count >= MAX_SESSIONS_READ:
                return Inbox(requests, _encode_cursor(info))
        return Inbox(requests)

    async def _inbox_requests(self, summary: SessionSummary) -> list[InboxRequest]:
        own = await self._read_requests(summary.id)
        # The parent session has the requests of its child sessions, and takes their answers.
        of_parent = {each.id for each in await self._read_requests(summary.within)} if summary.within else set()
        more: dict[str, Any] = {"answered_in": summary.id, "workflow": summary.workflow, "updated": summary.updated}
        return [InboxRequest(**asdict(each), **more) for each in own if each.id not in of_parent]

    async def _read_requests(self, id: str) -> tuple[RequestSummary, ...]:
        try:
            return summarize_requests(await self._open_session(id))
        except LegatoError:  # deleted, or unreadable
            return ()

    async def _ledger_infos(self, after: str) -> AsyncIterator[LedgerInfo]:
        """Yield the store's ledgers after a cursor."""
        last = _decode_cursor(after)
        while infos := await self._store.list(STORE_PAGE_SIZE, last):
            for info in infos:
                yield info
            last = infos[-1]

    async def _summarize(self, info: LedgerInfo) -> CachedSummary | None:
        cached: CachedSummary | None = SESSION_CACHE.get(self._store, info.ledger, self._cache_kind)
        if cached is not None and cached.info == info:
            return cached
        if info.damage:
            return CachedSummary(info, summarize_unreadable(info, DamagedStore(info.damage)), "")
        was_cached = SESSION_CACHE.get(self._store, info.ledger, CachedState) is not None
        try:
            session = await self._open_session(info.ledger)
        except UnknownLedger:  # deleted since it was listed
            return None
        except LegatoError as error:
            return CachedSummary(info, summarize_unreadable(info, error), "")
        state = session.state
        summary = summarize_session(session, info, self._is_served(state.workflow))
        cached = CachedSummary(info, summary, join_message_texts(session).casefold())
        if not was_cached:
            SESSION_CACHE.drop(self._store, info.ledger, CachedState)  # listing a thousand sessions must not evict the active ones
        if state.length == info.length and not any(call.last_pause for call in state.started_calls):
            SESSION_CACHE.put(self._store, info.ledger, self._cache_kind, cached, len(cached.searchable_text) + CACHED_SUMMARY_BYTES)
        return cached


def _matches(cached: CachedSummary, search: str, status: str, workflow: str) -> bool:
    summary = cached.summary
    if (status and summary.status != status) or (workflow and summary.workflow != workflow):
        return False
    return not search or search in summary.id.casefold() or search in cached.searchable_text


def _encode_cursor(info: LedgerInfo) -> str:
    return f"{info.touched}-{info.ledger}"


def _decode_cursor(cursor: str) -> LedgerInfo | None:
    """Return an info with the fields of the cursor, which are all that the store's list order needs."""
    if not cursor:
        return None
    match = _CURSOR.fullmatch(cursor)
    if match is None or not -_TOUCHED_LIMIT <= int(match[1]) < _TOUCHED_LIMIT:
        raise BadInput("this is not a cursor of a list", found=repr(cursor)[:80], do="pass `next` of the previous page, or nothing")
    return LedgerInfo(match[2], 0, 0, "", int(match[1]))
