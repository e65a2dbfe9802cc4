"""Permits in the database of a Postgres store, for workers on any number of machines. May know: SQL. Decides: nothing more than it says."""

from __future__ import annotations

import uuid
from typing import Final

from legato.engines.permits import LASTS, Limit, Permit
from legato.stores import PostgresStore

TAKE: Final = "SELECT legato.take_permit(%s::text, %s::text, %s::integer, %s::double precision, %s::double precision)"
KEEP: Final = (
    "INSERT INTO legato.permits AS p (name, seat, until)"
    " VALUES (%s::text, %s::text, clock_timestamp() + make_interval(secs => %s::double precision))"
    " ON CONFLICT (seat) DO UPDATE SET until = excluded.until RETURNING 1"
)
GIVE_BACK: Final = "DELETE FROM legato.permits WHERE seat = %s::text RETURNING 1"


class PostgresPermits:
    """One round trip each, by the server's clock. The tables are the store's `postgres_sql/`."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def take(self, name: str, limit: Limit) -> Permit | float:
        """A permit to begin now; or in how many seconds one may be had, 0 if that is not known."""
        seat = uuid.uuid4().hex
        [(wait,)] = await self._store.beside(TAKE, (name, seat, limit.at_once, limit.apart, LASTS))
        return Permit(name, seat) if wait is None else float(wait)

    async def keep(self, permit: Permit) -> None:
        """Put off its end. If it has ended meanwhile, it is held again."""
        await self._store.beside(KEEP, (permit.name, permit.seat, LASTS))

    async def give_back(self, permit: Permit) -> None:
        """Let somebody else have it."""
        await self._store.beside(GIVE_BACK, (permit.seat,))
