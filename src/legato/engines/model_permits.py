"""Permits for model requests, shared by all workers of a store.

A permit is held while one request runs. It is a row that expires: its holder extends it while it is alive, so the permits of a dead process
become free again. The rows are in the database that the workers share. They are no history: losing them loses nothing.
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
from legato.private_files import create_private_file

if TYPE_CHECKING:
    import sqlite3

PERMIT_DURATION_S = 30.0
"""The time after which a permit expires unless its holder extends it: the longest time that a dead worker's permit is taken."""

RENEW = "INSERT INTO seats VALUES (?, ?, ?) ON CONFLICT (seat) DO UPDATE SET until = excluded.until"

T = TypeVar("T")


@dataclass(frozen=True)
class Limit:
    """The limit of a model: requests at the same time, and requests begun per minute (evenly: one every 60/n seconds). 0: no limit."""

    at_once: int = 0
    per_minute: float = 0

    def __post_init__(self) -> None:
        if self.at_once < 0 or self.per_minute < 0 or not (self.at_once or self.per_minute):
            raise BadInput("a limit has at_once, per_minute or both, above 0", found=repr(self), do="write Limit(at_once=20)")

    @property
    def interval_s(self) -> float:
        """Seconds between the beginnings of two requests."""
        return 60 / self.per_minute if self.per_minute else 0.0


@dataclass(frozen=True)
class Permit:
    """The right to one request, which begins now."""

    name: str
    id: str


class Permits(Protocol):
    """Permits for the requests of models.

    At most `at_once` permits of a name are held at a time, among all processes. Their requests begin at least `interval_s` seconds apart.
    The permits of a dead process become free again. Waiting callers have no place in a queue, so a caller that dies while it waits holds up
    no other. Raises `StoreError` where the permits cannot be reached.
    """

    async def acquire(self, name: str, limit: Limit) -> Permit | float:
        """Return a permit to begin now, or the seconds until one may be free; 0 if that depends on a release."""
        ...

    async def renew(self, permit: Permit) -> None:
        """Extend a permit. If it has expired meanwhile, it is taken again, because its request runs."""
        ...

    async def release(self, permit: Permit) -> None:
        """Release a permit."""
        ...


class SQLitePermits:
    """Permits for the processes of one machine, in a file of their own; without a path, for one process."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    async def acquire(self, name: str, limit: Limit) -> Permit | float:
        """Return a permit to begin now, or the seconds until one may be free; 0 if that depends on a release."""
        return await asyncio.to_thread(self._run, lambda connection: _acquire(connection, name, limit))

    async def renew(self, permit: Permit) -> None:
        """Extend a permit. If it has expired meanwhile, it is taken again."""
        row = (permit.name, permit.id, time.time() + PERMIT_DURATION_S)
        await asyncio.to_thread(self._run, lambda connection: connection.execute(RENEW, row))

    async def release(self, permit: Permit) -> None:
        """Release a permit."""
        await asyncio.to_thread(self._run, lambda connection: connection.execute("DELETE FROM seats WHERE seat = ?", (permit.id,)))

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        import sqlite3  # at the first permit: `legato --help` needs none

        from legato.stores.sqlite.database_file import translate_error

        try:
            with self._lock:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    return work(connection)
        except (sqlite3.Error, OSError) as error:
            raise translate_error(error, self._path) from error

    def _open(self) -> sqlite3.Connection:
        import sqlite3

        if self._connection is None:
            if self._path:
                create_private_file(self._path)
            connection = sqlite3.connect(self._path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")  # permits need not survive a power cut
            connection.execute("CREATE TABLE IF NOT EXISTS seats (name TEXT, seat TEXT PRIMARY KEY, until REAL)")
            connection.execute("CREATE TABLE IF NOT EXISTS starts (name TEXT PRIMARY KEY, next REAL)")
            self._connection = connection
        return self._connection


def _acquire(connection: sqlite3.Connection, name: str, limit: Limit) -> Permit | float:
    now = time.time()
    # A permit that expires too late was taken before the clock was set back; if its holder is alive, it takes the permit again.
    connection.execute("DELETE FROM seats WHERE until < ? OR until > ?", (now, now + PERMIT_DURATION_S))
    found = connection.execute("SELECT next FROM starts WHERE name = ?", (name,)).fetchone()
    wait = found[0] - now if found else 0.0
    if 0 < wait <= limit.interval_s:  # a later time was left by a clock that was set back, or by another limit
        return float(wait)
    (count,) = connection.execute("SELECT count(*) FROM seats WHERE name = ?", (name,)).fetchone()
    if limit.at_once and count >= limit.at_once:
        return 0.0
    permit = Permit(name, uuid.uuid4().hex)
    connection.execute("INSERT INTO seats VALUES (?, ?, ?)", (name, permit.id, now + PERMIT_DURATION_S))
    connection.execute("INSERT OR REPLACE INTO starts VALUES (?, ?)", (name, now + limit.interval_s))
    return permit
