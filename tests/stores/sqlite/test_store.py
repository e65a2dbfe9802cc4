"""The SQLite store beyond the contract: the size of its file, the cost of operations, threads, signals and the log."""

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
from legato.core.codec import encode_fact
from legato.errors import StoreError
from legato.stores import MemoryStore, SQLiteStore, Store
from legato.stores.sqlite import ledgers
from legato.stores.sqlite.connection_thread import MAX_LOG_PAGES, PAGE_BYTES, ConnectionJob, _ConnectionService
from legato.testing import ScriptedModel
from tests.stores.conftest import make_facts, wait_for_idle_writer, wait_until


@pytest.mark.parametrize("size", [210, 1100])
@pytest.mark.parametrize("sessions", [1, 50])
async def test_file_is_little_larger_than_its_facts(tmp_path: Path, size: int, sessions: int) -> None:
    path = tmp_path / "store.db"
    written = 0
    async with SQLiteStore(path, "process") as store:
        for position in range(3000 // sessions):
            facts = make_facts(position, size=size)
            await asyncio.gather(*[store.append(f"session {number}", position, facts) for number in range(sessions)])
            written += len(encode_fact(facts[0])) * sessions
    assert path.stat().st_size < 1.5 * written
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]  # no log is left behind


async def test_facts_in_the_file_are_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, make_facts(0, 1))
    with contextlib.closing(sqlite3.connect(path)) as file:
        assert [body for (body,) in file.execute("SELECT body FROM facts ORDER BY key")] == [encode_fact(fact) for fact in make_facts(0, 1)]
        kinds = file.execute("SELECT json_extract(CAST(body AS TEXT), '$.fact') FROM facts").fetchall()
    assert kinds == [("message_received",), ("message_received",)]


async def test_image_with_input_key_is_read_back(tmp_path: Path) -> None:
    desk = HandoffBuilder("desk", [Agent("clerk", model=ScriptedModel(["A crack."]))]).build()
    async with SQLiteStore(tmp_path / "s.db") as store:
        await desk.session("s", store=store).run(["Look", image(b"\x89PNG\r\n\x1a\n", "image/png")], key="first")
    async with SQLiteStore(tmp_path / "s.db") as store:
        session = await desk.session("s", store=store).refresh()
        assert [message.role for message in session.messages] == ["user", "assistant"]
        assert not await store.verify()


async def test_append_cost_ignores_ledger_length(tmp_path: Path) -> None:
    log = tmp_path / "store.db-wal"
    async with SQLiteStore(tmp_path / "store.db", "process") as store:
        await store._writer.submit(lambda connection: connection.execute("PRAGMA wal_autocheckpoint=0"))
        written = []
        length = 0
        for target in (100, 10_000):
            length = await store.append("s", length, make_facts(*range(target - length)))
            before = log.stat().st_size
            for _ in range(50):
                length = await store.append("s", length, make_facts(length))
            written.append(log.stat().st_size - before)
    assert written[1] < 1.5 * written[0]
    assert written[1] < 50 * 4 * 4200  # some four pages each


