"""Failures of Postgres: which errors they raise, and that the store recovers when the cause is gone."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from legato.core.facts import MessageReceived
from legato.errors import (
    BadInput,
    DamagedStore,
    LegatoError,
    NewerFormat,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
)
from legato.stores import PostgresStore
from legato.stores.postgres import listener, migrations
from legato.testing.postgres import UNPRIVILEGED_UID, PostgresServer, postgres_server
from tests.stores.conftest import StoreProcess, make_facts, wait_until, wait_until_renewed

Start = Callable[..., StoreProcess]


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server of its own, which waits for the disk, and which the test may kill."""
    with postgres_server(durable=True) as server:
        yield server


# -- a server that is down -----------------------------------------------------------------------------------------------


async def test_acknowledged_appends_survive_server_kill(own_server: PostgresServer, start_process: Start) -> None:
    children = [start_process("append_to", own_server.dsn, f"s{number}") for number in range(3)]
    for round in range(2):
        lengths = [[int(each.read_line()) for _ in range(20)][-1] for each in children]
        own_server.kill()
        for number, each in enumerate(children):
            output, errors = each.wait_for_output()
            assert "StoreUnavailable" in errors
            lengths[number] = max([lengths[number], *map(int, output.split())])
        own_server.start()
        async with PostgresStore(own_server.dsn) as store:
            for number, acknowledged in enumerate(lengths):
                facts = await store.read(f"s{number}")
                assert acknowledged <= len(facts) <= acknowledged + 1, "no fact is missing, and at most one was not acknowledged"
                assert [int(fact.content.split()[0]) for fact in facts if isinstance(fact, MessageReceived)] == list(range(len(facts)))
                await store.delete(f"s{number}")
            assert await store.verify() == []
        children = [start_process("append_to", own_server.dsn, f"s{number}") for number in range(3)] if round == 0 else []


async def test_store_recovers_after_server_restart(own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        listener, "RENEWALS_PER_LEASE", 2400
    )  # a lease that survives a slow start of the server, renewed four times a second
    async with PostgresStore(own_server.dsn, lease_seconds=600) as store, PostgresStore(own_server.dsn) as other:
        await asyncio.gather(*(store.append(f"s{number}", 0, make_facts(0)) for number in range(8)))  # eight idle connections
        lease = await store.lease("s0")
        assert lease is not None
        waiting = asyncio.ensure_future(store.wait("s0", 1, 600))
        await wait_until(lambda: store._database.listener.is_listening)
        await asyncio.to_thread(own_server.kill)
        for operation in (store.append("s0", 1, make_facts(1)), store.read("s0"), store.lease("s1")):
            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await operation
        await asyncio.to_thread(own_server.start)
        assert await store.read("s0") == make_facts(0)
        await wait_until_renewed(own_server.dsn, "s0")  # the holder is alive
        assert await other.lease("s0") is None
        assert not waiting.done()
        assert await other.append("s0", 1, make_facts(1)) == 2
        assert await asyncio.wait_for(waiting, 60), "the listener listens again"
        await asyncio.gather(*(store.append(f"s{number}", 1, make_facts(1)) for number in range(1, 8)))
        await store.release(lease, idle_at=2)
        assert await other.lease("s0") is not None


