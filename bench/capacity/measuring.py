"""What a Postgres server does with Legato's ledgers, measured on this machine: appends, whole conversations, bytes, and what size costs.

Server and clients share the machine's cores, so a rate alone says little about another machine. What carries over is CPU time of the server
per append: it is read from the server's own processes, apart from the clients'.
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

sys.path.append(str(Path(__file__).parent.parent / "systems"))  # they are scripts, each run by itself
from legato_native import Fake, desk, tools_of

from bench.workloads import REPLY, chat_with_tools
from legato.core.facts import AnyFact, MessageReceived, ModelReplied, Opened, OutputText
from legato.stores import PostgresStore

TICK = os.sysconf("SC_CLK_TCK")


class Rate(NamedTuple):
    """How quickly something was done by so many processes, and what of it was the server's work."""

    processes: int
    per_second: float
    server_ms: float
    """CPU time of the server for one."""
    client_ms: float
    """CPU time of the clients for one."""


def step(position: int) -> list[AnyFact]:
    """What a usual step appends: a reply, and the message that follows it."""
    return [
        ModelReplied(
            at=position, agent="ann", model="fake", upto=max(position - 1, 0), items=(OutputText(REPLY),), context_digest="f" * 32
        ),
        MessageReceived(at=position, content="and what about the other parcel?"),
    ]


def _server_cpu(dsn: str) -> float:
    """Seconds of CPU of the server's processes so far: of those that run, and of those that have ended."""
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
                total += sum(map(int, fields[11:15]))  # its own, and that of children which have ended
            elif int(fields[1]) == postmaster:
                total += sum(map(int, fields[11:13]))
    return total / TICK


def rate(dsn: str, processes: int, seconds: float, work: Callable[[str, int, float], int]) -> Rate:
    """Let so many processes do `work(dsn, number, seconds)`, which says how much it did."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_ready, range(processes)))
        before, began = _server_cpu(dsn), time.perf_counter()
        done = list(pool.map(_measured, [(work, dsn, number, seconds) for number in range(processes)]))
        took, server = time.perf_counter() - began, _server_cpu(dsn) - before
    many = sum(each for each, _ in done)
    return Rate(processes, many / took, 1e3 * server / many, 1e3 * sum(cpu for _, cpu in done) / many)


def _ready(number: int) -> int:
    time.sleep(0.3)  # so that each process takes one of these, and has imported everything
    return number


def _measured(task: tuple[Callable[[str, int, float], int], str, int, float]) -> tuple[int, float]:
    work, dsn, number, seconds = task
    began = time.process_time()
    return work(dsn, number, seconds), time.process_time() - began


# -- what is done --------------------------------------------------------------------------------------------------------------------


def appends(dsn: str, number: int, seconds: float, at_once: int = 16) -> int:
    """Appends of a step each, to `at_once` conversations side by side, through the store."""

    async def one(store: PostgresStore, name: str) -> int:
        length = await store.append(name, 0, [Opened(at=0, ledger_id=name, workflow="desk")], ledger_id=name)
        done = 0
        while time.perf_counter() < until:
            length = await store.append(name, length, step(length), ledger_id=name)
            done += 1
        return done

    async def all_of_them() -> int:
        async with PostgresStore(dsn, pool_size=at_once) as store:
            return sum(await asyncio.gather(*(one(store, f"append-{os.getpid()}-{each}") for each in range(at_once))))

    until = time.perf_counter() + seconds
    return asyncio.run(all_of_them())


def bare_appends(dsn: str, number: int, seconds: float, at_once: int = 16) -> int:
    """The bare limit: the same bytes by one INSERT that commits, and nothing else."""
    body = b"x" * 700

    async def one(name: int) -> int:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            done = 0
            while time.perf_counter() < until:
                rows = (name, 2 * done, body, name, 2 * done + 1, body[:80])
                await connection.execute("INSERT INTO bare VALUES (%s, %s, %s), (%s, %s, %s)", rows, prepare=True)
                done += 1
            return done

    async def all_of_them() -> int:
        return sum(await asyncio.gather(*(one(os.getpid() * 100 + each) for each in range(at_once))))

    until = time.perf_counter() + seconds
    return asyncio.run(all_of_them())


def conversations(dsn: str, number: int, seconds: float, at_once: int = 16, turns: int = 5) -> int:
    """Whole conversations of five turns with three parallel tools each, by a model that answers at once."""

    async def one(store: PostgresStore) -> int:
        done = 0
        while time.perf_counter() < until:
            play = chat_with_tools(turns)
            session = desk(Fake(play), tools_of(play)).session(store=store)
            for turn in range(turns):
                await session.run(play.user(turn))
            done += 1
        return done

    async def all_of_them() -> int:
        async with PostgresStore(dsn, pool_size=at_once) as store:
            return sum(await asyncio.gather(*(one(store) for _ in range(at_once))))

    until = time.perf_counter() + seconds
    return asyncio.run(all_of_them())


# -- how large, and what size costs --------------------------------------------------------------------------------------------------


def sizes(dsn: str) -> dict[str, int]:
    """Bytes of each of Legato's tables with its indexes, and how many rows it has."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE) legato.ledgers, legato.facts, legato.contents")
        rows = connection.execute(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'legato'::regnamespace"
        ).fetchall()
        counts = connection.execute(
            "SELECT (SELECT count(*) FROM legato.ledgers), count(*), sum(length(body)) FROM legato.facts"
        ).fetchone() or (0, 0, 0)
    return {**dict(rows), "ledger_rows": counts[0], "fact_rows": counts[1], "fact_bytes": int(counts[2] or 0)}


