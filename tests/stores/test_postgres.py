"""What is particular to Postgres: what goes over the line, what is looked at, who waits, how it ends."""

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
from legato.stores import Lease, MemoryStore, PostgresStore, SQLiteStore, open_store, postgres_line, postgres_schema
from legato.stores import postgres_statements as statements
from legato.stores.postgres_line import Line
from legato.stores.postgres_pool import SyncConnection
from tests.databases import as_url
from tests.stores.conftest import leased, said, until, until_renewed

SOURCES = Path(postgres_schema.__file__).parent


def connections(dsn: str) -> int:
    """How many clients there are besides the one that asks."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchone()
        assert row is not None
        return int(row[0])


def count(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(f"SELECT count(*) FROM legato.{table}".encode()).fetchone()
        assert row is not None
        return int(row[0])


# -- what goes over the line ---------------------------------------------------------------------------------------------


async def test_each_operation_is_one_round_trip(database: str, tmp_path: Path) -> None:
    async with PostgresStore(database, pool_size=1) as store:

        async def use(name: str, position: int) -> None:
            """Everything that a step and a drive ask for."""
            for operation in (
                store.append(name, position, said(0, 1), contents={"d": b"x"}),
                store.read(name, position),
                store.content(name, "d"),
                store.list(),
                store.unrested(),
            ):
                await operation
            lease = await store.lease(name)
            assert lease is not None
            await store.release(lease, rested=2)

        await use("s", 0)
        await use("s", 2)
        connection = await store._server.pool().take()
        with (tmp_path / "trace").open("w") as trace:
            connection.pgconn.trace(trace.fileno())
            store._server.pool().give_back(connection)
            await use("s", 4)
            connection.pgconn.untrace()
        sent = (tmp_path / "trace").read_text()
        assert sent.count("ReadyForQuery") == 7, sent
        assert "Parse" not in sent, "the server has seen each statement before"


def test_statements_are_constants_and_every_one_names_the_tenant() -> None:
    for path in SOURCES.glob("postgres*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "execute":
                what = ast.unparse(call.args[0])
                assert re.fullmatch(r"sql\.[A-Z]+|statement|path\.read_bytes\(\)", what), f"{path.name} executes {what}"
    constants = [value for name, value in vars(statements).items() if name.isupper() and isinstance(value, str)]
    functions = "".join(path.read_text() for path in postgres_schema.migrations().values())
    bodies = functions.split("$$")[1::2]
    asked = [statement for text in [*constants, *bodies] for statement in re.sub("--.*", "", text).split(";")]
    kept = [statement for statement in asked if re.search(r"(FROM|UPDATE|INTO|JOIN) legato\.(ledgers|facts|contents)", statement)]
    assert len(kept) > 20
    for statement in kept:
        where = statement.partition("WHERE")[2] or statement.partition("INSERT INTO")[2] or statement.partition(" ON ")[2]
        assert "tenant" in where, statement


async def test_lists_look_at_no_more_than_they_give(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO legato.ledgers (tenant, name, length, rested, touched)"
            " SELECT 'acme', 'n' || n, 5, CASE WHEN n % 1000 = 0 THEN 4 ELSE 5 END, n FROM generate_series(1, 20000) n"
        )
        connection.execute("ANALYZE legato.ledgers")
        for statement, index in ((statements.RECENT, "ledgers_recent"), (statements.UNRESTED, "ledgers_unrested")):
            connection.execute("SET plan_cache_mode = force_generic_plan")
            asked = statement.replace("%s::bigint", "$2::bigint").replace("%s::double", "6::double").replace("%s", "$1")
            connection.execute(f"PREPARE asked (text, bigint) AS {asked}".encode())
            plan = "\n".join(line for (line,) in connection.execute("EXPLAIN EXECUTE asked ('acme', 10)"))
            connection.execute("DEALLOCATE asked")
            assert index in plan, plan
            assert "Sort" not in plan
    async with PostgresStore(database, tenant="acme") as store:
        assert [info.ledger for info in await store.unrested(3)] == ["n1000", "n2000", "n3000"]
        assert [info.ledger for info in await store.list(2)] == ["n20000", "n19999"]


async def test_deleting_the_last_fork_frees_what_was_shared(database: str) -> None:
    async with PostgresStore(database) as store:
        await store.append("s", 0, said(*range(10)), contents={"d": b"body"})
        await store.fork("s", 5, "a", said(10))
        await store.fork("a", 5, "b", said(20))
        assert count(database, "facts") == 12, "shared and not copied"
        for ledger, facts in (("s", 7), ("a", 6), ("b", 0)):
            await store.delete(ledger)
            assert count(database, "facts") == facts
        assert (count(database, "ledgers"), count(database, "contents")) == (0, 0)


async def test_forks_and_deletions_that_race_never_lose_what_is_shared(database: str) -> None:
    async with PostgresStore(database) as store:
        for number in range(25):
            await store.append("s", 0, said(*range(6)))
            await store.fork("s", 4, "a", said(10))
            results = await asyncio.gather(
                store.fork("a", 3, "b", said(20)),
                store.delete("s"),
                store.fork("a", 5, "c", said(30)),
                store.delete("a"),
                return_exceptions=True,
            )
            for name, whole in (("b", [*said(0, 1, 2, 20)]), ("c", [*said(0, 1, 2, 3, 10, 30)])):
                found = list(await store.read(name))
                assert found in (whole, []), (number, name, results)
                await store.delete(name)
            await store.delete("s")
            await store.delete("a")
        assert count(database, "facts") == 0


# -- who waits -----------------------------------------------------------------------------------------------------------


async def test_a_thousand_waiters_in_two_event_loops_share_one_line(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_line, "LOOK_AGAIN", 60.0)
    async with PostgresStore(database, pool_size=4) as store, PostgresStore(database) as other:
        elsewhere = threading.Thread(target=lambda: asyncio.run(store.wait("s499", 0, 20)))
        elsewhere.start()
        waiting = [asyncio.ensure_future(store.wait(f"s{number % 500}", number // 500, 20)) for number in range(1000)]
        await until(lambda: sum(map(len, store._server.waiters._watching.values())) == 1001)
        await asyncio.gather(*(other.append(f"s{number}", 0, said(0, 1)) for number in range(500)))
        assert await asyncio.gather(*waiting) == [True] * 1000
        await asyncio.to_thread(elsewhere.join, 5)
        assert not elsewhere.is_alive()
        assert len([thread for thread in threading.enumerate() if thread.name == "legato-postgres-line"]) == 2, "one for each store"


async def test_a_wait_is_ended_by_a_notification_and_not_by_looking_again(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_line, "LOOK_AGAIN", 60.0)
    async with PostgresStore(database) as store, PostgresStore(database) as other:
        for position in range(10):
            waiting = asyncio.ensure_future(store.wait("s", position, 20))
            await until(lambda: store._server.line.listening and not store._server.line._unseen)
            await other.append("s", position, said(position))
            assert await waiting


async def test_a_word_that_is_lost_is_made_up_for_by_looking(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_line, "LOOK_AGAIN", 0.2)
    monkeypatch.setattr(postgres_line.Line, "tell", lambda line, key, length: None)
    async with PostgresStore(database) as store, PostgresStore(database) as other:
        waiting = asyncio.ensure_future(store.wait("s", 0, 60))
        await until(lambda: store._server.line.listening)
        await other.append("s", 0, said(0))
        assert await waiting


async def test_what_others_notify_on_the_same_channel_is_no_harm(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with PostgresStore(database) as store:
        waiting = asyncio.ensure_future(store.wait("s", 0, 60))
        await until(lambda: store._server.line.listening)
        heard: list[str] = []
        hear_of = Line._hear_of

        def noted(line: Line, told: str, teller: int) -> None:
            hear_of(line, told, teller)
            heard.append(told)

        monkeypatch.setattr(Line, "_hear_of", noted)
        with psycopg.connect(database, autocommit=True) as connection:
            for payload in ("", "nonsense", "a b c", "x 99999999999999999999", "é 1"):
                connection.execute("SELECT pg_notify('legato', %s)", (payload,))
        await until(lambda: len(heard) == 5)
        assert not waiting.done()
        await store.append("s", 0, said(0))
        assert await waiting


# -- leases --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def often_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of a minute are renewed four times a second: no load makes them end."""
    monkeypatch.setattr(postgres_line, "BEATS", 240)


