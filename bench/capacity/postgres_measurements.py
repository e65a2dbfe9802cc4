"""Measurements of a Postgres server with Legato's ledgers on this machine: appends, whole conversations, bytes, and the cost of size.

Server and clients share the machine's cores, so a rate alone says little about another machine. The server's CPU time per append carries
over: it is read from the server's own processes, apart from the clients'.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

sys.path.append(str(Path(__file__).parent.parent / "systems"))  # the scripts of bench/systems are no package
from legato_native import FakeModel, build_desk, make_tools

from bench.workloads import REPLY, Play, make_tool_chat
from legato import Workflow
from legato.core.facts import AnyFact, MessageReceived, ModelReplied, Opened, OutputText
from legato.stores import PostgresStore

CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Rate(NamedTuple):
    """The rate of some work by this many processes, and the CPU time of server and clients for one unit of it."""

    processes: int
    per_second: float
    server_ms: float
    """CPU time of the server per unit."""
    client_ms: float
    """CPU time of the clients per unit."""


def build_native_desk(play: Play) -> Workflow:
    """Build the desk of the benchmark's Legato script for a play."""
    return build_desk(FakeModel(play), make_tools(play))


def make_step(position: int) -> list[AnyFact]:
    """Return the facts that a usual step appends: a reply, and the message after it."""
    return [
        ModelReplied(
            at=position, agent="ann", model="fake", upto=max(position - 1, 0), items=(OutputText(REPLY),), context_digest="f" * 32
        ),
        MessageReceived(at=position, content="and what about the other parcel?"),
    ]


def _read_server_cpu_s(dsn: str) -> float:
    """Return the CPU seconds of the server's processes so far, running and ended."""
    with psycopg.connect(dsn) as connection:
        [folder] = connection.execute("SHOW data_directory").fetchone() or ("",)
    postmaster = int((Path(folder) / "postmaster.pid").read_text().split()[0])
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(entry.name) == postmaster:
                total += sum(map(int, fields[11:15]))  # its own, and that of its ended children
            elif int(fields[1]) == postmaster:
                total += sum(map(int, fields[11:13]))
    return total / CLOCK_TICKS_PER_S


def measure_rate(dsn: str, processes: int, seconds: float, work: Callable[[str, int, float], int]) -> Rate:
    """Run `work(dsn, number, seconds)` in this many processes; it returns the number of units done."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_warm_up, range(processes)))
        before, began = _read_server_cpu_s(dsn), time.perf_counter()
        done = list(pool.map(_run_measured, [(work, dsn, number, seconds) for number in range(processes)]))
        took, server = time.perf_counter() - began, _read_server_cpu_s(dsn) - before
    many = sum(each for each, _ in done)
    return Rate(processes, many / took, 1e3 * server / many, 1e3 * sum(cpu for _, cpu in done) / many)


def _warm_up(number: int) -> int:
    time.sleep(0.3)  # so that each process gets one of these tasks, and has imported everything
    return number


def _run_measured(task: tuple[Callable[[str, int, float], int], str, int, float]) -> tuple[int, float]:
    work, dsn, number, seconds = task
    began = time.process_time()
    return work(dsn, number, seconds), time.process_time() - began


# -- work ----------------------------------------------------------------------------------------------------------------------------


def append_steps(dsn: str, number: int, seconds: float, at_once: int = 16) -> int:
    """Append steps through the store, to `at_once` conversations concurrently."""

    async def one(store: PostgresStore, name: str) -> int:
        length = await store.append(name, 0, [Opened(at=0, ledger_id=name, workflow="desk")], ledger_id=name)
        done = 0
        while time.perf_counter() < until:
            length = await store.append(name, length, make_step(length), ledger_id=name)
            done += 1
        return done

    async def run_all() -> int:
        async with PostgresStore(dsn, pool_size=at_once) as store:
            return sum(await asyncio.gather(*(one(store, f"append-{os.getpid()}-{each}") for each in range(at_once))))

    until = time.perf_counter() + seconds
    return asyncio.run(run_all())


def append_bare_rows(dsn: str, number: int, seconds: float, at_once: int = 16) -> int:
    """Append the same bytes with one INSERT that commits, and nothing else: the bare limit."""
    body = b"x" * 700

    async def one(name: int) -> int:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            done = 0
            while time.perf_counter() < until:
                rows = (name, 2 * done, body, name, 2 * done + 1, body[:80])
                await connection.execute("INSERT INTO bare VALUES (%s, %s, %s), (%s, %s, %s)", rows, prepare=True)
                done += 1
            return done

    async def run_all() -> int:
        return sum(await asyncio.gather(*(one(os.getpid() * 100 + each) for each in range(at_once))))

    until = time.perf_counter() + seconds
    return asyncio.run(run_all())


def run_conversations(dsn: str, number: int, seconds: float, at_once: int = 16, turns: int = 5) -> int:
    """Run whole conversations of five turns with three parallel tools each, with a model that answers at once."""

    async def one(store: PostgresStore) -> int:
        done = 0
        while time.perf_counter() < until:
            play = make_tool_chat(turns)
            session = build_native_desk(play).session(store=store)
            for turn in range(turns):
                await session.run(play.make_user_message(turn))
            done += 1
        return done

    async def run_all() -> int:
        async with PostgresStore(dsn, pool_size=at_once) as store:
            return sum(await asyncio.gather(*(one(store) for _ in range(at_once))))

    until = time.perf_counter() + seconds
    return asyncio.run(run_all())


# -- sizes and latencies -------------------------------------------------------------------------------------------------------------


def measure_sizes(dsn: str) -> dict[str, int]:
    """Return the bytes of each of Legato's tables with its indexes, and the numbers of rows."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE) legato.ledgers, legato.facts, legato.contents")
        rows = connection.execute(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'legato'::regnamespace"
        ).fetchall()
        counts = connection.execute(
            "SELECT (SELECT count(*) FROM legato.ledgers), count(*), sum(length(body)) FROM legato.facts"
        ).fetchone() or (0, 0, 0)
    return {**dict(rows), "ledger_rows": counts[0], "fact_rows": counts[1], "fact_bytes": int(counts[2] or 0)}


