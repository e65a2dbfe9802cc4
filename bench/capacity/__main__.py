"""`make capacity`: measure the capacity of one Postgres server on this machine, and estimate that of others.

    python -m bench.capacity                      everything: about ten minutes
    python -m bench.capacity --open 10000         beside at most this many conversations, instead of a million
    python -m bench.capacity --dsn postgresql://  on your server; its tables fill up, so use a database for this alone

Without `--dsn` a server is started here, which waits for the disk as in production. The tables of `docs/capacity.md` are printed as soon
as their figures are known.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Sequence

import psycopg

from bench.capacity.postgres_measurements import (
    append_bare_rows,
    append_steps,
    build_native_desk,
    copy_conversation,
    measure_latencies,
    measure_rate,
    measure_sizes,
    run_conversations,
)
from bench.capacity.simulation import Database, Habits, calculate_load, simulate_load
from bench.workloads import make_tool_chat
from legato.stores import PostgresStore
from legato.testing.postgres import postgres_server

HABITS = {
    "support chat: a message a minute, three steps": Habits(think_s=60, steps=6, latency_s=2.0),
    "long-running work: a message an hour, ten steps": Habits(think_s=3600, steps=20, latency_s=8.0),
    "approvals: a message a day, four steps": Habits(think_s=86_400, steps=8, latency_s=3.0),
}
TURNS = 5
"""The turns of a measured conversation."""
APPENDS_PER_TURN = 4
"""The appends of one turn: the message, the reply with three calls, their results, the answer. Leases and reads are counted with them."""
SERVER_CORES = 8
"""The cores of the server in the estimates."""
PLANNED_UTILIZATION = 0.6
"""The planned utilization of a database. Above it queues grow quickly."""


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n| {' | '.join('---' for _ in columns)} |")
    for row in rows:
        print(f"| {' | '.join(format_value(value) for value in row)} |", flush=True)


def format_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def measure_rates(dsn: str, seconds: float) -> Database:
    """Measure the rates of 1, 2 and 4 processes; return the server for the estimates."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE bare (ledger bigint, place bigint, body bytea, PRIMARY KEY (ledger, place))")
    rows, found = [], {}
    works = {"bare inserts": append_bare_rows, "appends": append_steps, "conversations": run_conversations}
    for name, work in works.items():
        for processes in (1, 2, 4):
            rate = measure_rate(dsn, processes, seconds, work)
            found[name] = rate
            rows.append((name, processes, rate.per_second, rate.server_ms, rate.client_ms))
    print_table("Rates", ("work", "processes", "per second", "server CPU ms each", "client CPU ms each"), rows)
    return Database(SERVER_CORES, found["conversations"].server_ms / 1e3 / (TURNS * APPENDS_PER_TURN))


async def record_sample_conversation(dsn: str) -> None:
    """Run one conversation of usual length with the runtime. The idle conversations are copies of it."""
    async with PostgresStore(dsn) as store:
        play = make_tool_chat(TURNS)
        session = build_native_desk(play).session("model", store=store)
        for turn in range(TURNS):
            await session.run(play.make_user_message(turn))
        print(f"\na conversation: {len(session.facts)} facts, {play.said_bytes:,} bytes said")


def measure_growth(dsn: str, most: int) -> None:
    """Measure operations and stored bytes beside more and more idle conversations."""
    rows, have = [], 0
    for want in (1_000, 10_000, 100_000, 1_000_000):
        if want > most:
            break
        copy_conversation(dsn, have, want)
        have = want
        latency = asyncio.run(measure_latencies(dsn, have))
        size = measure_sizes(dsn)
        total = size["ledgers"] + size["facts"] + size["contents"]
        rows.append((*latency, total / size["ledger_rows"], total / size["fact_bytes"]))
    columns = ("open", "append ms", "read ms", "lease and release ms", "list_runnable ms", "list ms", "bytes each", "to the facts' own")
    print_table("Beside idle conversations", columns, rows)


def print_estimates(database: Database) -> None:
    """Print the estimated capacity for each kind of conversation, at the limit of a server, and with several servers."""
    rows = []
    for name, habits in HABITS.items():
        one = calculate_load(1, habits, database)
        most = int(PLANNED_UTILIZATION / one.utilization)
        sample = min(most, 400_000)
        load = calculate_load(most, habits, database)
        # Fewer conversations on a server that is slower in proportion have the same queues.
        slower = Database(database.parallel_appends, database.service_s * most / sample)
        simulated = simulate_load(sample, habits, slower, duration_s=120, warmup_s=30)
        rows.append(
            (
                name,
                most,
                load.appends_per_s,
                load.active_conversations,
                simulated.utilization,
                simulated.active_conversations * most / sample,
                1e3 * simulated.wait_p99_s * sample / most,
            )
        )
    planned = f"conversations at {PLANNED_UTILIZATION:.0%} busy"
    columns = ("habits", planned, "appends per second", "driven at once", "busy, simulated", "driven, simulated", "99 of 100 queue ms")
    print_table(
        f"A server of {SERVER_CORES} cores: at most {database.max_appends_per_s:,.0f} appends/s, {1e3 * database.service_s:.2f} ms each",
        columns,
        rows,
    )
    rows = []
    habits = HABITS["support chat: a message a minute, three steps"]
    for share in (0.3, 0.6, 0.8, 0.9, 1.0, 1.1):
        many = int(share / calculate_load(1, habits, database).utilization)
        simulated = simulate_load(many, habits, database, duration_s=30, warmup_s=30)
        rows.append(
            (f"{share:.0%}", many, simulated.appends_per_s, simulated.utilization, 1e3 * simulated.mean_wait_s, 1e3 * simulated.wait_p99_s)
        )
    print_table(
        "Beyond the limit (simulated)", ("planned", "conversations", "appends per second", "busy", "mean queue ms", "99 of 100 ms"), rows
    )
    rows = []
    for shards in (1, 2, 4):
        many = shards * int(PLANNED_UTILIZATION / calculate_load(1, habits, database).utilization)
        simulated = simulate_load(many, habits, database, duration_s=20, warmup_s=20, shards=shards)
        rows.append((shards, many, simulated.appends_per_s, simulated.utilization, 1e3 * simulated.wait_p99_s))
    print_table("Shards (simulated)", ("databases", "conversations", "appends per second", "busiest", "99 of 100 ms"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make capacity", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dsn", help="measure this server; use a database for this alone")
    parser.add_argument("--open", type=int, default=1_000_000, help="the maximum number of idle conversations (1000000)")
    parser.add_argument("--seconds", type=float, default=8.0, help="the duration of each measurement of a rate (8)")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        dsn = options.dsn or stack.enter_context(postgres_server(durable=True)).dsn
        asyncio.run(record_sample_conversation(dsn))
        database = measure_rates(dsn, options.seconds)
        measure_growth(dsn, options.open)
    print_estimates(database)


if __name__ == "__main__":
    main()
