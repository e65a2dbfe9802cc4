"""`make bench-engines`: the same conversations by SQLite, by Postgres alone, and by Temporal and Restate over Postgres, side by side.

    python -m bench.engines                   about four minutes
    python -m bench.engines --rounds 1        a third of that, and less certain

A conversation has five turns; in each the model calls three tools side by side and then answers in about a hundred tokens. Model and
tools answer at once, so what is measured is what is left: the runtime, its database, and the engine. A *step* is one turn, from the
message until the session rests: for an engine, one `advance`.

- conversations/s: 16 at once, for some seconds. SQLite and Postgres alone: one process that holds them. Engines: one client process that
  says and looks on, and one worker that drives.
- ms per step: how long a person waits for a turn when nothing else goes on, median.
- CPU ms per step: of the 16 at once; of our own processes (client and worker), of Postgres, of the engine's server.
- to the bare loop: the same bytes appended to the same database in as many transactions, 16 loops at once or one alone, by one process
  that does nothing else (`bare.py`). SQLite's is SQLite's, for all others it is Postgres'.

Postgres waits for the disk, as in production. Everything runs on one machine, so what one process takes the others lack: rates say how the
rows compare, CPU per step is what carries over to other machines. Rounds go through all rows in turn; the medians are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from bench.engines.bare import Append, BarePostgres, BareSQLite, appends_of
from bench.engines.desk import desk
from bench.workloads import QUESTION
from legato.engines import open_engine
from legato.stores import PostgresStore, SQLiteStore, Store
from legato.testing.postgres import postgres_server
from tests.engines.servers import Process, RestateServer, Server, TemporalServer, wait_until

TURNS = 5
AT_ONCE = 16
TICK = os.sysconf("SC_CLK_TCK")
NAMES = ("SQLite, bare loop", "SQLite", "Postgres, bare loop", "Postgres alone", "Temporal over Postgres", "Restate over Postgres")

Say = Callable[[], Awaitable[None]]
"""Take the next turn of a conversation."""


class System(NamedTuple):
    """What is measured: how a conversation begins, and whose CPU counts besides this process's."""

    begin: Callable[[], Say]
    worker: int = 0
    database: int = 0
    engine: int = 0


class Figures(NamedTuple):
    """Of one round."""

    per_second: float
    alone_ms: float
    ours_ms: float
    database_ms: float
    engine_ms: float


class Rows(Protocol):
    async def append(self, ledger: str, position: int, append: Append) -> None: ...


def bare(rows: Rows, turns: list[list[Append]]) -> Callable[[], Say]:
    numbers = itertools.count()

    def begin() -> Say:
        name, position, left = f"bare-{os.getpid()}-{time.monotonic_ns()}-{next(numbers)}", 0, iter(turns)

        async def say() -> None:
            nonlocal position
            for append in next(left):
                await rows.append(name, position, append)
                position += len(append.bodies)

        return say

    return begin


def driven(store: Store) -> Callable[[], Say]:
    """By this process itself."""

    def begin() -> Say:
        session = desk.session(store=store)

        async def say() -> None:
            await session.run(QUESTION)

        return say

    return begin


@asynccontextmanager
async def worked(server: Server, folder: Path, dsn: str, store: Store, database: int) -> AsyncIterator[System]:
    """By a worker of an engine."""
    server.start()
    assert server.process is not None
    address = server.engine_url("bench")
    command = [sys.executable, "-m", "legato.cli", "worker", "bench.engines.desk:desk", "--engine", address, "--store", dsn]
    worker = Process(command, folder / f"{server.name}-worker.log")
    names = itertools.count()
    try:
        wait_until(lambda: " serves " in worker.output or worker.exit_code is not None, 60, "the worker")
        async with open_engine(address) as engine:

            def begin() -> Say:
                session = engine.session(desk, f"{server.name}-{next(names)}", store)

                async def say() -> None:
                    await session.run(QUESTION)

                return say

            yield System(begin, worker.pid, database, server.process.pid)
        assert worker.exit_code is None, worker.output
    finally:
        worker.kill()
        server.kill()