COPY_LEDGERS_SQL = (
    "INSERT INTO legato.ledgers (tenant, name, length, rested, updated, touched, born)"
    " SELECT tenant, 'open-' || number, length, length, updated, nextval('legato.touches'), born"
    " FROM legato.ledgers, generate_series(%s::int, %s::int) AS number WHERE name = 'model'"
)
COPY_FACTS_SQL = (
    'INSERT INTO legato.facts (tenant, ledger, "position", format, crc, body)'
    ' SELECT f.tenant, l.id, f."position", f.format, f.crc, f.body FROM legato.facts f, legato.ledgers l'
    " WHERE f.ledger = (SELECT id FROM legato.ledgers WHERE name = 'model') AND l.name LIKE 'open-%%' AND l.id > %s"
)


def copy_conversation(dsn: str, have: int, want: int) -> None:
    """Copy the conversation named `model` until `want` idle conversations exist. With SQL, because a million take minutes."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        [last] = connection.execute("SELECT max(id) FROM legato.ledgers").fetchone() or (0,)
        connection.execute(COPY_LEDGERS_SQL, (have, want - 1))
        connection.execute(COPY_FACTS_SQL, (last,))
        connection.execute("VACUUM (ANALYZE) legato.ledgers, legato.facts")


class Latency(NamedTuple):
    """Median milliseconds of operations in sequence, beside `open` conversations."""

    open: int
    append: float
    read: float
    lease: float
    list_runnable: float
    list: float


async def measure_latencies(dsn: str, have: int, times: int = 300) -> Latency:
    """Measure single operations beside `have` conversations."""
    async with PostgresStore(dsn) as store:

        async def median(operation: Callable[[int], Awaitable[Any]]) -> float:
            durations = []
            for number in range(times):
                began = time.perf_counter()
                await operation(number)
                durations.append(time.perf_counter() - began)
            return 1e3 * statistics.median(durations)

        async def choose_name(number: int) -> str:
            return f"open-{number * 7919 % have}"

        lengths: dict[str, int] = {}

        async def append(number: int) -> None:
            name = await choose_name(number)
            length = lengths.get(name) or len(await store.read(name))
            lengths[name] = await store.append(name, length, make_step(length))

        async def read(number: int) -> None:
            await store.read(await choose_name(number + times))

        async def lease(number: int) -> None:
            name = await choose_name(number)
            lease = await store.lease(name)
            assert lease is not None
            await store.release(lease, idle_at=lengths.get(name))

        for number in range(times):
            name = await choose_name(number)
            lengths[name] = len(await store.read(name))
        return Latency(
            have,
            await median(append),
            await median(read),
            await median(lease),
            await median(lambda _: store.list_runnable(10)),
            await median(lambda _: store.list(10)),
        )
