"""The Postgres store beyond the contract: round trips, query plans, waits, leases, closing, names and passwords."""

from __future__ import annotations

import ast
import asyncio
import gc
import os
import re
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import psycopg
import pytest

from legato.core.facts import MessageReceived
from legato.errors import BadInput, LegatoError, StoreError
from legato.stores import Lease, MemoryStore, PostgresStore, SQLiteStore, open_store
from legato.stores.postgres import listener, migrations, statements
from legato.stores.postgres.connection_pool import SyncPostgresConnection
from legato.stores.postgres.listener import Listener
from tests.databases import convert_dsn_to_url
from tests.stores.conftest import acquire_lease, make_facts, wait_until, wait_until_renewed

SOURCES = Path(migrations.__file__).parent


def count_connections(dsn: str) -> int:
    """Count the clients of a database, without this one."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchone()
        assert row is not None
        return int(row[0])


def count_rows(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(f"SELECT count(*) FROM legato.{table}".encode()).fetchone()
        assert row is not None
        return int(row[0])


# -- statements ----------------------------------------------------------------------------------------------------------


async def test_each_operation_is_one_round_trip(database: str, tmp_path: Path) -> None:
    async with PostgresStore(database, pool_size=1) as store:

        async def use(name: str, position: int) -> None:
            """Call the operations of a step and a drive."""
            for operation in (
                store.append(name, position, make_facts(0, 1), contents={"d": b"x"}),
                store.read(name, position),
                store.content(name, "d"),
                store.list(),
                store.list_runnable(),
            ):
                await operation
            lease = await store.lease(name)
            assert lease is not None
            await store.release(lease, idle_at=2)

        await use("s", 0)
        await use("s", 2)
        connection = await store._database.pool().acquire()
        with (tmp_path / "trace").open("w") as trace:
            connection.pgconn.trace(trace.fileno())
            store._database.pool().release(connection)
            await use("s", 4)
            connection.pgconn.untrace()
        sent = (tmp_path / "trace").read_text()
        assert sent.count("ReadyForQuery") == 7, sent
        assert "Parse" not in sent, "the server has seen each statement before"


def test_statements_are_constant_and_name_the_tenant() -> None:
    for path in SOURCES.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "execute":
                argument = ast.unparse(call.args[0])
                assert re.fullmatch(r"sql\.[A-Z_]+|statement|path\.read_bytes\(\)", argument), f"{path.name} executes {argument}"
    constants = [value for name, value in vars(statements).items() if name.isupper() and isinstance(value, str)]
    functions = "".join(path.read_text() for path in migrations.list_migrations().values())
    bodies = functions.split("$$")[1::2]
    all_statements = [statement for text in [*constants, *bodies] for statement in re.sub("--.*", "", text).split(";")]
    on_tables = [each for each in all_statements if re.search(r"(FROM|UPDATE|INTO|JOIN) legato\.(ledgers|facts|contents)", each)]
    assert len(on_tables) > 20
    for statement in on_tables:
        where = statement.partition("WHERE")[2] or statement.partition("INSERT INTO")[2] or statement.partition(" ON ")[2]
        assert "tenant" in where, statement


async def test_lists_read_only_their_result(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO legato.ledgers (tenant, name, length, rested, touched)"
            " SELECT 'acme', 'n' || n, 5, CASE WHEN n % 1000 = 0 THEN 4 ELSE 5 END, n FROM generate_series(1, 20000) n"
        )
        connection.execute("ANALYZE legato.ledgers")
        for statement, index in ((statements.LIST_RECENT, "ledgers_recent"), (statements.LIST_RUNNABLE, "ledgers_unrested")):
            connection.execute("SET plan_cache_mode = force_generic_plan")
            query = statement.replace("%s::bigint", "$2::bigint").replace("%s::double", "6::double").replace("%s", "$1")
            connection.execute(f"PREPARE query (text, bigint) AS {query}".encode())
            plan = "\n".join(line for (line,) in connection.execute("EXPLAIN EXECUTE query ('acme', 10)"))
            connection.execute("DEALLOCATE query")
            assert index in plan, plan
            assert "Sort" not in plan
    async with PostgresStore(database, tenant="acme") as store:
        assert [info.ledger for info in await store.list_runnable(3)] == ["n1000", "n2000", "n3000"]
        assert [info.ledger for info in await store.list(2)] == ["n20000", "n19999"]


async def test_deleting_last_fork_frees_shared_facts(database: str) -> None:
    async with PostgresStore(database) as store:
        await store.append("s", 0, make_facts(*range(10)), contents={"d": b"body"})
        await store.fork("s", 5, "a", make_facts(10))
        await store.fork("a", 5, "b", make_facts(20))
        assert count_rows(database, "facts") == 12, "shared and not copied"
        for ledger, facts in (("s", 7), ("a", 6), ("b", 0)):
            await store.delete(ledger)
            assert count_rows(database, "facts") == facts
        assert (count_rows(database, "ledgers"), count_rows(database, "contents")) == (0, 0)


async def test_racing_forks_and_deletions_keep_shared_facts(database: str) -> None:
    async with PostgresStore(database) as store:
        for number in range(25):
            await store.append("s", 0, make_facts(*range(6)))
            await store.fork("s", 4, "a", make_facts(10))
            results = await asyncio.gather(
                store.fork("a", 3, "b", make_facts(20)),
                store.delete("s"),
                store.fork("a", 5, "c", make_facts(30)),
                store.delete("a"),
                return_exceptions=True,
            )
            for name, whole in (("b", [*make_facts(0, 1, 2, 20)]), ("c", [*make_facts(0, 1, 2, 3, 10, 30)])):
                found = list(await store.read(name))
                assert found in (whole, []), (number, name, results)
                await store.delete(name)
            await store.delete("s")
            await store.delete("a")
        assert count_rows(database, "facts") == 0


# -- waits ---------------------------------------------------------------------------------------------------------------


async def test_thousand_waiters_share_one_listener(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CHECK_INTERVAL_S", 60.0)
    async with PostgresStore(database, pool_size=4) as store, PostgresStore(database) as other:
        elsewhere = threading.Thread(target=lambda: asyncio.run(store.wait("s499", 0, 20)))
        elsewhere.start()
        waiting = [asyncio.ensure_future(store.wait(f"s{number % 500}", number // 500, 20)) for number in range(1000)]
        await wait_until(lambda: sum(map(len, store._database.watchers._watchers.values())) == 1001)
        await asyncio.gather(*(other.append(f"s{number}", 0, make_facts(0, 1)) for number in range(500)))
        assert await asyncio.gather(*waiting) == [True] * 1000
        await asyncio.to_thread(elsewhere.join, 5)
        assert not elsewhere.is_alive()
        assert len([thread for thread in threading.enumerate() if thread.name == "legato-postgres-listener"]) == 2, "one for each store"


async def test_notification_ends_a_wait(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CHECK_INTERVAL_S", 60.0)
    async with PostgresStore(database) as store, PostgresStore(database) as other:
        for position in range(10):
            waiting = asyncio.ensure_future(store.wait("s", position, 20))
            await wait_until(lambda: store._database.listener.is_listening and not store._database.listener._unchecked_ledgers)
            await other.append("s", position, make_facts(position))
            assert await waiting


async def test_lost_notification_is_replaced_by_check(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CHECK_INTERVAL_S", 0.2)
    monkeypatch.setattr(listener.Listener, "announce", lambda line, key, length: None)
    async with PostgresStore(database) as store, PostgresStore(database) as other:
        waiting = asyncio.ensure_future(store.wait("s", 0, 60))
        await wait_until(lambda: store._database.listener.is_listening)
        await other.append("s", 0, make_facts(0))
        assert await waiting


async def test_foreign_notifications_are_harmless(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with PostgresStore(database) as store:
        waiting = asyncio.ensure_future(store.wait("s", 0, 60))
        await wait_until(lambda: store._database.listener.is_listening)
        payloads: list[str] = []
        handle = Listener._handle_notification

        def handle_and_record(line: Listener, payload: str, sender_pid: int) -> None:
            handle(line, payload, sender_pid)
            payloads.append(payload)

        monkeypatch.setattr(Listener, "_handle_notification", handle_and_record)
        with psycopg.connect(database, autocommit=True) as connection:
            for payload in ("", "nonsense", "a b c", "x 99999999999999999999", "é 1"):
                connection.execute("SELECT pg_notify('legato', %s)", (payload,))
        await wait_until(lambda: len(payloads) == 5)
        assert not waiting.done()
        await store.append("s", 0, make_facts(0))
        assert await waiting


# -- leases --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def often_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renew leases of a minute four times a second: no load makes them expire."""
    monkeypatch.setattr(listener, "RENEWALS_PER_LEASE", 240)


