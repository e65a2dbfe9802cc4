"""Several processes on one database, which race, die, fork and wait for one another."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable

import psycopg
import pytest

from legato.errors import LedgerConflict
from legato.stores import PostgresStore
from legato.stores.postgres import listener, migrations
from tests import databases
from tests.stores.conftest import StoreProcess, acquire_lease, make_facts, wait_until, wait_until_renewed

Start = Callable[..., StoreProcess]


def test_eight_processes_create_the_schema_once(
    postgres_server: databases.DatabaseServer, database_prefix: str, start_process: Start
) -> None:
    empty = databases.create_database(postgres_server._replace(template="template1"), database_prefix + "empty")
    children = [start_process("first_use", empty) for _ in range(8)]
    assert {each.read_line() for each in children} == {"ready"}
    for each in children:
        each.write_line()
    assert [each.wait_for_output() for each in children] == [("1\n", "")] * 8
    with psycopg.connect(empty) as connection:
        applied = [number for (number,) in connection.execute("SELECT number FROM legato.migrations ORDER BY number")]
        made = connection.execute("SELECT count(*) FROM legato.ledgers").fetchone()
    assert (applied, made) == (list(migrations.list_migrations()), (8,))


async def test_racing_processes_lose_no_append(database: str, start_process: Start) -> None:
    children = [start_process("race", database, tag, 200) for tag in "ab"]
    assert {each.read_line() for each in children} == {"ready"}
    for each in children:
        each.write_line()
    assert [each.wait_for_output() for each in children] == [("", "")] * 2
    async with PostgresStore(database) as store:
        words = [fact.content.split() for fact in await store.read("s")]  # type: ignore[union-attr]
    assert [int(number) for tag, number in words if tag == "a"] == list(range(200))
    assert [int(number) for tag, number in words if tag == "b"] == list(range(200))


async def test_append_of_another_process_ends_wait(database: str, start_process: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CHECK_INTERVAL_S", 60.0)
    async with PostgresStore(database) as store:
        other = start_process("append_when_told", database, "s")
        assert await asyncio.to_thread(other.read_line) == "ready"
        line = store._database.listener
        for position in range(10):
            waiting = asyncio.ensure_future(store.wait("s", position, 50))  # ends before the next check would come
            await wait_until(lambda: line.is_listening and not line._unchecked_ledgers)
            other.write_line()
            assert await waiting
            assert await asyncio.to_thread(other.read_line) == "appended"


async def test_lease_of_killed_holder_expires(database: str, start_process: Start) -> None:
    holder = start_process("hold", database, "s")
    epoch = int(holder.read_line())
    async with PostgresStore(database, lease_seconds=1.5) as store:
        await wait_until_renewed(database, "s")
        holder.kill()
        assert (await acquire_lease(store, "s")).epoch > epoch


async def test_resumed_holder_disturbs_no_new_lease(database: str, start_process: Start) -> None:
    """A holder that was stopped for longer than its lease loses it, and its renewals take nothing from the next holder."""
    holder = start_process("hold_until_lost", database, "s")
    epoch = int(holder.read_line())
    async with PostgresStore(database, lease_seconds=60) as store:
        assert await store.append("s", 0, make_facts(0)) == 1
        os.kill(holder.process.pid, signal.SIGSTOP)
        lease = await acquire_lease(store, "s")
        assert lease.epoch > epoch
        await store.append("s", 1, make_facts(1))
        os.kill(holder.process.pid, signal.SIGCONT)
        assert await asyncio.to_thread(holder.read_line) == "lost", "its renewal found that the lease is lost"
        async with PostgresStore(database) as third:
            assert await third.lease("s") is None, "the new holder's lease is unchanged"
            with pytest.raises(LedgerConflict):
                await third.append("s", 1, make_facts(9))
        await store.release(lease, idle_at=2)
        assert await store.list_runnable() == []


async def test_store_works_in_forked_child(database: str, start_process: Start) -> None:
    parent = start_process("fork", database)
    assert json.loads(parent.read_line()) == [2, True, 2], "the child appends, is refused the lease and reads"
    assert json.loads(parent.read_line()) == [3, True], "the parent continues with its own connections and its lease"
    orphan = int(parent.read_line())
    try:
        parent.process.wait(20)
        async with PostgresStore(database, lease_seconds=1.5) as store:
            await acquire_lease(store, "s")  # a child that outlives its parent does not keep its lease
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_unclosed_store_does_not_block_process_exit(database: str, start_process: Start) -> None:
    process = start_process("forget", database)
    assert process.read_line() == "end"
    assert process.wait_for_output() == ("", "")  # `wait_for_output` allows a minute
    assert process.process.returncode == 0