@pytest.mark.usefixtures("often_renewed")
async def test_a_lease_is_renewed_while_its_event_loop_is_busy(database: str) -> None:
    async with PostgresStore(database, lease_seconds=60) as store:
        assert await store.lease("s") is not None
        elsewhere = threading.Thread(target=lambda: asyncio.run(until_renewed(database, "s")))
        elsewhere.start()
        elsewhere.join(60)  # meanwhile this loop does nothing
        assert not elsewhere.is_alive()


@pytest.mark.usefixtures("often_renewed")
async def test_a_thousand_leases_are_renewed_in_one_statement(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with PostgresStore(database, lease_seconds=60) as store:
        await asyncio.gather(*(store.lease(f"s{number}") for number in range(1000)))
        renewed: list[int] = []
        execute = SyncConnection.execute

        def noted(connection: SyncConnection, query: Any, parameters: Any = None, **more: Any) -> Any:
            if query == statements.RENEW:
                renewed.append(len(parameters[1]))
            return execute(connection, query, parameters, **more)

        monkeypatch.setattr(SyncConnection, "execute", noted)
        await until_renewed(database, "s0")
        await until_renewed(database, "s999")
        assert renewed[-1] == 1000


@pytest.mark.usefixtures("often_renewed")
async def test_a_lease_lives_on_while_its_ledger_is_written_to_without_a_pause(database: str) -> None:
    async with PostgresStore(database, lease_seconds=60) as store, PostgresStore(database) as other:
        lease = await store.lease("s")
        assert lease is not None
        length = 0
        with psycopg.connect(database) as slow:  # a transaction that holds the row for most of the time
            for _ in range(3):
                renewing = asyncio.ensure_future(until_renewed(database, "s"))
                while not renewing.done():
                    slow.execute("SELECT FROM legato.ledgers WHERE name = 's' FOR UPDATE")
                    await asyncio.sleep(0.2)
                    slow.commit()
                    length = await store.append("s", length, said(length))
                await renewing
        assert await other.lease("s") is None
        await store.release(lease)
        assert await other.lease("s") is not None


SET_BACK = "UPDATE legato.ledgers SET until = until + interval '1 hour'"  # what is on record when the server's clock was set back an hour


async def test_lease_of_a_dead_driver_ends_after_clock_set_back(database: str) -> None:
    async with PostgresStore(database) as store:
        await store.append("s", 0, said(0))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("SELECT legato.lease('', 's', 0.3)")  # by a process that has died since
            connection.execute(SET_BACK)
        assert [info.ledger for info in await store.unrested()] == ["s"], "workers look at it"
        assert await store.lease("s") is None, "its holder may live"
        assert (await leased(store, "s")).epoch == 2


async def test_lease_of_a_live_driver_outlives_clock_set_back(database: str) -> None:
    async with PostgresStore(database, lease_seconds=4) as store, PostgresStore(database) as other:
        lease = await store.lease("s")
        assert lease is not None
        with psycopg.connect(database, autocommit=True) as connection:
            for _ in range(3):
                connection.execute(SET_BACK)
                assert await other.lease("s") is None
        await store.release(lease)
        assert await other.lease("s") is not None


@pytest.mark.parametrize(
    ("until", "started", "over"),
    [(None, 0, True), (7, 0, False), (-1, -60, True), (-1, 0, False), (-1, -4, False), (-1, 3600, True)],
    ids=["released", "held", "ended", "server just started", "server started before", "clock set back since the server started"],
)
def test_lease_ends_by_clock_and_start_of_server(database: str, until: int | None, started: int, over: bool) -> None:
    """Seconds from now, of a lease of six seconds."""
    statement = "SELECT legato.is_over(now() + make_interval(secs => %s), 6, now() + make_interval(secs => %s), now())"
    with psycopg.connect(database) as connection:
        assert connection.execute(statement, (until, started)).fetchone() == (over,)


@pytest.mark.usefixtures("often_renewed")
async def test_a_row_that_somebody_locks_for_long_costs_no_other_lease(database: str) -> None:
    async with PostgresStore(database, lease_seconds=60) as store:
        assert await store.lease("s") is not None
        assert await store.lease("t") is not None
        with psycopg.connect(database) as slow:
            slow.execute("SELECT FROM legato.ledgers WHERE name = 's' FOR UPDATE")
            for _ in range(3):
                await until_renewed(database, "t")


async def test_a_cancelled_lease_is_given_back_and_a_cancelled_append_is_whole_or_not_there(database: str) -> None:
    async with asyncio.timeout(120), PostgresStore(database, lease_seconds=600) as store:
        for delay in (0, 0.0002, 0.0005, 0.001, 0.002):
            for what in (store.lease("s"), store.append("t", len(await store.read("t")), said(1, 2))):
                asking = asyncio.ensure_future(what)
                await asyncio.sleep(delay)
                asking.cancel()
                [came] = await asyncio.gather(asking, return_exceptions=True)
                if isinstance(came, Lease):  # it was quicker
                    await store.release(came)
            await store.release(await leased(store, "s"))  # one that nobody gave back would be renewed for ever
            assert len(await store.read("t")) % 2 == 0
        assert connections(database) <= 9


# -- how it ends ---------------------------------------------------------------------------------------------------------


async def test_closing_lets_go_of_every_connection_and_tells_those_who_wait(database: str) -> None:
    store = PostgresStore(database)
    waiting = asyncio.ensure_future(store.wait("s", 0, 20))
    await asyncio.gather(*(store.append(f"s{number}", 0, said(0)) for number in range(20)))
    assert connections(database) > 1
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await waiting
    await until(lambda: connections(database) == 0)
    assert not [thread for thread in threading.enumerate() if thread.name == "legato-postgres-line"]


async def test_a_store_that_is_dropped_ends_its_thread_and_its_connections(database: str) -> None:
    store = PostgresStore(database)
    lease = await store.lease("s")
    assert lease is not None
    assert connections(database) >= 1
    del store
    gc.collect()
    await until(lambda: connections(database) == 0)
    async with PostgresStore(database) as other:
        assert await other.lease("s") is not None, "it was given back"


def test_a_store_serves_one_event_loop_after_another_and_keeps_no_connection_of_the_dead_ones(database: str) -> None:
    store = PostgresStore(database, pool_size=2)
    for position in range(5):
        assert asyncio.run(store.append("s", position, said(position))) == position + 1
    asyncio.run(until(lambda: connections(database) <= 2))
    asyncio.run(store.close())
    asyncio.run(until(lambda: connections(database) == 0))


# -- names and secrets ---------------------------------------------------------------------------------------------------


async def test_a_password_is_in_no_repr_and_in_no_error() -> None:
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
        seen = []
        try:
            store = PostgresStore(dsn)
            seen += [repr(store), repr(store.tenant("acme")), repr(vars(store._server))]
            await store.read("s")
        except LegatoError as error:
            chain: BaseException | None = error
            while chain is not None:
                seen += [str(chain), repr(chain)]
                places = [frame for frame, _ in traceback.walk_tb(chain.__traceback__) if "/tests/" not in frame.f_code.co_filename]
                seen += [repr(frame.f_locals) for frame in places if frame.f_code.co_name != "__init__"]  # who calls gave the DSN
                chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
        assert seen
        assert "hunter2" not in " ".join(seen)
    with pytest.raises(BadInput) as refused:
        open_store("mysql://user:hunter2@host/db")
    assert "hunter2" not in str(refused.value)


def test_a_password_that_was_not_escaped_is_refused_with_what_to_do() -> None:
    for password in ("s3c/ret", "s3c@ret", "1/2", "@", "/"):
        with pytest.raises(BadInput, match="%2F"):
            PostgresStore(f"postgresql://me:{password}{'@' if password == '@' else ''}@db.example.com/talks")
    for fine in ("s3c%2Fret", "s3c%40ret", "s3c:ret", ""):
        shown = repr(PostgresStore(f"postgresql://me:{fine}@db.example.com/talks"))
        assert shown == "PostgresStore('postgresql://me@db.example.com/talks')"
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


async def test_a_store_that_is_opened_by_url_has_leases_of_so_many_seconds_where_leases_have_seconds(database: str) -> None:
    url = as_url(database)
    for given, left in ((None, 6), (20.0, 20)):
        async with open_store(url, lease_seconds=given) as store:  # type: ignore[attr-defined]
            assert await store.lease(f"s{left}") is not None
            with psycopg.connect(database) as connection:
                asked = "SELECT extract(epoch FROM until - clock_timestamp()) FROM legato.ledgers WHERE name = %s"
                [(seconds,)] = connection.execute(asked, (f"s{left}",)).fetchall()
        assert left - 5 < seconds <= left
    with pytest.raises(BadInput, match="only Postgres"):
        open_store("a.db", lease_seconds=20)


def test_whoever_starts_a_server_without_psycopg_is_told_which_extra_to_install() -> None:
    code = "import sys; sys.modules['psycopg'] = None; from legato.testing.postgres import main; main()"
    environment = {name: value for name, value in os.environ.items() if name not in ("LEGATO_TEST_POSTGRES", "DATABASE_URL")}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment)
    assert (ran.returncode, ran.stdout, "Traceback" in ran.stderr) == (1, "", False)
    assert "pip install '.[postgres]'" in ran.stderr


async def test_a_name_that_postgres_cannot_keep_is_refused_and_nothing_is_written(database: str) -> None:
    async with PostgresStore(database) as store:
        for name in ("a\x00b", "\ud800", "".join(chr(256 + number % 5000) for number in range(9000))):
            with pytest.raises(BadInput):
                await store.append(name, 0, [MessageReceived(at=1, content="x")])
        assert await store.list() == []
        assert await store.append("s", 0, said(0)) == 1
