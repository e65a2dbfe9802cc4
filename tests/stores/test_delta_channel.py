"""The rules of delta channels, for all stores; see `legato.stores.delta_channel`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from legato.stores import MemoryStore, PostgresStore, SQLiteStore
from legato.stores.delta_channel import DeltaChannel, get_delta_channel
from tests.stores.conftest import wait_until


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[Any]:
    factories: dict[str, Callable[[], Any]] = {
        "memory": MemoryStore,
        "sqlite": lambda: SQLiteStore(tmp_path / "s.db"),
        "postgres": lambda: PostgresStore(request.getfixturevalue("database")),
    }
    async with factories[request.param]() as opened:
        yield opened


async def wait_for_subscriber(channel: DeltaChannel, ledger: str) -> int:
    """Return the subscriber version, once a subscriber is known."""
    await wait_until(lambda: channel.subscriber_version(ledger))
    return channel.subscriber_version(ledger)


async def test_subscriber_gets_its_ledgers_deltas_in_order(store: Any) -> None:
    deltas: list[bytes] = []
    async with store.delta_channel.subscribe("s", deltas.append):
        await wait_for_subscriber(store.delta_channel, "s")
        for number in range(50):
            store.delta_channel.publish("s", b"delta %d" % number)
            store.delta_channel.publish("t", b"another")
        await wait_until(lambda: len(deltas) >= 50)
    assert deltas == [b"delta %d" % number for number in range(50)]


async def test_unsubscribed_callback_gets_nothing(store: Any) -> None:
    deltas: list[bytes] = []
    async with store.delta_channel.subscribe("s", deltas.append):
        await wait_for_subscriber(store.delta_channel, "s")
    later: list[bytes] = []
    async with store.delta_channel.subscribe("s", later.append):
        await wait_for_subscriber(store.delta_channel, "s")
        store.delta_channel.publish("s", b"too late")
        await wait_until(lambda: later)
    assert deltas == []


async def test_subscriber_version_changes_with_each_subscriber(store: Any) -> None:
    assert store.delta_channel.subscriber_version("s") == 0
    async with store.delta_channel.subscribe("s", lambda delta: None):
        first = await wait_for_subscriber(store.delta_channel, "s")
        async with store.delta_channel.subscribe("s", lambda delta: None):
            await wait_until(lambda: store.delta_channel.subscriber_version("s") != first)
    assert store.delta_channel.subscriber_version("t") == 0


async def test_delta_of_maximal_size_is_carried(store: Any) -> None:
    deltas: list[bytes] = []
    async with store.delta_channel.subscribe("s", deltas.append):
        await wait_for_subscriber(store.delta_channel, "s")
        store.delta_channel.publish("s", b"x" * store.delta_channel.max_delta_bytes)
        await wait_until(lambda: deltas)
    assert deltas == [b"x" * store.delta_channel.max_delta_bytes]


async def test_subscriber_is_called_in_its_event_loop(store: Any) -> None:
    deltas: list[tuple[bytes, bool]] = []
    subscribed, done = asyncio.Event(), asyncio.Event()
    here = asyncio.get_running_loop()

    async def subscribe_elsewhere() -> None:
        its_loop = asyncio.get_running_loop()
        enough = asyncio.Event()

        def on_delta(delta: bytes) -> None:
            deltas.append((delta, asyncio.get_running_loop() is its_loop))
            enough.set()

        async with store.delta_channel.subscribe("s", on_delta):
            here.call_soon_threadsafe(subscribed.set)
            await asyncio.wait_for(enough.wait(), 60)
        here.call_soon_threadsafe(done.set)

    elsewhere = asyncio.create_task(asyncio.to_thread(asyncio.run, subscribe_elsewhere()))
    await subscribed.wait()
    await wait_for_subscriber(store.delta_channel, "s")
    store.delta_channel.publish("s", b"delta")
    await done.wait()
    await elsewhere
    assert deltas == [(b"delta", True)]


async def test_tenants_get_no_deltas_of_others(store: Any) -> None:
    deltas: dict[str, list[bytes]] = {"acme": [], "other": [], "": []}
    acme, other = store.tenant("acme"), store.tenant("other")
    async with (
        acme.delta_channel.subscribe("s", deltas["acme"].append),
        other.delta_channel.subscribe("s", deltas["other"].append),
        store.delta_channel.subscribe("s", deltas[""].append),
    ):
        await wait_for_subscriber(acme.delta_channel, "s")
        acme.delta_channel.publish("s", b"delta")
        await wait_until(lambda: deltas["acme"])
        for channel, key in (
            (other.delta_channel, "other"),
            (store.delta_channel, ""),
        ):  # a delta to the wrong tenant would have arrived before these
            await wait_for_subscriber(channel, "s")
            channel.publish("s", b"last")
            await wait_until(lambda key=key: deltas[key])
    assert deltas == {"acme": [b"delta"], "other": [b"last"], "": [b"last"]}


async def test_publish_to_closed_store_never_raises(store: Any) -> None:
    channel = store.delta_channel
    await store.close()
    for _ in range(2000):
        channel.publish("s", b"delta")
    assert channel.subscriber_version("s") == 0


def test_store_may_have_no_delta_channel() -> None:
    assert get_delta_channel(object()) is None
    assert isinstance(get_delta_channel(MemoryStore()), DeltaChannel)
