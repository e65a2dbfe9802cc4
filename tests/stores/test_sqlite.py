"""What the SQLite store does beyond the contract: how much it writes, how little it costs, and what it leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from legato import Agent, HandoffBuilder, image
from legato.core.codec import encode
from legato.errors import StoreError
from legato.stores import MemoryStore, SQLiteStore, Store, sqlite_ledgers
from legato.stores.sqlite_thread import LOG_PAGES, PAGE, Job, _Service
from legato.testing import ScriptedModel
from tests.stores.conftest import said, until, wait_for_idle_writer


@pytest.mark.parametrize("size", [210, 1100])
@pytest.mark.parametrize("sessions", [1, 50])
async def test_the_file_is_hardly_larger_than_the_facts_in_it(tmp_path: Path, size: int, sessions: int) -> None:
    path = tmp_path / "store.db"
    written = 0
    async with SQLiteStore(path, "process") as store:
        for position in range(3000 // sessions):
            facts = said(position, size=size)
            await asyncio.gather(*[store.append(f"session {number}", position, facts) for number in range(sessions)])
            written += len(encode(facts[0])) * sessions
    assert path.stat().st_size < 1.5 * written
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]  # no log is left behind


async def test_facts_in_the_file_are_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, said(0, 1))
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert [body for (body,) in file.execute("SELECT body FROM facts ORDER BY key")] == [encode(fact) for fact in said(0, 1)]
        kinds = file.execute("SELECT json_extract(CAST(body AS TEXT), '$.fact') FROM facts").fetchall()
    assert kinds == [("said",), ("said",)]


async def test_a_picture_that_is_delivered_with_a_key_is_read_again(tmp_path: Path) -> None:
    desk = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(["A crack."]))]).build()
    async with SQLiteStore(tmp_path / "s.db") as store:
        await desk.session("s", store=store).run(["Look", image(b"\x89PNG\r\n\x1a\n", "image/png")], key="first")
    async with SQLiteStore(tmp_path / "s.db") as store:
        session = await desk.session("s", store=store).refresh()
        assert [message.role for message in session.messages] == ["user", "assistant"]
        assert not await store.verify()


async def test_an_append_writes_as_much_to_a_long_ledger_as_to_a_short_one(tmp_path: Path) -> None:
    log = tmp_path / "store.db-wal"
    async with SQLiteStore(tmp_path / "store.db", "process") as store:
        await store._writer.submit(lambda connection: connection.execute("PRAGMA wal_autocheckpoint=0"))
        written = []
        length = 0
        for target in (100, 10_000):
            length = await store.append("s", length, said(*range(target - length)))
            before = log.stat().st_size
            for _ in range(50):
                length = await store.append("s", length, said(length))
            written.append(log.stat().st_size - before)
    assert written[1] < 1.5 * written[0]
    assert written[1] < 50 * 4 * 4200  # some four pages each


async def test_reading_the_end_of_a_long_chain_of_forks_looks_at_no_more_than_it_returns(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db", "process") as store:
        await store.append("0", 0, said(0))
        for number in range(1, 200):
            await store.fork(str(number - 1), number, str(number), said(number))
        for number in range(200, 400):  # forks of forks at one point make no chain at all
            await store.fork(str(number - 1), 1, str(number), said(number))

        async def statements(ledger: str, start: int) -> int:
            seen: list[str] = []
            await store._reader.submit(lambda connection: connection.set_trace_callback(seen.append))
            await store.read(ledger, start)
            await store._reader.submit(lambda connection: connection.set_trace_callback(None))
            return len(seen)

        assert await statements("199", 198) < 10
        assert await statements("399", 0) < 10
        assert await statements("199", 0) < 3 * 200 + 10


async def test_a_file_holds_a_thousand_sessions(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:

        async def converse(session: str) -> None:
            assert await store.lease(session) is not None
            for position in range(5):
                await store.append(session, position, said(position), durable=position == 3)

        await asyncio.gather(*[converse(f"session {number}") for number in range(1000)])
        assert len(await store.list(limit=2000)) == 1000
    async with SQLiteStore(path) as store:
        assert all(await asyncio.gather(*[store.lease(f"session {number}") for number in range(1000)]))
        ledgers = await asyncio.gather(*[store.read(f"session {number}") for number in range(1000)])
        assert all(facts == said(*range(5)) for facts in ledgers)


async def test_a_thousand_waiters_cost_nothing_while_nothing_happens(tmp_path: Path) -> None:
    one, two = SQLiteStore(tmp_path / "store.db"), SQLiteStore(tmp_path / "store.db")
    threads = threading.active_count()
    waiting = [asyncio.ensure_future(one.wait(f"session {number}", 0, 60)) for number in range(1000)]
    await until(lambda: len(one._waiters.ledgers()) == 1000)
    statements: list[str] = []
    await one._reader.submit(lambda connection: connection.set_trace_callback(statements.append))
    await until(lambda: statements.count("PRAGMA data_version") >= 10)
    assert len(statements) < 2000, "ten looks at a thousand waiters would be ten thousand statements"
    assert threading.active_count() < threads + 12
    await two.append("session 500", 0, said(0))
    assert await waiting[500]
    assert sum(each.done() for each in waiting) == 1
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await one.close()
    await two.close()


@pytest.mark.parametrize(
    ("durability", "ordinary", "durable"), [("full", "FULL", "FULL"), ("effects", "NORMAL", "FULL"), ("process", "OFF", "OFF")]
)
async def test_what_waits_for_the_disk(tmp_path: Path, durability: Any, ordinary: str, durable: str) -> None:
    levels = ["OFF", "NORMAL", "FULL"]

    async with SQLiteStore(tmp_path / "store.db", durability) as store:

        async def level() -> str:
            return levels[await store._writer.submit(lambda connection: connection.execute("PRAGMA synchronous").fetchone()[0])]

        for position, asked in enumerate([False, True, False, True]):
            await store.append("s", position, said(position), durable=asked)
            assert await level() == (durable if asked else ordinary)


@pytest.mark.parametrize("asked", ["append", "read", "lease"])
async def test_whatever_is_asked_while_a_store_closes_is_done_or_refused_and_nobody_waits_for_ever(tmp_path: Path, asked: str) -> None:
    for before in range(20):  # the event loop has a turn after so many small operations: anything may happen in it
        store = SQLiteStore(tmp_path / f"{before}.db", "process")
        for position in range(before):
            await store.append("s", position, said(position))
        asking = {"append": store.append("s", before, said(before)), "read": store.read("s"), "lease": store.lease("s")}
        wanted = asking.pop(asked)
        for other in asking.values():
            other.close()
        async with asyncio.timeout(60):
            outcome, _ = await asyncio.gather(wanted, store.close(), return_exceptions=True)
        assert not isinstance(outcome, BaseException) or (isinstance(outcome, StoreError) and "closed" in str(outcome))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_closing_tells_those_who_wait(tmp_path: Path, kind: str) -> None:
    store: Store = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "store.db")
    await store.append("s", 0, said(0))
    waiting = asyncio.ensure_future(store.wait("s", 1, 30))
    await until(lambda: store._waiters.ledgers())
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await waiting


async def test_a_store_that_is_dropped_ends_its_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = SQLiteStore(tmp_path / "store.db")
    await store.append("s", 0, said(0))
    await store.read("s")
    started = set(threading.enumerate()) - before
    assert len(started) == 2
    del store
    gc.collect()
    for thread in started:
        thread.join(timeout=60)
        assert not thread.is_alive()


async def test_a_store_serves_one_event_loop_after_another(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    for position in range(3):
        assert await asyncio.to_thread(asyncio.run, store.append("s", position, said(position))) == position + 1
    await store.close()


async def test_deleting_the_last_fork_frees_what_was_shared(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, said(*range(10)), contents={"d": b"body"})
        await store.fork("s", 8, "a", said(20))
        await store.fork("a", 9, "b", said(30))
        await store.fork("s", 3, "c", said(40))
        for ledger in "sacb":
            await store.delete(ledger)
    database = sqlite3.connect(path)
    assert [database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("ledgers", "facts", "contents")] == [0, 0, 0]
    database.close()


async def test_deleting_a_ledger_frees_what_no_fork_shares(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, said(*range(10)))
        await store.fork("s", 8, "a", said(20))
        await store.fork("s", 3, "b", said(30))
        await store.delete("s")
        await store.delete("a")
        assert await store.read("b") == said(0, 1, 2, 30)
    database = sqlite3.connect(path)
    assert database.execute("SELECT count(*) FROM facts").fetchone() == (4,)
    database.close()


async def test_a_cancelled_append_is_recorded_whole_or_not_at_all(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db") as store:
        appending = asyncio.ensure_future(store.append("s", 0, said(0, 1)))
        await asyncio.sleep(0)
        appending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await appending
        length = len(await store.read("s"))
        while True:  # it may still be under way
            try:
                assert await store.append("s", length, said(2, 3)) == length + 2
                break
            except StoreError:
                length = len(await store.read("s"))
        assert len(await store.read("s")) in (2, 4)


async def test_what_happens_at_once_lets_the_rest_of_the_program_run(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.append("s", 0, said(0))
        await store.read("s")

        speaking = asyncio.ensure_future(store.append("s", 1, said(1)))
        for _ in range(10_000):
            if len(await store.read("s")) == 2:
                break
        else:
            raise AssertionError("whoever asks again and again keeps everybody else from running")
        await speaking


@pytest.mark.parametrize("operation", ["reading a few large facts", "deleting a long ledger"])
async def test_what_takes_long_is_not_done_while_the_event_loop_waits(tmp_path: Path, operation: str) -> None:
    async with SQLiteStore(tmp_path / "store.db", "process") as store:
        if operation == "deleting a long ledger":
            await store.append("s", 0, said(*range(60_000), size=300))
        else:
            for position in range(40):
                await store.append("s", position, said(position, size=2_000_000))
        await store.born("s")
        await store.append("other", 0, said(0))
        wait_for_idle_writer(store)
        here: list[str] = []
        at_once = _Service.at_once

        def watched(service: _Service, job: Job) -> Any:
            steps = 0

            def count() -> None:
                nonlocal steps
                steps += 1

            if service.connection is not None:
                service.connection.set_progress_handler(count, 1_000)
            try:
                result = at_once(service, job)
            finally:
                if service.connection is not None:
                    service.connection.set_progress_handler(None, 1_000)
                if steps > 50:
                    here.append(f"{steps},000 steps of SQLite's machine")
            if len(repr(result)) > 1_000_000:
                here.append("a large result")
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_Service, "at_once", watched)
            await (store.delete("s") if operation == "deleting a long ledger" else store.read("s"))
        assert here == []


async def test_many_who_write_little_each_do_not_let_the_log_grow_without_end(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path, "process") as server:  # it keeps the file open, so that no close of another brings the log in
        length = await server.append("s", 0, said(0))
        for _ in range(150):
            async with SQLiteStore(path, "process") as visitor:
                for _ in range(20):
                    length = await visitor.append("s", length, said(length, size=500))
        assert (tmp_path / "store.db-wal").stat().st_size < 3 * LOG_PAGES * PAGE
        assert len(await server.read("s")) == length


async def test_the_event_loop_never_begins_the_log_anew_which_waits_for_the_disk(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db") as store:
        length = await store.append("s", 0, said(0))
        service = store._writer._service
        log = tmp_path / "store.db-wal"

        def salt() -> bytes:
            return log.read_bytes()[16:24]  # another one whenever the log is begun anew

        begun_by_thread = 0
        for _ in range(3):
            wait_for_idle_writer(store)
            service.log_pages = LOG_PAGES + 1
            before = salt()
            length = await store.append("s", length, said(length))
            await store._writer.submit(lambda connection: None)  # behind what wakes the thread, which has seen to the log then
            wait_for_idle_writer(store)
            begun_by_thread += salt() != before
            before = salt()
            length = await store.append("s", length, said(length))
            assert salt() == before
        assert begun_by_thread == 3


class Interrupted:
    """A lock that a signal arrives with: its new holder does not come to know that it has it."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self, blocking: bool) -> bool:
        if self._lock.acquire(blocking):
            raise KeyboardInterrupt
        return False

    def release(self) -> None:
        self._lock.release()


