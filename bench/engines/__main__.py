"""`make bench-engines`: the same conversations with SQLite, with Postgres alone, and with Temporal and Restate over Postgres, side by side.

    python -m bench.engines                   about four minutes
    python -m bench.engines --rounds 1        a third of that, and less certain

A conversation has five turns; in each the model calls three parallel tools and then answers in about a hundred tokens. Model and tools
answer at once, so the runtime, its database and the engine are measured alone. A *step* is one turn, from the message until the session
is idle: for an engine, one `advance`.

- conversations/s: 16 at once, for some seconds. SQLite and Postgres alone: one process that drives them. Engines: one client process that
  sends messages and follows, and one worker that drives.
- ms per step: the time that a user waits for a turn when nothing else runs, median.
- CPU ms per step: with the 16 at once; of our own processes (client and worker), of Postgres, of the engine's server.
- to the bare loop: the same bytes appended to the same database in as many transactions, 16 loops at once or a single one, by one process
  that does nothing else (`bare_loop.py`): on SQLite for SQLite, on Postgres for all others.

Postgres waits for the disk, as in production. All processes share one machine: rates show how the rows compare, and CPU per step carries
over to other machines. Rounds go through all rows in turn; the medians are printed.
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

from bench.engines.bare_loop import BarePostgres, BareSQLite, RecordedAppend, record_appends
from bench.engines.desk import desk
from bench.workloads import QUESTION
from legato.engines import open_engine
from legato.stores import PostgresStore, SQLiteStore, Store
from legato.testing.postgres import postgres_server
from tests.engines.servers import Process, RestateServer, Server, TemporalServer, wait_until

TURNS_PER_CONVERSATION = 5
CONCURRENT_CONVERSATIONS = 16
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SYSTEM_NAMES = (
    "SQLite, bare loop",
    "SQLite",
    "Postgres, bare loop",
    "Postgres alone",
    "Temporal over Postgres",
    "Restate over Postgres",
)

RunTurn = Callable[[], Awaitable[None]]
"""Run the next turn of a conversation."""


class MeasuredSystem(NamedTuple):
    """A measured system: a function that starts a conversation, and the processes whose CPU counts besides this one; 0: none."""

    start_conversation: Callable[[], RunTurn]
    worker_pid: int = 0
    database_pid: int = 0
    engine_pid: int = 0


class EngineFigures(NamedTuple):
    """The figures of one round."""

    per_second: float
    single_ms: float
    legato_ms: float
    database_ms: float
    engine_ms: float


class RowStore(Protocol):
    async def append(self, ledger: str, position: int, append: RecordedAppend) -> None: ...


def run_bare_loop(rows: RowStore, turns: list[list[RecordedAppend]]) -> Callable[[], RunTurn]:
    numbers = itertools.count()

    def start_conversation() -> RunTurn:
        name, position, left = f"bare-{os.getpid()}-{time.monotonic_ns()}-{next(numbers)}", 0, iter(turns)

        async def run_turn() -> None:
            nonlocal position
            for append in next(left):
                await rows.append(name, position, append)
                position += len(append.bodies)

        return run_turn

    return start_conversation


def run_in_process(store: Store) -> Callable[[], RunTurn]:
    """Return the function that starts a conversation in this process."""

    def start_conversation() -> RunTurn:
        session = desk.session(store=store)

        async def run_turn() -> None:
            await session.run(QUESTION)

        return run_turn

    return start_conversation


@asynccontextmanager
async def run_with_worker(server: Server, folder: Path, dsn: str, store: Store, database: int) -> AsyncIterator[MeasuredSystem]:
    """Run an engine's server and a worker; yield the system."""
    server.start()
    assert server.process is not None
    address = server.engine_url("bench")
    command = [sys.executable, "-m", "legato.cli", "worker", "bench.engines.desk:desk", "--engine", address, "--store", dsn]
    worker = Process(command, folder / f"{server.name}-worker.log")
    names = itertools.count()
    try:
        wait_until(lambda: " serves " in worker.output or worker.exit_code is not None, 60, "the worker")
        async with open_engine(address) as engine:

            def start_conversation() -> RunTurn:
                session = engine.session(desk, f"{server.name}-{next(names)}", store)

                async def run_turn() -> None:
                    await session.run(QUESTION)

                return run_turn

            yield MeasuredSystem(start_conversation, worker.pid, database, server.process.pid)
        assert worker.exit_code is None, worker.output
    finally:
        worker.kill()
        server.kill()


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and all its descendants, also of those that have ended; 0 for no process."""
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
    total, remaining = 0, [pid]
    while remaining:
        each = remaining.pop()
        total += sum(stats.get(each, (0, [0]))[1])
        remaining += [child for child, (parent, _) in stats.items() if parent == each]
    return total / CLOCK_TICKS_PER_S


async def measure_system(system: MeasuredSystem, seconds: float) -> EngineFigures:
    """Measure one round of one system."""
    single_steps = []
    for _ in range(4):
        run_turn = system.start_conversation()
        for turn in range(TURNS_PER_CONVERSATION):
            began = time.perf_counter()
            await run_turn()
            if turn:
                single_steps.append(time.perf_counter() - began)

    async def one() -> int:
        done = 0
        while time.perf_counter() < end:
            run_turn = system.start_conversation()
            for _ in range(TURNS_PER_CONVERSATION):
                await run_turn()
            done += 1
        return done

    whose = (system.worker_pid, system.database_pid, system.engine_pid)
    before, mine, began = [read_cpu_seconds(pid) for pid in whose], time.process_time(), time.perf_counter()
    end = began + seconds
    many = sum(await asyncio.gather(*(one() for _ in range(CONCURRENT_CONVERSATIONS))))
    took, spent = time.perf_counter() - began, time.process_time() - mine
    worker, database, engine = (read_cpu_seconds(pid) - first for pid, first in zip(whose, before, strict=True))
    step = 1e3 / (many * TURNS_PER_CONVERSATION)
    return EngineFigures(many / took, 1e3 * statistics.median(single_steps), (spent + worker) * step, database * step, engine * step)


def render_table(found: dict[str, list[EngineFigures]]) -> str:
    """Render the medians as Markdown."""
    medians = {name: EngineFigures(*map(statistics.median, zip(*rounds, strict=True))) for name, rounds in found.items()}
    lines = [
        "| | conversations/s | the bare loop has times as many | ms per step, alone | times the bare loop's"
        " | CPU ms per step: ours | Postgres | engine | all, times the bare loop's |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in medians.items():
        limit = medians["SQLite, bare loop" if name.startswith("SQLite") else "Postgres, bare loop"]
        cost, least = (sum(each[2:]) for each in (row, limit))
        ratios = (limit.per_second / row.per_second, row.single_ms / limit.single_ms, cost / least)
        more, longer, dearer = (f"{each:.1f}" if row is not limit else "1" for each in ratios)
        shown = (f"{row.per_second:,.1f}", more, f"{row.single_ms:.2f}", longer, *(f"{each:.2f}" for each in row[2:]), dearer)
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


async def compare_systems(rounds: int, seconds: float, dsn: str, postmaster: int, folder: Path) -> dict[str, list[EngineFigures]]:
    turns = await record_appends(TURNS_PER_CONVERSATION)
    many, size = sum(map(len, turns)), sum(len(body) for turn in turns for append in turn for body in append.bodies)
    print(f"a conversation: {TURNS_PER_CONVERSATION} steps, {many} appends, {size:,} bytes", flush=True)
    found: dict[str, list[EngineFigures]] = {name: [] for name in SYSTEM_NAMES}
    async with AsyncExitStack() as stack:
        file = await stack.enter_async_context(SQLiteStore(folder / "desk.sqlite"))
        store = await stack.enter_async_context(PostgresStore(dsn, pool_size=CONCURRENT_CONVERSATIONS))
        bare_file, bare_server = BareSQLite(folder / "bare.sqlite"), await BarePostgres.connect(dsn, CONCURRENT_CONVERSATIONS)
        stack.push_async_callback(bare_file.close)
        stack.push_async_callback(bare_server.close)
        await store.list()
        restate = RestateServer(folder, RESTATE_WORKER__INVOKER__HTTP2_STREAMS_PER_CONNECTION_LIMIT="100")
        engines: list[Any] = [run_with_worker(server, folder, dsn, store, postmaster) for server in (TemporalServer(folder), restate)]
        systems = (
            MeasuredSystem(run_bare_loop(bare_file, turns)),
            MeasuredSystem(run_in_process(file)),
            MeasuredSystem(run_bare_loop(bare_server, turns), database_pid=postmaster),
            MeasuredSystem(run_in_process(store), database_pid=postmaster),
            *[await stack.enter_async_context(each) for each in engines],
        )
        for number in range(rounds):
            for name, system in zip(SYSTEM_NAMES, systems, strict=True):
                figures = await measure_system(system, seconds)
                found[name].append(figures)
                summary = f"{figures.per_second:,.1f} conversations/s, {figures.single_ms:.2f} ms per single step"
                print(f"round {number + 1}  {name}: {summary}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-engines", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="the number of rounds through all rows (3)")
    parser.add_argument("--seconds", type=float, default=8.0, help="the duration of each measurement of a rate (8)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="legato-bench-engines-") as folder, postgres_server(durable=True) as server:
        postmaster = int((server.folder / "pid").read_text())
        found = asyncio.run(compare_systems(options.rounds, options.seconds, server.dsn, postmaster, Path(folder)))
    print(f"\n{render_table(found)}")


if __name__ == "__main__":
    main()