async def test_read_of_fork_chain_loads_only_its_result(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db", "process") as store:
        await store.append("0", 0, make_facts(0))
        for number in range(1, 200):
            await store.fork(str(number - 1), number, str(number), make_facts(number))
        for number in range(200, 400):  # forks of forks at one position form no chain
            await store.fork(str(number - 1), 1, str(number), make_facts(number))

        async def count_statements(ledger: str, start: int) -> int:
            seen: list[str] = []
            await store._reader.submit(lambda connection: connection.set_trace_callback(seen.append))
            await store.read(ledger, start)
            await store._reader.submit(lambda connection: connection.set_trace_callback(None))
            return len(seen)

        assert await count_statements("199", 198) < 10
        assert await count_statements("399", 0) < 10
        assert await count_statements("199", 0) < 3 * 200 + 10


async def test_one_file_holds_a_thousand_sessions(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:

        async def converse(session: str) -> None:
            assert await store.lease(session) is not None
            for position in range(5):
                await store.append(session, position, make_facts(position), durable=position == 3)

        await asyncio.gather(*[converse(f"session {number}") for number in range(1000)])
        assert len(await store.list(limit=2000)) == 1000
    async with SQLiteStore(path) as store:
        assert all(await asyncio.gather(*[store.lease(f"session {number}") for number in range(1000)]))
        ledgers = await asyncio.gather(*[store.read(f"session {number}") for number in range(1000)])
        assert all(facts == make_facts(*range(5)) for facts in ledgers)


async def test_idle_waiters_cost_nothing(tmp_path: Path) -> None:
    one, two = SQLiteStore(tmp_path / "store.db"), SQLiteStore(tmp_path / "store.db")
    threads = threading.active_count()
    waiting = [asyncio.ensure_future(one.wait(f"session {number}", 0, 60)) for number in range(1000)]
    await wait_until(lambda: len(one._watchers.ledgers()) == 1000)
    statements: list[str] = []
    await one._reader.submit(lambda connection: connection.set_trace_callback(statements.append))
    await wait_until(lambda: statements.count("PRAGMA data_version") >= 10)
    assert len(statements) < 2000, "ten checks of a thousand waiters would be ten thousand statements"
    assert threading.active_count() < threads + 12
    await two.append("session 500", 0, make_facts(0))
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
async def test_durability_levels_set_disk_waits(tmp_path: Path, durability: Any, ordinary: str, durable: str) -> None:
    levels = ["OFF", "NORMAL", "FULL"]

    async with SQLiteStore(tmp_path / "store.db", durability) as store:

        async def level() -> str:
            return levels[await store._writer.submit(lambda connection: connection.execute("PRAGMA synchronous").fetchone()[0])]

        for position, is_durable in enumerate([False, True, False, True]):
            await store.append("s", position, make_facts(position), durable=is_durable)
            assert await level() == (durable if is_durable else ordinary)


@pytest.mark.parametrize("operation", ["append", "read", "lease"])
async def test_operations_during_close_never_hang(tmp_path: Path, operation: str) -> None:
    """Every operation that is called while the store closes completes or raises."""
    for before in range(20):  # other tasks run after some number of small operations, so each number is tried
        store = SQLiteStore(tmp_path / f"{before}.db", "process")
        for position in range(before):
            await store.append("s", position, make_facts(position))
        calls = {"append": store.append("s", before, make_facts(before)), "read": store.read("s"), "lease": store.lease("s")}
        call = calls.pop(operation)
        for other in calls.values():
            other.close()
        async with asyncio.timeout(60):
            outcome, _ = await asyncio.gather(call, store.close(), return_exceptions=True)
        assert not isinstance(outcome, BaseException) or (isinstance(outcome, StoreError) and "closed" in str(outcome))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_close_ends_all_waits(tmp_path: Path, kind: str) -> None:
    store: Store = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "store.db")
    await store.append("s", 0, make_facts(0))
    waiting = asyncio.ensure_future(store.wait("s", 1, 30))
    await wait_until(lambda: store._watchers.ledgers())
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await waiting


async def test_dropped_store_ends_its_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = SQLiteStore(tmp_path / "store.db")
    await store.append("s", 0, make_facts(0))
    await store.read("s")
    started = set(threading.enumerate()) - before
    assert len(started) == 2
    del store
    gc.collect()
    for thread in started:
        thread.join(timeout=60)
        assert not thread.is_alive()


async def test_store_serves_event_loops_in_turn(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    for position in range(3):
        assert await asyncio.to_thread(asyncio.run, store.append("s", position, make_facts(position))) == position + 1
    await store.close()


async def test_deleting_last_fork_frees_shared_facts(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, make_facts(*range(10)), contents={"d": b"body"})
        await store.fork("s", 8, "a", make_facts(20))
        await store.fork("a", 9, "b", make_facts(30))
        await store.fork("s", 3, "c", make_facts(40))
        for ledger in "sacb":
            await store.delete(ledger)
    database = sqlite3.connect(path)
    assert [database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("ledgers", "facts", "contents")] == [0, 0, 0]
    database.close()


async def test_deleting_ledger_frees_unshared_facts(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store:
        await store.append("s", 0, make_facts(*range(10)))
        await store.fork("s", 8, "a", make_facts(20))
        await store.fork("s", 3, "b", make_facts(30))
        await store.delete("s")
        await store.delete("a")
        assert await store.read("b") == make_facts(0, 1, 2, 30)
    database = sqlite3.connect(path)
    assert database.execute("SELECT count(*) FROM facts").fetchone() == (4,)
    database.close()


async def test_cancelled_append_is_whole_or_absent(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db") as store:
        appending = asyncio.ensure_future(store.append("s", 0, make_facts(0, 1)))
        await asyncio.sleep(0)
        appending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await appending
        length = len(await store.read("s"))
        while True:  # the append may still be running
            try:
                assert await store.append("s", length, make_facts(2, 3)) == length + 2
                break
            except StoreError:
                length = len(await store.read("s"))
        assert len(await store.read("s")) in (2, 4)


async def test_inline_operations_let_other_tasks_run(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.append("s", 0, make_facts(0))
        await store.read("s")

        appending = asyncio.ensure_future(store.append("s", 1, make_facts(1)))
        for _ in range(10_000):
            if len(await store.read("s")) == 2:
                break
        else:
            raise AssertionError("reads in a loop keep other tasks from running")
        await appending


@pytest.mark.parametrize("operation", ["reading a few large facts", "deleting a long ledger"])
async def test_slow_operations_run_on_the_thread(tmp_path: Path, operation: str) -> None:
    async with SQLiteStore(tmp_path / "store.db", "process") as store:
        if operation == "deleting a long ledger":
            await store.append("s", 0, make_facts(*range(60_000), size=300))
        else:
            for position in range(40):
                await store.append("s", position, make_facts(position, size=2_000_000))
        await store.ledger_id("s")
        await store.append("other", 0, make_facts(0))
        wait_for_idle_writer(store)
        slow_work: list[str] = []
        run_inline = _ConnectionService.run_inline

        def run_measured(service: _ConnectionService, job: ConnectionJob) -> Any:
            steps = 0

            def count() -> None:
                nonlocal steps
                steps += 1

            if service.connection is not None:
                service.connection.set_progress_handler(count, 1_000)
            try:
                result = run_inline(service, job)
            finally:
                if service.connection is not None:
                    service.connection.set_progress_handler(None, 1_000)
                if steps > 50:
                    slow_work.append(f"{steps},000 steps of SQLite's virtual machine")
            if len(repr(result)) > 1_000_000:
                slow_work.append("a large result")
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_ConnectionService, "run_inline", run_measured)
            await (store.delete("s") if operation == "deleting a long ledger" else store.read("s"))
        assert slow_work == []


async def test_many_small_writers_keep_the_log_short(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path, "process") as server:  # keeps the file open, so that closing the other stores merges no log
        length = await server.append("s", 0, make_facts(0))
        for _ in range(150):
            async with SQLiteStore(path, "process") as visitor:
                for _ in range(20):
                    length = await visitor.append("s", length, make_facts(length, size=500))
        assert (tmp_path / "store.db-wal").stat().st_size < 3 * MAX_LOG_PAGES * PAGE_BYTES
        assert len(await server.read("s")) == length


async def test_event_loop_never_restarts_the_log(tmp_path: Path) -> None:
    """Restarting the log waits for the disk, so only the thread does it."""
    async with SQLiteStore(tmp_path / "store.db") as store:
        length = await store.append("s", 0, make_facts(0))
        service = store._writer._service
        log = tmp_path / "store.db-wal"

        def read_salt() -> bytes:
            return log.read_bytes()[16:24]  # changes whenever the log is restarted

        restarts_by_thread = 0
        for _ in range(3):
            wait_for_idle_writer(store)
            service.log_pages = MAX_LOG_PAGES + 1
            before = read_salt()
            length = await store.append("s", length, make_facts(length))
            await store._writer.submit(lambda connection: None)  # after the job that makes the thread restart the log
            wait_for_idle_writer(store)
            restarts_by_thread += read_salt() != before
            before = read_salt()
            length = await store.append("s", length, make_facts(length))
            assert read_salt() == before
        assert restarts_by_thread == 3


class InterruptedLock:
    """A lock whose acquisition a signal interrupts, so that its new holder does not know that it has the lock."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self, blocking: bool) -> bool:
        if self._lock.acquire(blocking):
            raise KeyboardInterrupt
        return False

    def release(self) -> None:
        self._lock.release()


async def test_signal_before_append_leaves_nothing_locked(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.append("s", 0, make_facts(0))
        wait_for_idle_writer(store)
        service = store._writer._service
        lock, service.lock = service.lock, InterruptedLock(service.lock)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            await store.append("s", 1, make_facts(1))
        service.lock = lock
        async with asyncio.timeout(60):
            assert await store.append("s", 1, make_facts(1), durable=True) == 2


@pytest.mark.parametrize("setting", ["synchronous", "busy_timeout"])
async def test_signal_during_settings_change_resets_them(tmp_path: Path, setting: str) -> None:
    """After a signal in the middle of a PRAGMA, the store does not rely on a setting that may not be in force."""
    async with SQLiteStore(tmp_path / "store.db") as store:
        await store.append("s", 0, make_facts(0), durable=True)
        wait_for_idle_writer(store)
        service = store._writer._service
        connection = service.connection
        assert connection is not None

        class InterruptingConnection:
            """A connection that raises after a setting was changed."""

            def execute(self, statement: str, *more: Any) -> Any:
                result = connection.execute(statement, *more)
                if statement.startswith(f"PRAGMA {setting}="):
                    service.connection = connection
                    raise KeyboardInterrupt
                return result

            def __getattr__(self, name: str) -> Any:
                return getattr(connection, name)

        service.connection = InterruptingConnection()  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            await store.append("s", 1, make_facts(1))
        assert await store.append("s", 1, make_facts(1), durable=True) == 2
        values = await store._writer.submit(
            lambda connection: [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "busy_timeout")]
        )
        assert values == [2, 10_000], "both settings are in force again"


async def test_signal_during_append_leaves_nothing_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    async with SQLiteStore(path) as store, SQLiteStore(path, busy_timeout=0.1) as other:
        await store.append("s", 0, make_facts(0))
        await other.append("t", 0, make_facts(0))
        wait_for_idle_writer(store)

        def raise_interrupt() -> int:
            monkeypatch.undo()
            raise KeyboardInterrupt

        monkeypatch.setattr(ledgers, "_next_touch", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            await store.append("s", 1, make_facts(1))
        assert await other.append("t", 1, make_facts(1)) == 2
        assert await store.append("s", 1, make_facts(1)) == 2
        assert len(await other.read("s")) == 2
