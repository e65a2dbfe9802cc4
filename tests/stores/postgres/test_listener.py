"""The listener of a Postgres store: notifications, when it listens, its checks, and locks of other transactions."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from legato.stores import PostgresStore
from legato.stores.ledger_watchers import LedgerWatchers
from legato.stores.postgres import listener
from legato.stores.postgres.listener import Listener
from legato.stores.postgres.rows import ledger_key
from tests.stores.conftest import make_facts, wait_until, wait_until_renewed


@pytest.fixture(autouse=True)
def no_repeated_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growth is found by notifications, or by the first check."""
    monkeypatch.setattr(listener, "CHECK_INTERVAL_S", 60.0)


class ListenerRounds:
    """The notifications that listeners have received, and the number of times that each has finished its work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.payloads: list[str] = []
        self._counts: Counter[Any] = Counter()  # by wakeup socket
        handle, wait = Listener._handle_notification, listener._wait_for_input

        def handle_and_record(store_listener: Listener, payload: str, sender_pid: int) -> None:
            handle(store_listener, payload, sender_pid)
            self.payloads.append(payload)

        def wait_and_count(wakeup_socket: Any, *arguments: Any) -> bool:
            self._counts[wakeup_socket] += 1
            return wait(wakeup_socket, *arguments)

        monkeypatch.setattr(Listener, "_handle_notification", handle_and_record)
        monkeypatch.setattr(listener, "_wait_for_input", wait_and_count)

    async def finish(self, store_listener: Listener) -> None:
        """Wait until the listener has handled all notifications that it has received by now."""
        for _ in range(3):  # the first round may have begun before
            assert store_listener._wakeup_sockets is not None
            wakeup_socket = store_listener._wakeup_sockets[1]
            before = self._counts[wakeup_socket]
            store_listener._wake_thread()
            await wait_until(lambda wakeup_socket=wakeup_socket, before=before: self._counts[wakeup_socket] > before)

    async def finish_after(self, payload: str, store_listener: Listener) -> None:
        """Wait until the listener has received this payload, and has handled it."""
        await wait_until(lambda: payload in self.payloads)
        await self.finish(store_listener)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> ListenerRounds:
    return ListenerRounds(monkeypatch)


def notify(dsn: str, *payloads: str) -> None:
    with psycopg.connect(dsn) as connection:
        for payload in payloads:
            connection.execute("SELECT pg_notify('legato', %s)", (payload,))


# -- notifications -------------------------------------------------------------------------------------------------------


async def test_false_notification_has_no_effect(database: str, rounds: ListenerRounds) -> None:
    async with PostgresStore(database) as store, PostgresStore(database) as other:
        await other.append("s", 0, make_facts(0))
        lengths: list[int] = []
        stop = store.watch("s", 1, lengths.append)
        waiting = asyncio.ensure_future(store.wait("s", 1, 20))
        await wait_until(lambda: store._database.listener.is_listening)
        key = ledger_key("", "s")
        notify(database, f"{key} 999999999", f"{key} {'9' * 5000}", f"{key} 0", f"{key} 1")
        await rounds.finish_after(f"{key} 1", store._database.listener)
        assert lengths == []
        assert not waiting.done()
        await other.append("s", 1, make_facts(1))
        await wait_until(lambda: lengths)
        assert await waiting
        stop()
        assert lengths == [2]


async def test_notifications_cost_few_length_reads(database: str, rounds: ListenerRounds, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notifications about unwatched ledgers cost no read, and many about one watched ledger cost a few."""
    monkeypatch.setattr(listener, "FIRST_CHECK_DELAY_S", 0.0)
    checks: list[int] = []
    check_lengths = Listener._check_lengths

    def check_and_record(store_listener: Listener, connection: Any, ledgers_to_check: dict[str, tuple[str, str]]) -> None:
        checks.append(len(ledgers_to_check))
        check_lengths(store_listener, connection, ledgers_to_check)

    monkeypatch.setattr(Listener, "_check_lengths", check_and_record)
    async with PostgresStore(database) as store:
        lengths: list[int] = []
        stop = store.watch("s", 0, lengths.append)
        store_listener, key = store._database.listener, ledger_key("", "s")
        await wait_until(lambda: store_listener.is_listening)
        await rounds.finish(store_listener)  # includes the first check
        checks.clear()
        notify(database, *(f"{ledger_key('', f't{number}')} 5" for number in range(500)))
        await rounds.finish_after(f"{ledger_key('', 't499')} 5", store_listener)
        assert checks == []
        await store.append("s", 0, make_facts(0))
        await wait_until(lambda: lengths == [1])
        await rounds.finish_after(f"{key} 1", store_listener)
        assert checks == [], "appends of this process need no check"
        notify(database, *(f"{key} {number}" for number in range(500)))
        await rounds.finish_after(f"{key} 499", store_listener)
        assert 0 < len(checks) < 50
        stop()


# -- when it listens -----------------------------------------------------------------------------------------------------