async def test_a_signal_at_the_very_beginning_of_an_append_leaves_nothing_locked(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.append("s", 0, said(0))
        wait_for_idle_writer(store)
        service = store._writer._service
        lock, service.lock = service.lock, Interrupted(service.lock)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            await store.append("s", 1, said(1))
        service.lock = lock
        async with asyncio.timeout(60):
            assert await store.append("s", 1, said(1), durable=True) == 2


@pytest.mark.parametrize("setting", ["synchronous", "busy_timeout"])
async def test_a_signal_in_the_middle_of_a_change_of_settings_leaves_none_that_is_believed_and_untrue(tmp_path: Path, setting: str) -> None:
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.append("s", 0, said(0), durable=True)
        wait_for_idle_writer(store)
        service = store._writer._service
        connection = service.connection
        assert connection is not None

        class Interrupting:
            """The connection, until a setting has been changed."""

            def execute(self, statement: str, *more: Any) -> Any:
                result = connection.execute(statement, *more)
                if statement.startswith(f"PRAGMA {setting}="):
                    service.connection = connection
                    raise KeyboardInterrupt
                return result

            def __getattr__(self, name: str) -> Any:
                return getattr(connection, name)

        service.connection = Interrupting()  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            await store.append("s", 1, said(1))
        assert await store.append("s", 1, said(1), durable=True) == 2
        values = await store._writer.submit(
            lambda connection: [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "busy_timeout")]
        )
        assert values == [2, 10_000], "it waited for the disk, and would have waited for others"


async def test_a_signal_in_the_middle_of_an_append_leaves_nothing_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store, SQLiteStore(path, busy_timeout=0.1) as other:
        await store.append("s", 0, said(0))
        await other.append("t", 0, said(0))
        wait_for_idle_writer(store)

        def interrupted() -> int:
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(sqlite_ledgers, "_touch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await store.append("s", 1, said(1))
        assert await other.append("t", 1, said(1)) == 2
        assert await store.append("s", 1, said(1)) == 2
        assert len(await other.read("s")) == 2
