"""The line of a Postgres store: whom it believes, when it listens, what it forgets, and what it does when others hold locks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from legato.stores import PostgresStore, postgres_line
from legato.stores.live import Waiters
from legato.stores.postgres_line import Line
from legato.stores.postgres_rows import key_of
from tests.stores.conftest import said, until, until_renewed


@pytest.fixture(autouse=True)
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told is told by notifications, or at the first look."""
    monkeypatch.setattr(postgres_line, "LOOK_AGAIN", 60.0)


class Rounds:
    """What lines have heard, and how often one of them had done all that there was to do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.heard: list[str] = []
        self._counts: Counter[Any] = Counter()  # by the socket that rings for a line
        hear_of, wait = Line._hear_of, postgres_line._hear

        def noted(line: Line, told: str, teller: int) -> None:
            hear_of(line, told, teller)
            self.heard.append(told)

        def counted(bell: Any, *arguments: Any) -> bool:
            self._counts[bell] += 1
            return wait(bell, *arguments)

        monkeypatch.setattr(Line, "_hear_of", noted)
        monkeypatch.setattr(postgres_line, "_hear", counted)

    async def one(self, line: Line) -> None:
        """Wait until the line has done what it had heard of by now, and what that brought with it."""
        for _ in range(3):  # the first may have begun before
            assert line._bell is not None
            bell = line._bell[1]
            before = self._counts[bell]
            line._ring()
            await until(lambda bell=bell, before=before: self._counts[bell] > before)

    async def after(self, word: str, line: Line) -> None:
        """Wait until the line has heard this word, and has done what there was to do."""
        await until(lambda: word in self.heard)
        await self.one(line)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(monkeypatch)


def notify(dsn: str, *words: str) -> None:
    with psycopg.connect(dsn) as connection:
        for word in words:
            connection.execute("SELECT pg_notify('legato', %s)", (word,))


# -- whom it believes ----------------------------------------------------------------------------------------------------


async def test_a_false_word_tells_nobody_anything_and_silences_nobody(database: str, rounds: Rounds) -> None:
    async with PostgresStore(database) as store, PostgresStore(database) as other:
        await other.append("s", 0, said(0))
        told: list[int] = []
        stop = store.watch("s", 1, told.append)
        waiting = asyncio.ensure_future(store.wait("s", 1, 20))
        await until(lambda: store._server.line.listening)
        key = key_of("", "s")
        notify(database, f"{key} 999999999", f"{key} {'9' * 5000}", f"{key} 0", f"{key} 1")
        await rounds.after(f"{key} 1", store._server.line)
        assert told == []
        assert not waiting.done()
        await other.append("s", 1, said(1))
        await until(lambda: told)
        assert await waiting
        stop()
        assert told == [2]


async def test_words_about_what_nobody_waits_for_cost_no_look_and_many_about_one_ledger_a_few(
    database: str, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_line, "FIRST_LOOK", 0.0)
    looks: list[int] = []
    whole = Line._look

    def look(line: Line, connection: Any, at: dict[str, tuple[str, str]]) -> None:
        looks.append(len(at))
        whole(line, connection, at)

    monkeypatch.setattr(Line, "_look", look)
    async with PostgresStore(database) as store:
        told: list[int] = []
        stop = store.watch("s", 0, told.append)
        line, key = store._server.line, key_of("", "s")
        await until(lambda: line.listening)
        await rounds.one(line)  # in which it looks for the first time
        looks.clear()
        notify(database, *(f"{key_of('', f't{number}')} 5" for number in range(500)))
        await rounds.after(f"{key_of('', 't499')} 5", line)
        assert looks == []
        await store.append("s", 0, said(0))
        await until(lambda: told == [1])
        await rounds.after(f"{key} 1", line)
        assert looks == [], "what is appended here is known here"
        notify(database, *(f"{key} {number}" for number in range(500)))
        await rounds.after(f"{key} 499", line)
        assert 0 < len(looks) < 50
        stop()


# -- when it listens -----------------------------------------------------------------------------------------------------


async def test_it_listens_only_while_somebody_here_waits_and_a_while_longer(
    database: str, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    whole = Line._look

    def look(line: Line, connection: Any, at: dict[str, tuple[str, str]]) -> None:
        looks.append(len(at))
        whole(line, connection, at)

    monkeypatch.setattr(Line, "_look", look)
    monkeypatch.setattr(postgres_line, "LINGER", 0.2)
    monkeypatch.setattr(postgres_line, "LOOK_AGAIN", 0.2)  # which is also when those who left are forgotten
    async with PostgresStore(database) as store, PostgresStore(database) as other:
        line = store._server.line
        await store.append("s", 0, said(0))
        lease = await store.lease("s")
        assert lease is not None
        await rounds.one(line)
        assert not line.listening, "who only writes need not be woken"
        for length in (1, 2):
            told: list[int] = []
            stop = store.watch("s", length, told.append)
            await until(lambda: line.listening)
            looks.clear()
            await until(lambda: len(looks) >= 4)  # at least three times 0.2 s lie between
            assert line.listening
            await other.append("s", length, said(length))
            await until(lambda told=told: told)
            stop()
            await until(lambda: not line.listening)


async def made_up_for(database: str, monkeypatch: pytest.MonkeyPatch, heed: Callable[[Line, Any], None]) -> bool:
    """Whether a wait ends although the word it waited for went out between its own look and the moment at which its line listens."""
    monkeypatch.setattr(postgres_line, "FIRST_LOOK", 0.0)
    rounds, may_listen = Rounds(monkeypatch), threading.Event()
    async with PostgresStore(database) as store, PostgresStore(database) as other:
        line = store._server.line

        def later(mine: Line, connection: Any) -> None:
            if mine is line and not mine._heeds:
                assert may_listen.wait(60)
            heed(mine, connection)

        monkeypatch.setattr(Line, "_heed", later)
        await store.append("t", 0, said(0))
        await until(lambda: line._connection is not None and not line._news)  # there is a line, and it does not listen
        with psycopg.connect(database, autocommit=True) as witness:
            witness.execute("LISTEN legato")
            waiting = asyncio.ensure_future(store.wait("s", 0, 600))
            await until(lambda: key_of("", "s") in store._server.waiters and not store._server._looks)  # it has looked, in vain
            await other.append("s", 0, said(0))
            key = key_of("", "s")
            heard = await asyncio.to_thread(lambda: [note.payload for note in witness.notifies(timeout=60, stop_after=1)])
            while heard and not heard[-1].startswith(key):  # that of the append before may come first
                heard = await asyncio.to_thread(lambda: [note.payload for note in witness.notifies(timeout=60, stop_after=1)])
            assert heard, "the word has gone out"
        may_listen.set()
        await until(lambda: line.listening)
        await rounds.one(line)
        for _ in range(10):  # the loop is told: it has to get round to it
            await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            return False
        return waiting.result()


async def test_a_word_that_comes_before_it_listens_is_made_up_for_at_once(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await made_up_for(database, monkeypatch, Line._heed)


async def test_that_test_finds_a_line_that_does_not_look_for_what_was_told_before(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(line: Line, connection: Any) -> None:
        if not line._heeds:
            line._heeds = line.listening = True
            connection.execute("LISTEN legato")

    assert not await made_up_for(database, monkeypatch, forgetful)


# -- what it forgets -----------------------------------------------------------------------------------------------------


async def test_a_watch_that_begins_while_the_line_looks_is_not_forgotten(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_line, "LOOK_AGAIN", 0.001)
    contains, ledgers = Waiters.__contains__, Waiters.ledgers

    def slowly(waiters: Waiters, ledger: str) -> bool:
        found = contains(waiters, ledger)
        time.sleep(0.001)  # the thread is put aside here, as any may be
        return found

    def all_slowly(waiters: Waiters) -> list[str]:
        found = ledgers(waiters)
        time.sleep(0.001)
        return found

    monkeypatch.setattr(Waiters, "__contains__", slowly)
    monkeypatch.setattr(Waiters, "ledgers", all_slowly)
    async with PostgresStore(database) as store:
        await store.list()
        stop = store.watch("s", 0, lambda length: None)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            stop_another = store.watch("t", 0, lambda length: None)
            await asyncio.sleep(0.005)  # until a look that had begun is over
            assert key_of("", "t") in store._server.line._watched
            stop_another()
            await asyncio.sleep(0.001)
        stop()


# -- what others lock ----------------------------------------------------------------------------------------------------


async def test_many_rows_that_somebody_locks_for_long_cost_no_other_lease(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_line, "BEATS", 240)  # four times a second
    async with PostgresStore(database, lease_seconds=60) as store:
        for number in range(12):
            assert await store.lease(f"s{number}") is not None
        with psycopg.connect(database) as slow:
            slow.execute("SELECT FROM legato.ledgers WHERE name <> 's11' FOR UPDATE")
            for _ in range(3):
                await until_renewed(database, "s11")


async def test_a_wait_ends_in_its_time_while_the_server_does_not_answer(database: str) -> None:
    async with PostgresStore(database, lock_timeout=300) as store:  # five minutes: whoever waited for the lock would hang
        await store.append("s", 0, said(0))
        with psycopg.connect(database) as connection:
            connection.execute("LOCK TABLE legato.ledgers IN ACCESS EXCLUSIVE MODE")
            began = time.monotonic()
            async with asyncio.timeout(120):
                assert not await store.wait("s", 1, 1.2)
                assert time.monotonic() - began > 1.1
                assert not await store.wait("s", 1, 0), "a wait of no time looks, for a second at most"
        assert await store.wait("s", 0, 0), "it works on"
