"""What is being said, from machine to machine. May know: notifications. Decides: who is told, and who is asked whether anybody listens.

Notes are notifications: they go to all processes that listen to anything, and are kept nowhere. Who listens elsewhere is not known to the
server, so it is asked for: whoever begins to say something asks on the channel of those who listen, and they answer on the one that
whoever says something hears; so does whoever begins to listen later. Where nobody answers, nothing more is sent. An answer that is lost
costs pieces of replies, which come whole then.

The line's thread sends and hears (`postgres_line.py`); nobody who drives waits for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from legato.stores import postgres_statements as sql
from legato.stores.live import Heard, Listeners
from legato.stores.postgres_rows import key_of

ANYBODY, HERE = "?", "+"
"""Does anybody listen to this ledger? Somebody does, or has just begun to."""

MOST = 1000
"""Notes that wait to be sent; of more, the oldest are forgotten."""


class Notes:
    """What one line sends and hears beside its news. `ring` wakes the line's thread."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self.forget()

    def forget(self) -> None:
        """Start anew, in a forked child too."""
        self._lock = threading.Lock()
        self._here = Listeners()  # those who listen in this process, by key
        self._elsewhere: dict[str, int] = {}  # how often somebody said that they listen, by the key of what is being said here
        self._outgoing: deque[tuple[str, str]] = deque(maxlen=MOST)
        self._line: object = None  # the connection that was used last
        self._heard = False  # whether it listens to notes

    def listeners(self, key: str) -> int:
        """How often somebody said that they listen. It is asked for when this is called first, and so is 0 then."""
        known = self._elsewhere.get(key)
        if known is None:
            with self._lock:
                self._elsewhere[key] = 0
            self._post(sql.NOTES, f"{key} {ANYBODY}")
        return known or 0

    def over(self, key: str) -> None:
        """Nothing more is said there for now."""
        if key in self._elsewhere:
            with self._lock:
                self._elsewhere.pop(key, None)

    def tell(self, key: str, note: bytes) -> None:
        """Pass a note to those who listen."""
        self._post(sql.NOTES, f"{key} {note.decode()}")

    @asynccontextmanager
    async def hear(self, key: str, heard: Heard) -> AsyncIterator[None]:
        """Listen for as long as the context is open."""
        async with self._here.hear(key, heard):
            self._post(sql.NEWS, f"{key} {HERE}")
            yield

    def _post(self, channel: str, told: str) -> None:
        with self._lock:
            self._outgoing.append((channel, told))
        self._ring()

    # -- what the line's thread does -------------------------------------------------------------------------------------

    def take(self, key: str, told: str) -> None:
        """Something was heard that is no news."""
        if told == ANYBODY:
            if self._here.listeners(key):
                self._post(sql.NEWS, f"{key} {HERE}")
        elif told == HERE:
            with self._lock:
                if key in self._elsewhere:
                    self._elsewhere[key] += 1
        else:
            self._here.tell(key, told.encode())

    def asked(self) -> bool:
        """Whether answers may come: something is being said here."""
        return bool(self._elsewhere)

    def send(self, connection: Any, heed: Callable[[Any], None]) -> None:
        """Listen to notes where somebody here wants them, and send what waits. `heed` has the line listen to answers."""
        if connection is not self._line:  # the line was down: who was missed, and who missed what?
            self._line, self._heard = connection, False
            with self._lock:
                self._outgoing.extend((sql.NEWS, f"{key} {HERE}") for key in self._here.ledgers())
                self._outgoing.extend((sql.NOTES, f"{key} {ANYBODY}") for key in self._elsewhere)
        wanted = bool(self._here.ledgers())
        if wanted and not self._heard:
            connection.execute(sql.HEAR)
        elif self._heard and not wanted:
            connection.execute(sql.IGNORE)
        self._heard = wanted
        with self._lock:
            outgoing = list(self._outgoing)
            self._outgoing.clear()
        if outgoing:
            if self.asked():
                heed(connection)  # before anybody is asked
            connection.execute(sql.TELL, tuple(map(list, zip(*outgoing, strict=True))))


class PostgresLive:
    """The notes of one tenant's ledgers."""

    pace = 0.03
    longest = 7900  # a notification has less than 8000 bytes, of which the key takes 33

    def __init__(self, notes: Notes, tenant: str) -> None:
        self._notes = notes
        self._tenant = tenant

    def listeners(self, ledger: str) -> int:
        """0: nobody is known to listen; any other number is another one when somebody has begun to."""
        return self._notes.listeners(key_of(self._tenant, ledger))

    def tell(self, ledger: str, note: bytes) -> None:
        """Pass a note to those who listen."""
        self._notes.tell(key_of(self._tenant, ledger), note)

    def hear(self, ledger: str, heard: Heard) -> AbstractAsyncContextManager[None]:
        """Listen for as long as the context is open."""
        return self._notes.hear(key_of(self._tenant, ledger), heard)
