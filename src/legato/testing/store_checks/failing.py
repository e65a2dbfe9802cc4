"""Sentences 11 and 12 of the contract: damage, full disks, event loops, closing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from legato.core.facts import MessageReceived
from legato.errors import DamagedStore, StoreError, StoreFull
from legato.testing.store_checks.parts import facts_of, proves, said
from legato.testing.store_checks.place import LeftOut, Place, Unmet, expect, expect_error


@proves(11, "damage is told, with the number of facts before it")
async def _damage(place: Place) -> None:
    if place.hooks.damage is None:
        raise LeftOut("no `damage` was given")
    store = await place.open()
    facts = [*said(*range(12)), MessageReceived(at=1, content="flip me"), *said(*range(13, 20))]
    await store.append("s", 0, facts)
    await store.append("t", 0, said(0))
    await place.reopen()
    await place.close()
    place.hooks.damage(place.name)
    store = await place.open()
    try:
        await store.read("s")
    except DamagedStore as damage:
        if not 0 <= damage.readable <= 12:
            raise Unmet(f"12 facts lie before the damage, and {damage.readable} are said to be readable") from None
    else:
        raise Unmet("a changed byte was not noticed")
    if (salvage := getattr(store, "salvage", None)) is not None:
        expect(list(await salvage("s")), facts[:12], "the facts before the damage")
    expect(await facts_of(store, "t"), said(0), "another ledger")


@proves(11, "a full disk is told, loses nothing, and is forgotten when there is room again")
async def _full(place: Place) -> None:
    if place.hooks.fill is None:
        raise LeftOut("no `fill` was given")
    store = await place.open()
    length = await store.append("s", 0, said(0))
    big = MessageReceived(at=1, content="x" * 50_000)
    with place.hooks.fill(place.name):
        try:
            while length < 500:
                length = await store.append("s", length, [big])
        except StoreFull:
            pass
        else:
            raise Unmet("the disk was full, and 500 large appends were acknowledged")
        expect(len(await store.read("s")), length, "facts after the refusal")
    expect(await store.append("s", length, [big]), length + 1, "an append when there is room again")
    expect(await facts_of(store, "s"), [*said(0), *[big] * length], "the facts")


@proves(12, "one store serves several event loops at once")
async def _loops(place: Place) -> None:
    store = await place.open()

    async def elsewhere(ledger: str) -> None:
        for position in range(20):
            await store.append(ledger, position, said(position))
        await store.wait("end", 0, 10)

    def thread(ledger: str) -> None:
        asyncio.run(elsewhere(ledger))

    threads = [asyncio.ensure_future(asyncio.to_thread(thread, name)) for name in "abc"]
    for position in range(20):
        await store.append("here", position, said(position))
    await asyncio.sleep(0.05)
    await store.append("end", 0, said(0))
    await asyncio.gather(*threads)
    for ledger in ("a", "b", "c", "here"):
        expect(await facts_of(store, ledger), said(*range(20)), f"the facts of {ledger!r}")


@proves(12, "a closed store says so, and closing twice is harmless")
async def _closed(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0))
    await store.close()
    await store.close()

    async def watch() -> None:
        store.watch("s", 0, print)

    operations: dict[str, Callable[[], Awaitable[Any]]] = {
        "append": lambda: store.append("s", 1, said(1)),
        "read": lambda: store.read("s"),
        "born": lambda: store.born("s"),
        "list": lambda: store.list(),
        "fork": lambda: store.fork("s", 1, "fork", []),
        "delete": lambda: store.delete("s"),
        "lease": lambda: store.lease("s"),
        "unrested": lambda: store.unrested(),
        "wait": lambda: store.wait("s", 0, 0),
        "watch": watch,
    }
    for name, operation in operations.items():
        async with expect_error(StoreError, f"{name} on a closed store"):
            await operation()
