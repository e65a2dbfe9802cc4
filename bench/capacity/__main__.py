"""`make capacity`: what one Postgres server carries, measured here, and what follows from it for others.

    python -m bench.capacity                      everything: about ten minutes
    python -m bench.capacity --open 10000         beside at most so many conversations, instead of a million
    python -m bench.capacity --dsn postgresql://  on a server of yours; its tables fill up, so give it a database of its own

Without `--dsn` a server is started here, which waits for the disk as in production. Figures are printed as they come, as the tables of
`docs/capacity.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Sequence

import psycopg

from bench.capacity import measuring
from bench.capacity.simulation import Database, Habits, expected, simulate
from legato.stores import PostgresStore
from legato.testing.postgres import postgres_server

HABITS = {
    "support chat: a message a minute, three steps": Habits(think=60, steps=6, latency=2.0),
    "long-running work: a message an hour, ten steps": Habits(think=3600, steps=20, latency=8.0),
    "approvals: a message a day, four steps": Habits(think=86_400, steps=8, latency=3.0),
}
TURNS = 5
"""Of a conversation that is measured."""
APPENDS = 4
"""In one of these turns: the message, the reply with three calls, their results, the answer. Leases and reads are counted with them."""
CORES = 8
"""Of the server that is computed with."""
BUSY = 0.6
"""How busy a database is planned to be: above that, queues grow quickly."""


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n| {' | '.join('---' for _ in columns)} |")
    for row in rows:
        print(f"| {' | '.join(shown(value) for value in row)} |", flush=True)


def shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def rates(dsn: str, seconds: float) -> Database:
    """How quickly, by how many processes; and the server that the arithmetic is made with."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE bare (ledger bigint, place bigint, body bytea, PRIMARY KEY (ledger, place))")
    rows, found = [], {}
    works = {"bare inserts": measuring.bare_appends, "appends": measuring.appends, "conversations": measuring.conversations}
    for what, work in works.items():
        for processes in (1, 2, 4):
            measured = measuring.rate(dsn, processes, seconds, work)
            found[what] = measured
            rows.append((what, processes, measured.per_second, measured.server_ms, measured.client_ms))
    table("Rates", ("what", "processes", "per second", "server CPU ms each", "client CPU ms each"), rows)
    return Database(CORES, found["conversations"].server_ms / 1e3 / (TURNS * APPENDS))


async def model(dsn: str) -> None:
    """One conversation of usual length, by the runtime itself: copies of it are what waits."""
    async with PostgresStore(dsn) as store:
        play = measuring.chat_with_tools(TURNS)
        session = measuring.desk(measuring.Fake(play), measuring.tools_of(play)).session("model", store=store)
        for turn in range(TURNS):
            await session.run(play.user(turn))
        print(f"\na conversation: {len(session.facts)} facts, {play.said_bytes:,} bytes said")


def grown(dsn: str, most: int) -> None:
    """What operations take, and what is stored, beside more and more conversations that wait for their people."""
    rows, have = [], 0
    for want in (1_000, 10_000, 100_000, 1_000_000):
        if want > most:
            break
        measuring.fill(dsn, have, want)
        have = want
        latency = asyncio.run(measuring.latencies(dsn, have))
        size = measuring.sizes(dsn)
        total = size["ledgers"] + size["facts"] + size["contents"]
        rows.append((*latency, total / size["ledger_rows"], total / size["fact_bytes"]))
    columns = ("open", "append ms", "read ms", "lease and release ms", "unrested ms", "list ms", "bytes each", "to the facts' own")
    table("Beside conversations that wait", columns, rows)


def arithmetic(database: Database) -> None:
    rows = []
    for name, habits in HABITS.items():
        one = expected(1, habits, database)
        most = int(BUSY / one.busy)
        sample = min(most, 400_000)
        told = expected(most, habits, database)
        # A smaller crowd at a server that is as much slower has the same queues for each of them.
        slower = Database(database.at_once, database.service * most / sample)
        seen = simulate(sample, habits, slower, seconds=120, warm=30)
        rows.append((name, most, told.appends, told.active, seen.busy, seen.active * most / sample, 1e3 * seen.wait_99 * sample / most))
    planned = f"conversations at {BUSY:.0%} busy"
    columns = ("habits", planned, "appends per second", "driven at once", "busy, simulated", "driven, simulated", "99 of 100 queue ms")
    table(
        f"A server of {CORES} cores: {database.most:,.0f} appends per second at most, {1e3 * database.service:.2f} ms each", columns, rows
    )
    rows = []
    habits = HABITS["support chat: a message a minute, three steps"]
    for share in (0.3, 0.6, 0.8, 0.9, 1.0, 1.1):
        many = int(share / expected(1, habits, database).busy)
        seen = simulate(many, habits, database, seconds=30, warm=30)
        rows.append((f"{share:.0%}", many, seen.appends, seen.busy, 1e3 * seen.wait, 1e3 * seen.wait_99))
    table("Where it breaks (simulated)", ("planned", "conversations", "appends per second", "busy", "mean queue ms", "99 of 100 ms"), rows)
    rows = []
    for shards in (1, 2, 4):
        many = shards * int(BUSY / expected(1, habits, database).busy)
        seen = simulate(many, habits, database, seconds=20, warm=20, shards=shards)
        rows.append((shards, many, seen.appends, seen.busy, 1e3 * seen.wait_99))
    table("Shards (simulated)", ("databases", "conversations", "appends per second", "busiest", "99 of 100 ms"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make capacity", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dsn", help="measure this server, in a database of its own")
    parser.add_argument("--open", type=int, default=1_000_000, help="the most conversations to measure beside (1000000)")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each rate is measured (8)")
    given = parser.parse_args()
    with contextlib.ExitStack() as stack:
        dsn = given.dsn or stack.enter_context(postgres_server(durable=True)).dsn
        asyncio.run(model(dsn))
        database = rates(dsn, given.seconds)
        grown(dsn, given.open)
    arithmetic(database)


if __name__ == "__main__":
    main()
