"""A worker for chaos runs: `python -m tests.chaos.worker_process ENGINE DSN [MUTANT]`.

Leases are short, so that takeovers are frequent. MUTANT names a deliberate bug.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys

from legato.engines import RetryPolicy, Worker, open_engine
from legato.stores import PostgresStore
from tests.chaos.desk import desk
from tests.chaos.mutants import MUTANTS
from tests.sim.mutants import apply_mutant

LEASE_SECONDS = 2.0


async def work(engine: str, dsn: str) -> None:
    async with PostgresStore(dsn, lease_seconds=LEASE_SECONDS, pool_size=6) as store, open_engine(engine) as chosen:
        pace = RetryPolicy(failure_delays=(0.3,) * 5, error_delays=(0.3, 1, 3))
        await Worker(desk, engine=chosen, store=store, sweep_interval=3.0, retry_policy=pace).run()


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(message)s", level=logging.WARNING)
    logging.getLogger("legato.worker").setLevel(logging.INFO)
    where, dsn, *bug = sys.argv[1:]
    with apply_mutant(bug[0], MUTANTS) if bug else contextlib.nullcontext():
        asyncio.run(work(where, dsn))