async def test_listens_only_while_ledgers_are_watched(database: str, rounds: ListenerRounds, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener stops listening a while after the last watcher has gone."""
    checks: list[int] = []
    check_lengths = Listener._check_lengths

    def check_and_record(store_listener: Listener, connection: Any, ledgers_to_check: dict[str, tuple[str, str]]) -> None:
        checks.append(len(ledgers_to_check))
        check_lengths(store_listener, connection, ledgers_to_check)

    monkeypatch.setattr(Listener, "_check_lengths", check_and_record)
    monkeypatch.setattr(listener, "UNLISTEN_DELAY_S", 0.2)
    monkeypatch.setattr(listener, "CHECK_INTERVAL_S", 0.2)  # ended watches are forgotten by a check too
    async with PostgresStore(database) as store, PostgresStore(database) as other:
        store_listener = store._database.listener
        await store.append("s", 0, make_facts(0))
        lease = await store.lease("s")
        assert lease is not None
        await rounds.finish(store_listener)
        assert not store_listener.is_listening, "a store that only writes need not be woken"
        for length in (1, 2):
            lengths: list[int] = []
            stop = store.watch("s", length, lengths.append)
            await wait_until(lambda: store_listener.is_listening)
            checks.clear()
            await wait_until(lambda: len(checks) >= 4)  # takes at least three times 0.2 s
            assert store_listener.is_listening
            await other.append("s", length, make_facts(length))
            await wait_until(lambda lengths=lengths: lengths)
            stop()
            await wait_until(lambda: not store_listener.is_listening)


async def ends_wait_after_missed_notification(
    database: str, monkeypatch: pytest.MonkeyPatch, listen: Callable[[Listener, Any], None]
) -> bool:
    """Return True if a wait ends although the notification was sent after its own read, and before its listener listened."""
    monkeypatch.setattr(listener, "FIRST_CHECK_DELAY_S", 0.0)
    rounds, may_listen = ListenerRounds(monkeypatch), threading.Event()
    async with PostgresStore(database) as store, PostgresStore(database) as other:
        store_listener = store._database.listener

        def listen_later(this: Listener, connection: Any) -> None:
            if this is store_listener and not this._is_listen_requested:
                assert may_listen.wait(60)
            listen(this, connection)

        monkeypatch.setattr(Listener, "_listen", listen_later)
        await store.append("t", 0, make_facts(0))
        await wait_until(
            lambda: store_listener._connection is not None and not store_listener._announcements
        )  # the listener is connected, and does not listen
        with psycopg.connect(database, autocommit=True) as witness:
            witness.execute("LISTEN legato")
            waiting = asyncio.ensure_future(store.wait("s", 0, 600))
            await wait_until(
                lambda: ledger_key("", "s") in store._database.watchers and not store._database._length_reads
            )  # its own read has found nothing
            await other.append("s", 0, make_facts(0))
            key = ledger_key("", "s")
            payloads = await asyncio.to_thread(lambda: [notify.payload for notify in witness.notifies(timeout=60, stop_after=1)])
            while payloads and not payloads[-1].startswith(key):  # that of the append before may come first
                payloads = await asyncio.to_thread(lambda: [notify.payload for notify in witness.notifies(timeout=60, stop_after=1)])
            assert payloads, "the notification was sent"
        may_listen.set()
        await wait_until(lambda: store_listener.is_listening)
        await rounds.finish(store_listener)
        for _ in range(10):  # the event loop has to run the callback
            await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            return False
        return waiting.result()


async def test_growth_before_listen_is_found_at_once(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await ends_wait_after_missed_notification(database, monkeypatch, Listener._listen)


async def test_missing_check_after_listen_is_caught(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above fails for a listener that does not check the lengths after it has begun to listen."""

    def listen_without_check(store_listener: Listener, connection: Any) -> None:
        if not store_listener._is_listen_requested:
            store_listener._is_listen_requested = store_listener.is_listening = True
            connection.execute("LISTEN legato")

    assert not await ends_wait_after_missed_notification(database, monkeypatch, listen_without_check)


# -- checks --------------------------------------------------------------------------------------------------------------


async def test_watch_during_check_is_not_lost(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CHECK_INTERVAL_S", 0.001)
    contains, ledgers = LedgerWatchers.__contains__, LedgerWatchers.ledgers

    def contains_slowly(watchers: LedgerWatchers, ledger: str) -> bool:
        found = contains(watchers, ledger)
        time.sleep(0.001)  # the operating system may suspend the thread here
        return found

    def list_slowly(watchers: LedgerWatchers) -> list[str]:
        found = ledgers(watchers)
        time.sleep(0.001)
        return found

    monkeypatch.setattr(LedgerWatchers, "__contains__", contains_slowly)
    monkeypatch.setattr(LedgerWatchers, "ledgers", list_slowly)
    async with PostgresStore(database) as store:
        await store.list()
        stop = store.watch("s", 0, lambda length: None)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            stop_another = store.watch("t", 0, lambda length: None)
            await asyncio.sleep(0.005)  # until a check in progress is over
            assert ledger_key("", "t") in store._database.listener._watched_ledgers
            stop_another()
            await asyncio.sleep(0.001)
        stop()


# -- locks ---------------------------------------------------------------------------------------------------------------


async def test_many_locked_rows_cost_no_other_lease(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "RENEWALS_PER_LEASE", 240)  # four times a second
    async with PostgresStore(database, lease_seconds=60) as store:
        for number in range(12):
            assert await store.lease(f"s{number}") is not None
        with psycopg.connect(database) as slow:
            slow.execute("SELECT FROM legato.ledgers WHERE name <> 's11' FOR UPDATE")
            for _ in range(3):
                await wait_until_renewed(database, "s11")


async def test_wait_times_out_without_server_answer(database: str) -> None:
    async with PostgresStore(database, lock_timeout=300) as store:  # five minutes: a wait for the lock would hang
        await store.append("s", 0, make_facts(0))
        with psycopg.connect(database) as connection:
            connection.execute("LOCK TABLE legato.ledgers IN ACCESS EXCLUSIVE MODE")
            began = time.monotonic()
            async with asyncio.timeout(120):
                assert not await store.wait("s", 1, 1.2)
                assert time.monotonic() - began > 1.1
                assert not await store.wait("s", 1, 0), "a wait of 0 seconds reads the length, for a second at most"
        assert await store.wait("s", 0, 0), "the store works again"
