"""Permits in the database of a Postgres store, for workers on any number of machines."""

from __future__ import annotations

import uuid
from typing import Final

from legato.engines.model_permits import PERMIT_DURATION_S, Limit, Permit
from legato.stores import PostgresStore

ACQUIRE: Final = "SELECT legato.take_permit(%s::text, %s::text, %s::integer, %s::double precision, %s::double precision)"
RENEW: Final = (
    "INSERT INTO legato.permits AS p (name, seat, until)"
    " VALUES (%s::text, %s::text, clock_timestamp() + make_interval(secs => %s::double precision))"
    " ON CONFLICT (seat) DO UPDATE SET until = excluded.until RETURNING 1"
)
RELEASE: Final = "DELETE FROM legato.permits WHERE seat = %s::text RETURNING 1"


class PostgresPermits:
    """Permits in the store's database. Each operation is one round trip, by the server's clock. `stores/postgres/sql/` has the tables."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def acquire(self, name: str, limit: Limit) -> Permit | float:
        """Return a permit to begin now, or the seconds until one may be free; 0 if that depends on a release."""
        id = uuid.uuid4().hex
        [(wait,)] = await self._store.execute(ACQUIRE, (name, id, limit.at_once, limit.interval_s, PERMIT_DURATION_S))
        return Permit(name, id) if wait is None else float(wait)

    async def renew(self, permit: Permit) -> None:
        """Extend a permit. If it has expired meanwhile, it is taken again."""
        await self._store.execute(RENEW, (permit.name, permit.id, PERMIT_DURATION_S))

    async def release(self, permit: Permit) -> None:
        """Release a permit."""
        await self._store.execute(RELEASE, (permit.id,))