@pytest.mark.usefixtures("often_renewed")
async def test_lease_is_renewed_during_busy_event_loop(database: str) -> None:
    async with PostgresStore(database, lease_seconds=60) as store:
        assert await store.lease("s") is not None
        elsewhere = threading.Thread(target=lambda: asyncio.run(wait_until_renewed(database, "s")))
        elsewhere.start()
        elsewhere.join(60)  # meanwhile this event loop is blocked
        assert not elsewhere.is_alive()


@pytest.mark.usefixtures("often_renewed")
async def test_thousand_leases_are_renewed_in_one_statement(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with PostgresStore(database, lease_seconds=60) as store:
        await asyncio.gather(*(store.lease(f"s{number}") for number in range(1000)))
        batch_sizes: list[int] = []
        execute = SyncPostgresConnection.execute

        def execute_and_record(connection: SyncPostgresConnection, query: Any, parameters: Any = None, **more: Any) -> Any:
            if query == statements.RENEW:
                batch_sizes.append(len(parameters[1]))
            return execute(connection, query, parameters, **more)

        monkeypatch.setattr(SyncPostgresConnection, "execute", execute_and_record)
        await wait_until_renewed(database, "s0")
        await wait_until_renewed(database, "s999")
        assert batch_sizes[-1] == 1000


@pytest.mark.usefixtures("often_renewed")
async def test_lease_survives_constant_writes_to_ledger(database: str) -> None:
    async with PostgresStore(database, lease_seconds=60) as store, PostgresStore(database) as other:
        lease = await store.lease("s")
        assert lease is not None
        length = 0
        with psycopg.connect(database) as slow:  # a transaction that holds the row for most of the time
            for _ in range(3):
                renewing = asyncio.ensure_future(wait_until_renewed(database, "s"))
                while not renewing.done():
                    slow.execute("SELECT FROM legato.ledgers WHERE name = 's' FOR UPDATE")
                    await asyncio.sleep(0.2)
                    slow.commit()
                    length = await store.append("s", length, make_facts(length))
                await renewing
        assert await other.lease("s") is None
        await store.release(lease)
        assert await other.lease("s") is not None


SET_CLOCK_BACK = "UPDATE legato.ledgers SET until = until + interval '1 hour'"  # as after setting back the server's clock by an hour


async def test_dead_holders_lease_ends_despite_clock_change(database: str) -> None:
    async with PostgresStore(database) as store:
        await store.append("s", 0, make_facts(0))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("SELECT legato.lease('', 's', 0.3)")  # of a process that has died
            connection.execute(SET_CLOCK_BACK)
        assert [info.ledger for info in await store.list_runnable()] == ["s"], "workers find it"
        assert await store.lease("s") is None, "the holder may be alive"
        assert (await acquire_lease(store, "s")).epoch == 2


async def test_live_holders_lease_outlives_clock_change(database: str) -> None:
    async with PostgresStore(database, lease_seconds=4) as store, PostgresStore(database) as other:
        lease = await store.lease("s")
        assert lease is not None
        with psycopg.connect(database, autocommit=True) as connection:
            for _ in range(3):
                connection.execute(SET_CLOCK_BACK)
                assert await other.lease("s") is None
        await store.release(lease)
        assert await other.lease("s") is not None


@pytest.mark.parametrize(
    ("until", "started", "is_over"),
    [(None, 0, True), (7, 0, False), (-1, -60, True), (-1, 0, False), (-1, -4, False), (-1, 3600, True)],
    ids=["released", "held", "ended", "server just started", "server started before", "clock set back since the server started"],
)
def test_lease_ends_by_clock_and_start_of_server(database: str, until: int | None, started: int, is_over: bool) -> None:
    """The parameters are seconds from now, for a lease of six seconds."""
    statement = "SELECT legato.is_over(now() + make_interval(secs => %s), 6, now() + make_interval(secs => %s), now())"
    with psycopg.connect(database) as connection:
        assert connection.execute(statement, (until, started)).fetchone() == (is_over,)


@pytest.mark.usefixtures("often_renewed")
async def test_long_locked_row_costs_no_other_lease(database: str) -> None:
    async with PostgresStore(database, lease_seconds=60) as store:
        assert await store.lease("s") is not None
        assert await store.lease("t") is not None
        with psycopg.connect(database) as slow:
            slow.execute("SELECT FROM legato.ledgers WHERE name = 's' FOR UPDATE")
            for _ in range(3):
                await wait_until_renewed(database, "t")


async def test_cancelled_lease_and_append_leave_nothing_partial(database: str) -> None:
    """A cancelled lease is released, and a cancelled append is whole or absent."""
    async with asyncio.timeout(120), PostgresStore(database, lease_seconds=600) as store:
        for delay in (0, 0.0002, 0.0005, 0.001, 0.002):
            for operation in (store.lease("s"), store.append("t", len(await store.read("t")), make_facts(1, 2))):
                task = asyncio.ensure_future(operation)
                await asyncio.sleep(delay)
                task.cancel()
                [result] = await asyncio.gather(task, return_exceptions=True)
                if isinstance(result, Lease):  # it was faster than the cancellation
                    await store.release(result)
            await store.release(await acquire_lease(store, "s"))  # a lease that was not released would be renewed for ever
            assert len(await store.read("t")) % 2 == 0
        assert count_connections(database) <= 9


# -- closing -------------------------------------------------------------------------------------------------------------


async def test_close_ends_connections_and_waits(database: str) -> None:
    store = PostgresStore(database)
    waiting = asyncio.ensure_future(store.wait("s", 0, 20))
    await asyncio.gather(*(store.append(f"s{number}", 0, make_facts(0)) for number in range(20)))
    assert count_connections(database) > 1
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await waiting
    await wait_until(lambda: count_connections(database) == 0)
    assert not [thread for thread in threading.enumerate() if thread.name == "legato-postgres-listener"]


async def test_dropped_store_ends_thread_and_connections(database: str) -> None:
    store = PostgresStore(database)
    lease = await store.lease("s")
    assert lease is not None
    assert count_connections(database) >= 1
    del store
    gc.collect()
    await wait_until(lambda: count_connections(database) == 0)
    async with PostgresStore(database) as other:
        assert await other.lease("s") is not None, "the lease was released"


def test_store_serves_event_loops_in_turn(database: str) -> None:
    """No connection of an ended event loop is kept."""
    store = PostgresStore(database, pool_size=2)
    for position in range(5):
        assert asyncio.run(store.append("s", position, make_facts(position))) == position + 1
    asyncio.run(wait_until(lambda: count_connections(database) <= 2))
    asyncio.run(store.close())
    asyncio.run(wait_until(lambda: count_connections(database) == 0))


# -- names and secrets ---------------------------------------------------------------------------------------------------


async def test_password_is_in_no_repr_or_error() -> None:
    for dsn in (
        "postgresql://user:hunter2@127.0.0.1:1/db?connect_timeout=1",
        "host=127.0.0.1 port=1 user=user password=hunter2 connect_timeout=1",
        "postgresql://user:hunter2@[broken/db",
        "hunter2",
        "postgresql://user:hunter2@127.0.0.1/db?no_such_option=1",
        "postgresql://user:hunter2/x@127.0.0.1:1/db",
        "postgresql://user:1/hunter2@127.0.0.1:1/db",
        "postgresql://user:x@hunter2@127.0.0.1:1/db",
        "postgresql://user:@hunter2@127.0.0.1:1/db",
    ):
        texts = []
        try:
            store = PostgresStore(dsn)
            texts += [repr(store), repr(store.tenant("acme")), repr(vars(store._database))]
            await store.read("s")
        except LegatoError as error:
            chain: BaseException | None = error
            while chain is not None:
                texts += [str(chain), repr(chain)]
                places = [frame for frame, _ in traceback.walk_tb(chain.__traceback__) if "/tests/" not in frame.f_code.co_filename]
                texts += [repr(frame.f_locals) for frame in places if frame.f_code.co_name != "__init__"]  # the caller has the DSN
                chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
        assert texts
        assert "hunter2" not in " ".join(texts)
    with pytest.raises(BadInput) as refused:
        open_store("mysql://user:hunter2@host/db")
    assert "hunter2" not in str(refused.value)


def test_unescaped_password_is_refused_with_advice() -> None:
    for password in ("s3c/ret", "s3c@ret", "1/2", "@", "/"):
        with pytest.raises(BadInput, match="%2F"):
            PostgresStore(f"postgresql://me:{password}{'@' if password == '@' else ''}@db.example.com/talks")
    for valid in ("s3c%2Fret", "s3c%40ret", "s3c:ret", ""):
        text = repr(PostgresStore(f"postgresql://me:{valid}@db.example.com/talks"))
        assert text == "PostgresStore('postgresql://me@db.example.com/talks')"
    for dsn in ("postgresql://me@a:1,b:2/talks", "host=a,b port=5432, user=me@azure", "postgresql:///talks?host=/run/user@1"):
        PostgresStore(dsn)


async def test_stores_are_opened_by_url_or_path(tmp_path: Path, database: str) -> None:
    assert isinstance(open_store("memory:"), MemoryStore)
    sqlite = open_store(f"sqlite:///{tmp_path}/a.db")
    assert isinstance(sqlite, SQLiteStore)
    assert sqlite.path == f"{tmp_path}/a.db"
    for path in ("a.db", "./a:b.db", "/tmp/x.db", "C.db", "sqlite:a.db", "sqlite:/tmp/x.db"):
        assert isinstance(open_store(path), SQLiteStore)
    for url in ("postgres://u@h/d", "postgresql://u@h/d", "POSTGRESQL://u@h/d"):
        assert isinstance(open_store(url), PostgresStore)
    for wrong in ("", "mysql://h/d", "sqlite://a.db", "redis://h", "postgres//u@h/d", "postgresql/h/d", None):
        with pytest.raises(BadInput):
            open_store(wrong)  # type: ignore[arg-type]


async def test_open_store_takes_lease_seconds_for_postgres(database: str) -> None:
    url = convert_dsn_to_url(database)
    for lease_seconds, expected in ((None, 6), (20.0, 20)):
        async with open_store(url, lease_seconds=lease_seconds) as store:  # type: ignore[attr-defined]
            assert await store.lease(f"s{expected}") is not None
            with psycopg.connect(database) as connection:
                query = "SELECT extract(epoch FROM until - clock_timestamp()) FROM legato.ledgers WHERE name = %s"
                [(seconds,)] = connection.execute(query, (f"s{expected}",)).fetchall()
        assert expected - 5 < seconds <= expected
    with pytest.raises(BadInput, match="only Postgres"):
        open_store("a.db", lease_seconds=20)


def test_missing_psycopg_names_the_extra() -> None:
    code = "import sys; sys.modules['psycopg'] = None; from legato.testing.postgres import main; main()"
    environment = {name: value for name, value in os.environ.items() if name not in ("LEGATO_TEST_POSTGRES", "DATABASE_URL")}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
    assert (result.returncode, result.stdout, "Traceback" in result.stderr) == (1, "", False)
    assert "pip install '.[postgres]'" in result.stderr


async def test_name_postgres_cannot_store_is_refused(database: str) -> None:
    async with PostgresStore(database) as store:
        for name in ("a\x00b", "\ud800", "".join(chr(256 + number % 5000) for number in range(9000))):
            with pytest.raises(BadInput):
                await store.append(name, 0, [MessageReceived(at=1, content="x")])
        assert await store.list() == []
        assert await store.append("s", 0, make_facts(0)) == 1
