"""Permits in the database of a Postgres store, for workers on any number of machines. May know: SQL. Decides: nothing more than it says."""

from __future__ import annotations

import uuid
from typing import Final

from legato.engines.permits import LASTS, Limit, Permit
from legato.stores import PostgresStore

TAKE: Final = "SELECT legato.take_permit(%s::text, %s::text, %s::integer, %s::double precision, %s::double precision)"
KEEP: Final = (
    "UPDATE legato.permits SET until = clock_timestamp() + make_interval(secs => %s::double precision) WHERE seat = %s::text RETURNING 1"
)
GIVE_BACK: Final = "DELETE FROM legato.permits WHERE seat = %s::text RETURNING 1"


class PostgresPermits:
    """One round trip each, by the server's clock. The tables are the store's `postgres_sql/`."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def take(self, name: str, limit: Limit) -> Permit | None:
        """A permit; None while there is none to be had."""
        seat = uuid.uuid4().hex
        [(wait,)] = await self._store.beside(TAKE, (name, seat, limit.at_once, limit.apart, LASTS))
        return None if wait is None else Permit(name, seat, float(wait))

    async def keep(self, permit: Permit) -> None:
        """Put off its end."""
        await self._store.beside(KEEP, (LASTS, permit.seat))

    async def give_back(self, permit: Permit) -> None:
        """Let somebody else have it."""
        await self._store.beside(GIVE_BACK, (permit.seat,))