async def test_terminated_connections_lose_no_append(database: str) -> None:
    async with PostgresStore(database, pool_size=4, lease_seconds=600) as store:
        await asyncio.gather(*(store.append(f"s{number}", 0, make_facts(0)) for number in range(4)))
        await store.lease("s0")
        waiting = asyncio.ensure_future(store.wait("s1", 5, 600))
        await wait_until(lambda: store._database.listener.is_listening)
        for position in range(1, 6):
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute(  # waits up to a minute for each
                    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            assert await store.append("s1", position, make_facts(position)) == position + 1
            async with PostgresStore(database) as other:
                assert await other.lease("s0") is None
        assert await waiting


async def test_missing_server_fails_fast_and_recovers(own_server: PostgresServer) -> None:
    own_server.kill()
    async with PostgresStore(own_server.dsn) as store:
        async with asyncio.timeout(60):
            with pytest.raises(StoreUnavailable):
                await store.append("s", 0, make_facts(0))
        await asyncio.to_thread(own_server.start)
        assert await store.append("s", 0, make_facts(0)) == 1


async def test_recreated_database_is_migrated_again(database: str) -> None:
    async with PostgresStore(database) as store:
        await store.append("s", 0, make_facts(0))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("DROP SCHEMA legato CASCADE")
        assert await store.read("s") == []
        assert await store.append("s", 0, make_facts(0)) == 1


# -- refusals ------------------------------------------------------------------------------------------------------------


async def test_long_lock_blocks_only_its_ledger(database: str) -> None:
    async with PostgresStore(database, lock_timeout=0.3) as store:
        await store.append("s", 0, make_facts(0))
        with psycopg.connect(database) as holder:
            holder.execute("SELECT FROM legato.ledgers WHERE name = 's' FOR UPDATE")
            appending = asyncio.ensure_future(store.append("s", 1, make_facts(1)))
            assert await store.read("s") == make_facts(0)
            assert await store.append("t", 0, make_facts(0)) == 1
            with pytest.raises(StoreLocked, match="lock"):
                await appending
        assert await store.append("s", 1, make_facts(1)) == 2


@pytest.fixture
def reader(database: str) -> Iterator[str]:
    """The DSN of a role that may read and not write."""
    role = f"reader_{os.getpid()}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(sql.Identifier(role)))
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA legato TO {}").format(sql.Identifier(role)))
        connection.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA legato TO {}").format(sql.Identifier(role)))
        yield psycopg.conninfo.make_conninfo(database, user=role, password="x")
        connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


async def test_read_only_role_can_read(database: str, reader: str) -> None:
    async with PostgresStore(database) as store:
        await store.append("s", 0, make_facts(0))
    for dsn in (reader, psycopg.conninfo.make_conninfo(database, options="-c default_transaction_read_only=on")):
        async with PostgresStore(dsn) as store:
            assert await store.read("s") == make_facts(0)
            assert [info.ledger for info in await store.list()] == ["s"]
            for operation in (store.append("s", 1, make_facts(1)), store.lease("s"), store.delete("s"), store.fork("s", 1, "t", [])):
                with pytest.raises(StoreReadOnly):
                    await operation


async def test_newer_schema_is_refused_unchanged(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO legato.migrations VALUES (999, 'of a newer Legato')")
    async with PostgresStore(database) as store:
        with pytest.raises(NewerFormat, match="schema 999"):
            await store.append("s", 0, make_facts(0))


async def test_missing_older_migration_is_run(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = max(migrations.list_migrations())
    files = {**migrations.list_migrations(), newest + 1: tmp_path / "first.sql", newest + 2: tmp_path / "second.sql"}
    files[newest + 1].write_text("CREATE TABLE legato.first ()")
    files[newest + 2].write_text("CREATE TABLE legato.second ()")

    async def use(*numbers: int) -> list[int]:
        monkeypatch.setattr(migrations, "list_migrations", lambda: {number: files[number] for number in numbers})
        async with PostgresStore(database) as store:
            await store.read("s")
        with psycopg.connect(database) as connection:
            return [number for (number,) in connection.execute("SELECT number FROM legato.migrations ORDER BY number")]

    before = [number for number in files if number <= newest]
    assert await use(newest + 2, *before) == [*before, newest + 2]
    assert await use(newest + 2, newest + 1, *before) == [*before, newest + 1, newest + 2]
    with psycopg.connect(database) as connection:
        connection.execute("SELECT FROM legato.first, legato.second")


def test_migrations_are_numbered_consecutively() -> None:
    numbers = sorted(int(path.name.partition("_")[0]) for path in migrations.SQL_FOLDER.glob("*.sql"))
    assert numbers == list(range(1, len(numbers) + 1))


async def test_database_of_a_development_version_is_refused(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE legato.migrations SET name = '0001_tables.sql'")
        connection.execute("INSERT INTO legato.migrations VALUES (2, '0002_functions.sql')")
    async with PostgresStore(database) as store:
        with pytest.raises(StoreError, match=r"made by a development version of Legato(?s:.*)to_string"):
            await store.append("s", 0, make_facts(0))


ROLES_AND_DATABASES = """
CREATE ROLE clerk LOGIN PASSWORD 'right';
CREATE ROLE porter;
CREATE ROLE guest LOGIN;
CREATE DATABASE talks;
CREATE DATABASE private;
REVOKE CONNECT ON DATABASE private FROM public;
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """The DSN of a server that demands a password from some roles, and refuses others."""
    with postgres_server() as server, psycopg.connect(server.dsn, autocommit=True) as connection:
        for statement in ROLES_AND_DATABASES.strip().splitlines():
            connection.execute(statement.encode())
        rules = ["local all clerk scram-sha-256", "local all legato,porter,nobody,guest trust"]
        (server.folder / "data" / "pg_hba.conf").write_text("\n".join(rules) + "\n")
        connection.execute("SELECT pg_reload_conf()")
        until = time.monotonic() + 60
        while time.monotonic() < until:  # the server reloads its configuration later
            with contextlib.suppress(psycopg.OperationalError), psycopg.connect(server.dsn, user="clerk", password="wrong"):
                continue
            break
        yield f"host={server.folder}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("user=legato dbname=nonesuch", "no such database at postgresql://legato@"),
        ("user=nobody dbname=talks", "has no such role"),
        ("user=porter dbname=talks", "has no such role, or does not let it log in"),
        ("user=clerk dbname=talks", "needs a password for postgresql://clerk@"),
        ("user=clerk password=hunter2 dbname=talks", "does not accept this role with this password"),
        ("user=clerk password=right dbname=nonesuch", "no such database"),
        ("user=guest dbname=private", "may not connect to this database"),
        ("user=stranger dbname=talks", "pg_hba.conf of the server"),
    ],
)
async def test_refused_connection_names_the_wrong_part(guarded: str, options: str, message: str) -> None:
    async with PostgresStore(f"{guarded} {options}") as store:
        with pytest.raises(StoreRefused, match=message) as refused:
            await store.read("s")
    assert "hunter2" not in f"{refused.value}{refused.value!r}{refused.value.__cause__}"
    async with PostgresStore(f"{guarded} user=legato dbname=talks") as store:
        assert await store.list() == []


async def test_unknown_host_is_named() -> None:
    async with PostgresStore("postgresql://clerk:hunter2@nowhere.invalid/talks") as store:
        with pytest.raises(StoreUnavailable, match=r"the host of postgresql://clerk@nowhere\.invalid/talks cannot be found") as raised:
            await store.read("s")
    assert not isinstance(raised.value, StoreRefused)


async def test_refusal_by_one_of_several_hosts_passes(guarded: str) -> None:
    hosts = guarded.replace("host=", "host=/nowhere,")
    async with PostgresStore(f"{hosts} user=legato dbname=nonesuch") as store:
        with pytest.raises(StoreUnavailable) as raised:
            await store.read("s")
    assert not isinstance(raised.value, StoreRefused)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """Mount a disk of two megabytes. Yield False where that is not permitted."""
    folder.mkdir()
    mount = shutil.which("mount")
    options = f"size=2m,uid={UNPRIVILEGED_UID},gid={UNPRIVILEGED_UID},mode=700"
    is_mounted = bool(mount) and os.geteuid() == 0
    is_mounted = is_mounted and subprocess.run([mount, "-t", "tmpfs", "-o", options, "none", folder]).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", folder], check=True)


FULL_DISK_TRIGGER = b"""
    CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.position > 100 THEN
            RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON legato.facts FOR EACH ROW EXECUTE FUNCTION public.full()"""


async def test_store_recovers_from_full_disk(own_server: PostgresServer) -> None:
    with small_disk(own_server.folder / "disk") as is_mounted:
        async with PostgresStore(own_server.dsn) as store:
            length = await store.append("s", 0, make_facts(0))
            with psycopg.connect(own_server.dsn, autocommit=True) as connection:
                if is_mounted:
                    place = sql.SQL("CREATE TABLESPACE small LOCATION {}").format(str(own_server.folder / "disk"))
                    connection.execute(place)
                    connection.execute("ALTER TABLE legato.facts SET TABLESPACE small")
                else:
                    connection.execute(FULL_DISK_TRIGGER)
                with contextlib.suppress(StoreFull):
                    while length < 2000:
                        dice = random.Random(length)
                        length = await store.append("s", length, [MessageReceived(at=1, content=dice.randbytes(2_500).hex())])
                assert length < 2000
                assert len(await store.read("s")) == length
                if is_mounted:
                    connection.execute("ALTER TABLE legato.facts SET TABLESPACE pg_default")
                else:
                    connection.execute("DROP TRIGGER full_disk ON legato.facts")
                assert await store.append("s", length, make_facts(1)) == length + 1
                assert await store.verify() == []
                if is_mounted:
                    connection.execute("DROP TABLESPACE small")


# -- damage --------------------------------------------------------------------------------------------------------------


async def test_no_changed_byte_reads_as_a_fact(database: str) -> None:
    dice = random.Random(7)
    facts = make_facts(*range(8), size=40)
    async with PostgresStore(database) as store:
        with psycopg.connect(database, autocommit=True) as connection:
            for number in range(150):
                name = f"s{number}"
                await store.append(name, 0, facts, contents={"d": b"a body"})
                position = dice.randrange(8)
                change, parameters = _choose_change(dice)
                changed = connection.execute(
                    change, {"id": _find_ledger_number(connection, name), "position": position, **parameters}
                ).rowcount
                content = _CONTENT in change
                if content:
                    with pytest.raises(DamagedStore):
                        await store.content(name, "d")
                    assert await store.read(name) == facts
                elif changed:
                    with pytest.raises(LegatoError) as raised:
                        await store.read(name)
                    if isinstance(raised.value, DamagedStore):
                        assert await store.salvage(name) == facts[: raised.value.readable]
                assert await store.verify(), (change, parameters)
                await store.delete(name)
                connection.execute("TRUNCATE legato.facts, legato.contents, legato.ledgers")


_CONTENT = b"legato.contents"


def _choose_change(dice: random.Random) -> tuple[bytes, dict[str, int]]:
    fact, content = b"WHERE ledger = %(id)s AND position = %(position)s", b"WHERE ledger = %(id)s"
    parameters = {"byte": dice.randrange(40), "value": 1 << dice.randrange(8), "other": 100 + dice.randrange(50)}
    flip = b"body = set_byte(body, %(byte)s %% length(body), get_byte(body, %(byte)s %% length(body)) # %(value)s)"
    changes = [
        b"UPDATE legato.facts SET " + flip + b" " + fact,
        b"UPDATE legato.facts SET crc = crc # %(value)s " + fact,
        b"UPDATE legato.facts SET format = (format + 1)::smallint " + fact,
        b"UPDATE legato.facts SET position = %(other)s " + fact,
        b"UPDATE legato.facts SET body = substr(body, 1, length(body) - 1) " + fact,
        b"UPDATE legato.facts SET body = '' " + fact,
        b"DELETE FROM legato.facts " + fact,
        b"UPDATE legato.ledgers SET length = length + 1 WHERE id = %(id)s",
        b"UPDATE legato.ledgers SET length = length - 1 WHERE id = %(id)s",
        b"UPDATE legato.contents SET " + flip + b" " + content,
        b"UPDATE legato.contents SET crc = crc # %(value)s " + content,
    ]
    return dice.choice(changes), parameters


def _find_ledger_number(connection: psycopg.Connection[tuple[int]], name: str) -> int:
    row = connection.execute("SELECT id FROM legato.ledgers WHERE name = %s", (name,)).fetchone()
    assert row is not None
    return row[0]


async def test_damage_names_its_session(database: str) -> None:
    async with PostgresStore(database) as store:
        await store.append("s", 0, make_facts(0, 1, 2))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE legato.facts SET crc = crc + 1 WHERE position = 1")
        with pytest.raises(DamagedStore) as raised:
            await store.read("s")
    assert (raised.value.readable, raised.value.found) == (1, "session 's'")


@pytest.mark.parametrize("seconds", ["20", None, True], ids=repr)
def test_answer_timeout_must_be_a_number(seconds: Any) -> None:
    with pytest.raises(BadInput, match="answer_timeout is a number of seconds"):
        PostgresStore("postgresql://127.0.0.1/x", answer_timeout=seconds)


async def test_append_to_changed_length_is_damage(database: str) -> None:
    async with PostgresStore(database) as store:
        await store.append("s", 0, make_facts(0, 1, 2))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("UPDATE legato.ledgers SET length = 2")
        with pytest.raises(DamagedStore):
            await store.append("s", 2, make_facts(9))
        assert await store.salvage("s") == make_facts(0, 1)
        with pytest.raises(StoreError):
            await store.read("s")


async def test_documented_grants_suffice_for_a_role(database: str) -> None:
    """A role with the rights of docs/postgres.md, which cannot create a schema, can use the whole store."""
    page = (Path(__file__).parents[3] / "docs" / "postgres.md").read_text()
    [grants] = [block for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) if "legato_app" in block]
    role = f"app_{os.getpid()}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(grants.replace("legato_app", role).encode())
        try:
            async with PostgresStore(psycopg.conninfo.make_conninfo(database, user=role)) as store:
                waiting = asyncio.ensure_future(store.wait("s", 0, 10))
                assert await store.append("s", 0, make_facts(0, 1), contents={"d": b"x"}) == 2
                assert await waiting
                assert await store.fork("s", 1, "t", make_facts(2)) == 2
                lease = await store.lease("t")
                assert lease is not None
                await store.release(lease, idle_at=2)
                assert [info.ledger for info in await store.list_runnable()] == ["s"]
                assert await store.delete("s")
                assert await store.verify() == []
        finally:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