def cpu(pid: int) -> float:
    """Seconds of CPU of a process and of all that it started, also of those that have ended; 0: nobody's."""
    if not pid:
        return 0.0
    stats: dict[int, tuple[int, list[int]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            stats[int(entry.name)] = int(fields[1]), [int(each) for each in fields[11:15]]
    total, look = 0, [pid]
    while look:
        each = look.pop()
        total += sum(stats.get(each, (0, [0]))[1])
        look += [child for child, (parent, _) in stats.items() if parent == each]
    return total / TICK


async def measured(system: System, seconds: float) -> Figures:
    """One round of one row."""
    alone = []
    for _ in range(4):
        say = system.begin()
        for turn in range(TURNS):
            began = time.perf_counter()
            await say()
            if turn:
                alone.append(time.perf_counter() - began)

    async def one() -> int:
        done = 0
        while time.perf_counter() < end:
            say = system.begin()
            for _ in range(TURNS):
                await say()
            done += 1
        return done

    whose = (system.worker, system.database, system.engine)
    before, mine, began = [cpu(pid) for pid in whose], time.process_time(), time.perf_counter()
    end = began + seconds
    many = sum(await asyncio.gather(*(one() for _ in range(AT_ONCE))))
    took, spent = time.perf_counter() - began, time.process_time() - mine
    worker, database, engine = (cpu(pid) - first for pid, first in zip(whose, before, strict=True))
    step = 1e3 / (many * TURNS)
    return Figures(many / took, 1e3 * statistics.median(alone), (spent + worker) * step, database * step, engine * step)


def table(found: dict[str, list[Figures]]) -> str:
    """The medians, as Markdown."""
    medians = {name: Figures(*map(statistics.median, zip(*rounds, strict=True))) for name, rounds in found.items()}
    lines = [
        "| | conversations/s | bare loop's are so many times more | ms per step, alone | times the bare loop's"
        " | CPU ms per step: ours | Postgres | engine | all, times the bare loop's |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in medians.items():
        limit = medians["SQLite, bare loop" if name.startswith("SQLite") else "Postgres, bare loop"]
        cost, least = (sum(each[2:]) for each in (row, limit))
        ratios = (limit.per_second / row.per_second, row.alone_ms / limit.alone_ms, cost / least)
        more, longer, dearer = (f"{each:.1f}" if row is not limit else "1" for each in ratios)
        shown = (f"{row.per_second:,.1f}", more, f"{row.alone_ms:.2f}", longer, *(f"{each:.2f}" for each in row[2:]), dearer)
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


async def compare(rounds: int, seconds: float, dsn: str, postmaster: int, folder: Path) -> dict[str, list[Figures]]:
    turns = await appends_of(TURNS)
    many, size = sum(map(len, turns)), sum(len(body) for turn in turns for append in turn for body in append.bodies)
    print(f"a conversation: {TURNS} steps, {many} appends, {size:,} bytes", flush=True)
    found: dict[str, list[Figures]] = {name: [] for name in NAMES}
    async with AsyncExitStack() as stack:
        file = await stack.enter_async_context(SQLiteStore(folder / "desk.sqlite"))
        store = await stack.enter_async_context(PostgresStore(dsn, pool_size=AT_ONCE))
        bare_file, bare_server = BareSQLite(folder / "bare.sqlite"), await BarePostgres.on(dsn, AT_ONCE)
        stack.push_async_callback(bare_file.close)
        stack.push_async_callback(bare_server.close)
        await store.list()
        restate = RestateServer(folder, RESTATE_WORKER__INVOKER__HTTP2_STREAMS_PER_CONNECTION_LIMIT="100")
        engines: list[Any] = [worked(server, folder, dsn, store, postmaster) for server in (TemporalServer(folder), restate)]
        systems = (
            System(bare(bare_file, turns)),
            System(driven(file)),
            System(bare(bare_server, turns), database=postmaster),
            System(driven(store), database=postmaster),
            *[await stack.enter_async_context(each) for each in engines],
        )
        for number in range(rounds):
            for name, system in zip(NAMES, systems, strict=True):
                figures = await measured(system, seconds)
                found[name].append(figures)
                told = f"{figures.per_second:,.1f} conversations/s, {figures.alone_ms:.2f} ms per step alone"
                print(f"round {number + 1}  {name}: {told}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-engines", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often all rows are measured in turn (3)")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each rate is measured (8)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="legato-bench-engines-") as folder, postgres_server(durable=True) as server:
        postmaster = int((server.folder / "pid").read_text())
        found = asyncio.run(compare(given.rounds, given.seconds, server.dsn, postmaster, Path(folder)))
    print(f"\n{table(found)}")


if __name__ == "__main__":
    main()
