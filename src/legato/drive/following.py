"""Following a conversation that somebody else drives. May know: asyncio. Decides: when to look.

Whoever follows reads the ledger from a cursor on, and waits for it to grow; all that a store must have for it is `read` and `wait`. What is
being said comes beside it, where the store carries that, and only ever adds to what is read from the ledger.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import nullcontext
from typing import Any

from legato.core.graph import Graph
from legato.core.owed import resting
from legato.core.state import State
from legato.drive.cursor import Cursor, cursor_after
from legato.drive.driver import SETTLED
from legato.drive.events import Event
from legato.drive.ledger import Ledger
from legato.drive.others import Others
from legato.drive.screen import Screen
from legato.drive.voice import Ear, Note, read_note
from legato.errors import BadInput, UnknownLedger
from legato.stores.live import live_of

LOOK_SECONDS = 15.0
"""How often whoever follows looks whether the conversation is still there, while nothing happens in it."""

MOST_NOTES = 1000
"""Notes that are kept for an observer who takes its time; of more, the oldest are forgotten. The ledger has what was said."""


class Following:
    """One observer of one conversation."""

    def __init__(
        self, graph: Graph, ledger: Ledger, others: Others, refresh: Callable[[], Awaitable[Any]], after: str | int | None
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
        self._watches: dict[str, asyncio.Task[Any]] = {}
        self._screen = Screen(self._events.append, graph, self._after)
        self._ear = Ear(self._screen, graph)

    async def events(self, until_rest: bool) -> AsyncGenerator[Event, None]:
        """What happens, until the conversation is deleted, or comes to rest."""
        carrier = live_of(self._ledger.store)
        async with carrier.hear(self._ledger.session, self._heard) if carrier is not None else nullcontext():
            try:
                news, notes = True, list[Note]()
                while True:
                    try:
                        rests = news and await self._look()
                    except UnknownLedger:
                        return  # it was deleted
                    for note in notes:
                        self._ear.hear(note, self._ledger.state)
                    while self._events:
                        yield self._events.popleft()
                    if rests and until_rest:
                        return
                    news, notes = await self._next()
            finally:
                for watch in self._watches.values():
                    watch.cancel()
                await asyncio.gather(*self._watches.values(), return_exceptions=True)

    def _heard(self, note: bytes) -> None:
        self._notes.append(note)
        self._wake.set()

    async def _look(self) -> bool:
        """Show what is new in the ledger. Whether the conversation rests then."""
        await self._refresh()
        state = self._ledger.settled
        self._check(state)
        self._screen.show(state, state.length)
        now, requests = resting(state, self._graph, self._others.ready)
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

    async def _next(self) -> tuple[bool, list[Note]]:
        """Wait for something to happen: whether to look into the ledger, and what was heard."""
        session, known = self._ledger.session, self._screen.facts
        self._watch("ledger", lambda: self._ledger.store.wait(session, known, LOOK_SECONDS))
        if any(call.paused for call in self._ledger.state.batch):
            self._watch("elsewhere", self._others.moved)
        await self._wake.wait()
        self._wake.clear()
        news = False
        for name, watch in list(self._watches.items()):
            if watch.done():
                watch.result()
                del self._watches[name]
                news = True
        notes = [note for data in self._notes if (note := read_note(data))]
        self._notes.clear()
        return news or any(note.facts > known for note in notes), notes

    def _watch(self, name: str, wait: Callable[[], Awaitable[Any]]) -> None:
        if name not in self._watches:
            self._watches[name] = watch = asyncio.ensure_future(wait())
            watch.add_done_callback(lambda _: self._wake.set())
