"""Many processes on one database: who wins, who wakes, who comes back from the dead."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable

import psycopg
import pytest

from legato.errors import LedgerConflict
from legato.stores import PostgresStore, postgres_line, postgres_schema
from tests import databases
from tests.stores.conftest import Child, leased, said, until, until_renewed

Start = Callable[..., Child]


def test_eight_processes_that_find_an_empty_database_make_its_schema_once(
    postgres_server: databases.Server, databases_named: str, child: Start
) -> None:
    empty = databases.create(postgres_server._replace(template="template1"), databases_named + "empty")
    children = [child("first_use", empty) for _ in range(8)]
    assert {each.hear() for each in children} == {"ready"}
    for each in children:
        each.tell()
    assert [each.end() for each in children] == [("1\n", "")] * 8
    with psycopg.connect(empty) as connection:
        applied = [number for (number,) in connection.execute("SELECT number FROM legato.migrations ORDER BY number")]
        made = connection.execute("SELECT count(*) FROM legato.ledgers").fetchone()
    assert (applied, made) == (list(postgres_schema.migrations()), (8,))


async def test_two_processes_that_race_200_times_each_lose_nothing(database: str, child: Start) -> None:
    children = [child("race", database, tag, 200) for tag in "ab"]
    assert {each.hear() for each in children} == {"ready"}
    for each in children:
        each.tell()
    assert [each.end() for each in children] == [("", "")] * 2
    async with PostgresStore(database) as store:
        words = [fact.content.split() for fact in await store.read("s")]  # type: ignore[union-attr]
    assert [int(number) for tag, number in words if tag == "a"] == list(range(200))
    assert [int(number) for tag, number in words if tag == "b"] == list(range(200))


async def test_a_wait_here_ends_when_a_process_elsewhere_appends(database: str, child: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_line, "LOOK_AGAIN", 60.0)
    async with PostgresStore(database) as store:
        other = child("append_when_told", database, "s")
        assert await asyncio.to_thread(other.hear) == "ready"
        line = store._server.line
        for position in range(10):
            waiting = asyncio.ensure_future(store.wait("s", position, 50))  # which is over before it would look again
            await until(lambda: line.listening and not line._unseen)
            other.tell()
            assert await waiting
            assert await asyncio.to_thread(other.hear) == "appended"


async def test_a_killed_holder_is_noticed_within_the_time_of_its_lease(database: str, child: Start) -> None:
    holder = child("hold", database, "s")
    epoch = int(holder.hear())
    async with PostgresStore(database, lease_seconds=1.5) as store:
        await until_renewed(database, "s")
        holder.kill()
        assert (await leased(store, "s")).epoch > epoch


async def test_a_holder_that_was_stopped_and_comes_back_is_too_late_and_takes_nothing_away(database: str, child: Start) -> None:
    holder = child("hold_until_lost", database, "s")
    epoch = int(holder.hear())
    async with PostgresStore(database, lease_seconds=60) as store:
        assert await store.append("s", 0, said(0)) == 1
        os.kill(holder.process.pid, signal.SIGSTOP)
        lease = await leased(store, "s")
        assert lease.epoch > epoch
        await store.append("s", 1, said(1))
        os.kill(holder.process.pid, signal.SIGCONT)
        assert await asyncio.to_thread(holder.hear) == "lost", "it wanted to renew what it believed to hold"
        async with PostgresStore(database) as third:
            assert await third.lease("s") is None, "the new holder's lease is as it was"
            with pytest.raises(LedgerConflict):
                await third.append("s", 1, said(9))
        await store.release(lease, rested=2)
        assert await store.unrested() == []


async def test_a_store_works_on_in_a_forked_child(database: str, child: Start) -> None:
    parent = child("fork", database)
    assert json.loads(parent.hear()) == [2, True, 2], "the child appends, is refused the lease and reads"
    assert json.loads(parent.hear()) == [3, True], "and its parent goes on with its own connections and its lease"
    orphan = int(parent.hear())
    try:
        parent.process.wait(20)
        async with PostgresStore(database, lease_seconds=1.5) as store:
            await leased(store, "s")  # a child that outlives its parent does not keep its lease
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_a_store_nobody_closed_does_not_hold_up_the_end_of_its_process(database: str, child: Start) -> None:
    process = child("forget", database)
    assert process.hear() == "end"
    assert process.end() == ("", "")  # `end` waits a minute for the process
    assert process.process.returncode == 0
