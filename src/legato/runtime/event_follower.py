"""The follower of a session that another process or task drives.

A follower reads the ledger from a cursor on, and again when the ledger grows: a store needs only `read` and `watch` for that. Deltas of a
reply in progress come through the store's delta channel, if the store has one. They only add to what is read from the ledger.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from legato.core.planner import derive_status_and_requests
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph
from legato.errors import BadInput, UnknownLedger
from legato.runtime.deltas import Delta, DeltaSubscriber, decode_delta
from legato.runtime.driver import IDLE_STATUSES
from legato.runtime.event_cursor import EventCursor, parse_cursor
from legato.runtime.event_projector import EventProjector
from legato.runtime.events import Event
from legato.runtime.ledger import Ledger
from legato.stores.delta_channel import get_delta_channel

if TYPE_CHECKING:
    from legato.runtime.child_sessions import ChildSessions

EXISTENCE_CHECK_INTERVAL_S = 15.0
"""The interval in which a follower checks that the session still exists, while nothing happens in it."""

MAX_BUFFERED_DELTAS = 1000
"""Deltas that are kept for a slow client. Of more, the oldest are dropped: the complete reply will come from the ledger."""


class EventFollower:
    """One client that follows one session."""

    def __init__(
        self,
        graph: WorkflowGraph,
        ledger: Ledger,
        child_sessions: ChildSessions,
        refresh: Callable[[], Awaitable[Any]],
        after: str | int | None,
    ) -> None:
        """`refresh` reads new facts of the session and of the child sessions that its calls wait for."""
        self._graph = graph
        self._ledger = ledger
        self._child_sessions = child_sessions
        self._refresh = refresh
        self._after = parse_cursor(after)
        self._events: deque[Event] = deque()
        self._encoded_deltas: deque[bytes] = deque(maxlen=MAX_BUFFERED_DELTAS)
        self._wake = asyncio.Event()
        self._may_have_news = True  # the ledger may have facts that were not read
        self._projector = EventProjector(self._events.append, graph, self._after)
        self._subscriber = DeltaSubscriber(self._projector, graph)

    async def events(self, until_idle: bool) -> AsyncGenerator[Event, None]:
        """Yield events until the session is deleted, or becomes idle."""
        channel = get_delta_channel(self._ledger.store)
        async with channel.subscribe(self._ledger.session_id, self._on_delta) if channel is not None else nullcontext():
            stop = self._ledger.store.watch(self._ledger.session_id, self._after.facts, self._on_growth)
            try:
                deltas = list[Delta]()
                while True:
                    shown_facts, is_idle = self._projector.shown_facts, False
                    if self._may_have_news or any(delta.facts_before > shown_facts for delta in deltas):
                        self._may_have_news = False
                        try:
                            is_idle = await self._show_new_facts()
                        except UnknownLedger:
                            return  # the session was deleted
                    for delta in deltas:
                        self._subscriber.on_delta(delta, self._ledger.state)
                    while self._events:
                        yield self._events.popleft()
                    if is_idle and until_idle:
                        return
                    deltas = await self._wait_for_deltas()
            finally:
                stop()

    def _on_growth(self, length: int) -> None:
        self._may_have_news = True
        self._wake.set()

    def _on_delta(self, encoded: bytes) -> None:
        self._encoded_deltas.append(encoded)
        self._wake.set()

    async def _show_new_facts(self) -> bool:
        """Show the new facts of the ledger. Return True if the session is idle then."""
        await self._refresh()
        state = self._ledger.confirmed_state
        self._check_cursor(state)
        self._projector.show_facts(state, state.length)
        status, requests = derive_status_and_requests(state, self._graph, self._child_sessions.status)
        if status in IDLE_STATUSES:
            self._projector.show_idle(state, status, self._child_sessions.merge_requests(requests) if status == "pending" else [])
        return status in IDLE_STATUSES

    def _check_cursor(self, state: State) -> None:
        if not self._after.belongs_to(state):
            raise BadInput(
                f"this cursor is not of the conversation that session {self._ledger.session_id!r} is now",
                expected=f"a cursor of its {state.length} facts",
                found=str(self._after) if self._after.ledger_digest else f"position {self._after.facts - 1}",
                do="begin with the first event: follow() without `after`",
            )
        self._after = EventCursor()  # no check is needed again: later facts are of the same ledger

    async def _wait_for_deltas(self) -> list[Delta]:
        """Wait for new facts or deltas, and return the deltas."""
        unsubscribe = self._child_sessions.subscribe(self._on_growth) if self._ledger.state.has_paused_calls else None
        try:
            async with asyncio.timeout(EXISTENCE_CHECK_INTERVAL_S):
                await self._wake.wait()
        except TimeoutError:
            self._may_have_news = True
        finally:
            if unsubscribe is not None:
                unsubscribe()
        self._wake.clear()
        deltas = [delta for data in self._encoded_deltas if (delta := decode_delta(data))]
        self._encoded_deltas.clear()
        return deltas
