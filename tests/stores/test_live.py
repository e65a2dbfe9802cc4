"""What carries words while they are said: few promises, and those are kept; see `legato.stores.live`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from legato.stores import MemoryStore, PostgresStore, SQLiteStore
from legato.stores.live import Live, live_of
from tests.stores.conftest import until


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Any]:
    made: dict[str, Callable[[], Any]] = {
        "memory": MemoryStore,
        "sqlite": lambda: SQLiteStore(tmp_path / "s.db"),
        "postgres": lambda: PostgresStore(request.getfixturevalue("database")),
    }
    async with made[request.param]() as opened:
        yield opened


async def known(live: Live, ledger: str) -> int:
    """Who listens, once that is found out."""
    await until(lambda: live.listeners(ledger))
    return live.listeners(ledger)


async def test_who_listens_hears_what_is_told_to_that_ledger_in_order_and_nothing_else(store: Any) -> None:
    heard: list[bytes] = []
    async with store.live.hear("s", heard.append):
        await known(store.live, "s")
        for number in range(50):
            store.live.tell("s", b"note %d" % number)
            store.live.tell("t", b"another")
        await until(lambda: len(heard) >= 50)
    assert heard == [b"note %d" % number for number in range(50)]


async def test_nobody_hears_any_more_after_leaving(store: Any) -> None:
    heard: list[bytes] = []
    async with store.live.hear("s", heard.append):
        await known(store.live, "s")
    later: list[bytes] = []
    async with store.live.hear("s", later.append):
        await known(store.live, "s")
        store.live.tell("s", b"too late")
        await until(lambda: later)
    assert heard == []


async def test_the_number_is_another_one_when_somebody_has_begun_to_listen(store: Any) -> None:
    assert store.live.listeners("s") == 0
    async with store.live.hear("s", lambda note: None):
        first = await known(store.live, "s")
        async with store.live.hear("s", lambda note: None):
            await until(lambda: store.live.listeners("s") != first)
    assert store.live.listeners("t") == 0


async def test_a_note_of_the_greatest_length_is_carried(store: Any) -> None:
    heard: list[bytes] = []
    async with store.live.hear("s", heard.append):
        await known(store.live, "s")
        store.live.tell("s", b"x" * store.live.longest)
        await until(lambda: heard)
    assert heard == [b"x" * store.live.longest]


async def test_those_who_listen_in_another_event_loop_are_called_there(store: Any) -> None:
    heard: list[tuple[bytes, bool]] = []
    listening, done = asyncio.Event(), asyncio.Event()
    here = asyncio.get_running_loop()

    async def listen() -> None:
        there = asyncio.get_running_loop()
        enough = asyncio.Event()

        def hear(note: bytes) -> None:
            heard.append((note, asyncio.get_running_loop() is there))
            enough.set()

        async with store.live.hear("s", hear):
            here.call_soon_threadsafe(listening.set)
            await asyncio.wait_for(enough.wait(), 60)
        here.call_soon_threadsafe(done.set)

    elsewhere = asyncio.create_task(asyncio.to_thread(asyncio.run, listen()))
    await listening.wait()
    await known(store.live, "s")
    store.live.tell("s", b"note")
    await done.wait()
    await elsewhere
    assert heard == [(b"note", True)]


async def test_tenants_do_not_hear_each_other(store: Any) -> None:
    heard: dict[str, list[bytes]] = {"acme": [], "other": [], "": []}
    acme, other = store.tenant("acme"), store.tenant("other")
    async with (
        acme.live.hear("s", heard["acme"].append),
        other.live.hear("s", heard["other"].append),
        store.live.hear("s", heard[""].append),
    ):
        await known(acme.live, "s")
        acme.live.tell("s", b"note")
        await until(lambda: heard["acme"])
        for live, key in ((other.live, "other"), (store.live, "")):  # what comes now would come after a note that went astray
            await known(live, "s")
            live.tell("s", b"last")
            await until(lambda key=key: heard[key])
    assert heard == {"acme": [b"note"], "other": [b"last"], "": [b"last"]}


async def test_telling_never_raises_and_never_waits_whatever_became_of_the_store(store: Any) -> None:
    live = store.live
    await store.close()
    for _ in range(2000):
        live.tell("s", b"note")
    assert live.listeners("s") == 0


def test_a_store_without_it_is_a_store() -> None:
    assert live_of(object()) is None
    assert isinstance(live_of(MemoryStore()), Live)