FILL = (
    "INSERT INTO legato.ledgers (tenant, name, length, rested, updated, touched, born)"
    " SELECT tenant, 'open-' || number, length, length, updated, nextval('legato.touches'), born"
    " FROM legato.ledgers, generate_series(%s::int, %s::int) AS number WHERE name = 'model'"
)
FILL_FACTS = (
    'INSERT INTO legato.facts (tenant, ledger, "position", format, crc, body)'
    ' SELECT f.tenant, l.id, f."position", f.format, f.crc, f.body FROM legato.facts f, legato.ledgers l'
    " WHERE f.ledger = (SELECT id FROM legato.ledgers WHERE name = 'model') AND l.name LIKE 'open-%%' AND l.id > %s"
)


def fill(dsn: str, have: int, want: int) -> None:
    """Copies of the conversation named `model`, until there are so many that wait for their people. By SQL: a million take minutes."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        [last] = connection.execute("SELECT max(id) FROM legato.ledgers").fetchone() or (0,)
        connection.execute(FILL, (have, want - 1))
        connection.execute(FILL_FACTS, (last,))
        connection.execute("VACUUM (ANALYZE) legato.ledgers, legato.facts")


class Latency(NamedTuple):
    """Milliseconds at the median, one after another."""

    open: int
    append: float
    read: float
    lease: float
    unrested: float
    list: float


async def latencies(dsn: str, have: int, times: int = 300) -> Latency:
    """What single operations take beside so many conversations."""
    async with PostgresStore(dsn) as store:

        async def median(of: Callable[[int], Awaitable[Any]]) -> float:
            taken = []
            for number in range(times):
                began = time.perf_counter()
                await of(number)
                taken.append(time.perf_counter() - began)
            return 1e3 * statistics.median(taken)

        async def anywhere(number: int) -> str:
            return f"open-{number * 7919 % have}"

        lengths: dict[str, int] = {}

        async def append(number: int) -> None:
            name = await anywhere(number)
            length = lengths.get(name) or len(await store.read(name))
            lengths[name] = await store.append(name, length, step(length))

        async def read(number: int) -> None:
            await store.read(await anywhere(number + times))

        async def lease(number: int) -> None:
            name = await anywhere(number)
            given = await store.lease(name)
            assert given is not None
            await store.release(given, idle_at=lengths.get(name))

        for number in range(times):
            name = await anywhere(number)
            lengths[name] = len(await store.read(name))
        return Latency(
            have,
            await median(append),
            await median(read),
            await median(lease),
            await median(lambda _: store.list_runnable(10)),
            await median(lambda _: store.list(10)),
        )
