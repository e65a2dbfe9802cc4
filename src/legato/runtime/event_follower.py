"""Following a conversation that somebody else drives. May know: asyncio. Decides: when to look.

Whoever follows reads the ledger from a cursor on, and is told when it grows; all that a store must have for it is `read` and `watch`.
What is being said comes beside it, where the store carries that, and only ever adds to what is read from the ledger.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from legato.core.planner import resting
from legato.core.state import State
from legato.core.workflow_graph import Graph
from legato.errors import BadInput, UnknownLedger
from legato.runtime.deltas import Ear, Note, read_note
from legato.runtime.driver import SETTLED
from legato.runtime.event_cursor import Cursor, cursor_after
from legato.runtime.event_projector import Screen
from legato.runtime.events import Event
from legato.runtime.ledger import Ledger
from legato.stores.live import live_of

if TYPE_CHECKING:
    from legato.runtime.child_sessions import ChildSessions

LOOK_SECONDS = 15.0
"""How often whoever follows looks whether the conversation is still there, while nothing happens in it."""

MOST_NOTES = 1000
"""Notes that are kept for an observer who takes its time; of more, the oldest are forgotten. The ledger has what was said."""


class Following:
    """One observer of one conversation."""

    def __init__(
        self, graph: Graph, ledger: Ledger, others: ChildSessions, refresh: Callable[[], Awaitable[Any]], after: str | int | None
    ) -> None:
        """`refresh` reads what is new, here and in the conversations that calls wait for."""
        self._graph = graph
        self._ledger = ledger
        self._others = others
        self._refresh = refresh
        self._after = cursor_after(after)
        self._events: deque[Event] = deque()
        self._notes: deque[bytes] = deque(maxlen=MOST_NOTES)
        self._wake = asyncio.Event()
        self._news = True  # there may be something in the ledger that was not looked at
        self._screen = Screen(self._events.append, graph, self._after)
        self._ear = Ear(self._screen, graph)

    async def events(self, until_rest: bool) -> AsyncGenerator[Event, None]:
        """What happens, until the conversation is deleted, or comes to rest."""
        carrier = live_of(self._ledger.store)
        async with carrier.hear(self._ledger.session, self._heard) if carrier is not None else nullcontext():
            stop = self._ledger.store.watch(self._ledger.session, self._after.facts, self._grown)
            try:
                notes = list[Note]()
                while True:
                    known, rests = self._screen.facts, False
                    if self._news or any(note.facts > known for note in notes):
                        self._news = False
                        try:
                            rests = await self._look()
                        except UnknownLedger:
                            return  # it was deleted
                    for note in notes:
                        self._ear.hear(note, self._ledger.state)
                    while self._events:
                        yield self._events.popleft()
                    if rests and until_rest:
                        return
                    notes = await self._next()
            finally:
                stop()

    def _grown(self, length: int) -> None:
        self._news = True
        self._wake.set()

    def _heard(self, note: bytes) -> None:
        self._notes.append(note)
        self._wake.set()

    async def _look(self) -> bool:
        """Show what is new in the ledger. Whether the conversation rests then."""
        await self._refresh()
        state = self._ledger.settled
        self._check(state)
        self._screen.show(state, state.length)
        now, requests = resting(state, self._graph, self._others.known)
        if now in SETTLED:
            self._screen.rest(state, now, self._others.requests(requests) if now == "pending" else [])
        return now in SETTLED

    def _check(self, state: State) -> None:
        if not self._after.fits(state):
            raise BadInput(
                f"this cursor is not of the conversation that session {self._ledger.session!r} is now",
                expected=f"a cursor of its {state.length} facts",
                found=str(self._after) if self._after.ledger else f"position {self._after.facts - 1}",
                do="begin with the first event: follow() without `after`",
            )
        self._after = Cursor()  # what comes later is of the same conversation

    async def _next(self) -> list[Note]:
        """Wait for something to happen, and give what was heard."""
        elsewhere = self._others.watch(self._grown) if any(call.paused for call in self._ledger.state.started) else None
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            self._news = True
        finally:
            if elsewhere is not None:
                elsewhere()
        self._wake.clear()
        notes = [note for data in self._notes if (note := read_note(data))]
        self._notes.clear()
        return notes
