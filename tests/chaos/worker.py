"""A worker of the chaotic desk: `python -m tests.chaos.worker ENGINE DSN [MUTANT]`. It is started to be killed.

Leases are short, so that takeovers are many; with the name of a mutant it has that bug.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys

from legato.engines import Pace, Worker, engine_at
from legato.stores import PostgresStore
from tests.chaos.desk import desk
from tests.chaos.mutants import MUTANTS
from tests.sim.mutants import applied

LEASE_SECONDS = 2.0


async def work(engine: str, dsn: str) -> None:
    async with PostgresStore(dsn, lease_seconds=LEASE_SECONDS, pool_size=6) as store, engine_at(engine) as chosen:
        pace = Pace(failed=(0.3,) * 5, raised=(0.3, 1, 3))
        await Worker(desk, engine=chosen, store=store, sweep=3.0, pace=pace).run()


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", level=logging.WARNING)
    logging.getLogger("legato.worker").setLevel(logging.INFO)
    where, dsn, *bug = sys.argv[1:]
    with applied(bug[0], MUTANTS) if bug else contextlib.nullcontext():
        asyncio.run(work(where, dsn))
