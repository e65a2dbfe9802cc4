"""Permits to call a model, shared by all workers of a store. May know: SQLite. Decides: who may begin now, and who has to wait.

A permit is held while one call runs. It is a row with a time at which it ends by itself: its holder puts that off while it lives, so
what a dead one held comes back. The rows are in the database that the workers share; they are no history, and losing them loses nothing.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from legato.errors import BadInput
from legato.private_files import create_private

if TYPE_CHECKING:
    import sqlite3

LASTS = 30.0
"""Seconds that a permit lasts, unless its holder puts its end off. What a dead worker held comes back after at most as long."""

KEEP = "INSERT INTO seats VALUES (?, ?, ?) ON CONFLICT (seat) DO UPDATE SET until = excluded.until"

T = TypeVar("T")


@dataclass(frozen=True)
class Limit:
    """How often a model may be called: so many calls at once, so many begun per minute (evenly: one every 60/n seconds). 0: no limit."""

    at_once: int = 0
    per_minute: float = 0

    def __post_init__(self) -> None:
        if self.at_once < 0 or self.per_minute < 0 or not (self.at_once or self.per_minute):
            raise BadInput("a limit has at_once, per_minute or both, above 0", found=repr(self), do="write Limit(at_once=20)")

    @property
    def apart(self) -> float:
        """Seconds between the beginnings of two calls."""
        return 60 / self.per_minute if self.per_minute else 0.0


@dataclass(frozen=True)
class Permit:
    """The right to one call, which begins now."""

    name: str
    seat: str


class Permits(Protocol):
    """Three sentences: at most `at_once` permits of a name are held at a time, among all processes; their calls begin at least
    `apart` seconds after one another; what a dead process held comes back. Nothing is promised to who waits, so that who dies
    while it waits keeps nobody waiting. Where the permits cannot be reached, they raise `StoreError`."""

    async def take(self, name: str, limit: Limit) -> Permit | float:
        """A permit to begin now; or in how many seconds one may be had, 0 if that is not known: when somebody gives theirs back."""
        ...

    async def keep(self, permit: Permit) -> None:
        """Put off its end. If it has ended meanwhile, it is held again: its call runs."""
        ...

    async def give_back(self, permit: Permit) -> None:
        """Let somebody else have it."""
        ...


class SQLitePermits:
    """Permits for the processes of one machine, in a file of their own; or for one process, without a path."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    async def take(self, name: str, limit: Limit) -> Permit | float:
        """A permit to begin now; or in how many seconds one may be had, 0 if that is not known."""
        return await asyncio.to_thread(self._done, lambda connection: _taken(connection, name, limit))

    async def keep(self, permit: Permit) -> None:
        """Put off its end. If it has ended meanwhile, it is held again."""
        until = (permit.name, permit.seat, time.time() + LASTS)
        await asyncio.to_thread(self._done, lambda connection: connection.execute(KEEP, until))

    async def give_back(self, permit: Permit) -> None:
        """Let somebody else have it."""
        await asyncio.to_thread(self._done, lambda connection: connection.execute("DELETE FROM seats WHERE seat = ?", (permit.seat,)))

    def _done(self, work: Callable[[sqlite3.Connection], T]) -> T:
        import sqlite3  # with the first permit: `legato --help` needs none

        from legato.stores.sqlite_file import in_our_words

        try:
            with self._lock:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    return work(connection)
        except (sqlite3.Error, OSError) as error:
            raise in_our_words(error, self._path) from error

    def _open(self) -> sqlite3.Connection:
        import sqlite3

        if self._connection is None:
            if self._path:
                create_private(self._path)
            connection = sqlite3.connect(self._path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")  # what a power cut takes nobody misses
            connection.execute("CREATE TABLE IF NOT EXISTS seats (name TEXT, seat TEXT PRIMARY KEY, until REAL)")
            connection.execute("CREATE TABLE IF NOT EXISTS starts (name TEXT PRIMARY KEY, next REAL)")
            self._connection = connection
        return self._connection


def _taken(connection: sqlite3.Connection, name: str, limit: Limit) -> Permit | float:
    now = time.time()
    # One that ends later than it can was left by a clock that was set back; if its holder lives, it takes the seat again.
    connection.execute("DELETE FROM seats WHERE until < ? OR until > ?", (now, now + LASTS))
    found = connection.execute("SELECT next FROM starts WHERE name = ?", (name,)).fetchone()
    wait = found[0] - now if found else 0.0
    if 0 < wait <= limit.apart:  # one that is further off was left by a clock that was set back, or by another limit
        return float(wait)
    (held,) = connection.execute("SELECT count(*) FROM seats WHERE name = ?", (name,)).fetchone()
    if limit.at_once and held >= limit.at_once:
        return 0.0
    permit = Permit(name, uuid.uuid4().hex)
    connection.execute("INSERT INTO seats VALUES (?, ?, ?)", (name, permit.seat, now + LASTS))
    connection.execute("INSERT OR REPLACE INTO starts VALUES (?, ?)", (name, now + limit.apart))
    return permit
