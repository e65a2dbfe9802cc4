"""Sentence 15 of the contract: which ledgers want a driver."""

from __future__ import annotations

import asyncio
import time

from legato.stores.contract import Store
from legato.testing.store_checks import driving
from legato.testing.store_checks.parts import granted, proves, said
from legato.testing.store_checks.place import Place, expect


async def names(store: Store, limit: int = 100) -> list[str]:
    return [info.ledger for info in await store.unrested(limit)]


async def drive(store: Store, ledger: str, rested: int | None) -> None:
    await store.release(await granted(store, ledger), rested=rested)


@proves(15, "ledgers that were never driven, or have grown since, are named: the one that waits for longest first")
async def _unrested(place: Place) -> None:
    store, other = await place.open(), await place.open()
    expect(await names(store), [], "the ledgers of an empty store")
    for name in "abc":
        await store.append(name, 0, said(5, 6))
    await store.lease("only leased")
    await store.append("a", 2, said(7))
    expect(await names(other), ["b", "c", "a"], "ledgers that were never driven")
    expect(await names(store, limit=2), ["b", "c"], "the two that wait for longest")
    await drive(store, "c", 2)
    await drive(store, "b", 1)
    expect(await names(store), ["b", "a"], "when one rests at its end, and another does not")
    await drive(store, "a", 3)
    await drive(store, "b", 2)
    expect(await names(store), [], "when all rest")
    await other.append("c", 2, said(7))
    await other.append("b", 2, said(7))
    expect(await names(store), ["c", "b"], "those that have grown")
    found = [(info.ledger, info.length, info.updated, info.parent) for info in await other.unrested(1)]
    expect(found, [("c", 3, 1007, "")], "what is said of one")
    await store.delete("c")
    await store.fork("b", 3, "fork", [])
    expect(await names(store), ["b", "fork"], "after a deletion and a fork, which was never driven")


@proves(15, "whoever goes on behind the last line that was given sees each, whatever becomes of the ledgers meanwhile")
async def _pages(place: Place) -> None:
    store, other = await place.open(), await place.open()
    for name in "abcdefg":
        await store.append(name, 0, said(0))
    await drive(store, "c", 1)
    first = await store.unrested(3)
    expect([info.ledger for info in first], ["a", "b", "d"], "the first three")
    await store.append("d", 1, said(1))
    await store.delete("a")
    second = await other.unrested(2, first[-1])
    expect([info.ledger for info in second], ["e", "f"], "the next two, as another sees them, when the last has grown")
    await store.delete("f")
    third = await store.unrested(2, second[-1])
    expect([info.ledger for info in third], ["g", "d"], "those behind one that is deleted; what has grown has moved to the end")
    expect(await store.unrested(2, third[-1]), [], "what is behind the last")
    expect(await other.unrested(10), await store.unrested(10), "the lines, as another sees them")


@proves(15, "a ledger that somebody drives is not named until it is released")
async def _held(place: Place) -> None:
    store, other = await place.open(), await place.open()
    await store.append("s", 0, said(0))
    await store.append("t", 0, said(0))
    lease = await granted(store, "s")
    expect((await names(store), await names(other)), (["t"], ["t"]), "while one is driven")
    expect(await other.lease("s"), None, "a lease that is held is held still, although somebody looked")
    await store.append("s", 1, said(1))
    await store.release(lease)
    expect(await names(other), ["t", "s"], "when its driver failed, and did not come to rest")
    lease = await granted(store, "s")
    await store.append("s", 2, said(2))
    await store.release(lease, rested=3)
    await other.append("s", 3, said(3))
    expect(await names(other), ["t", "s"], "when something was appended since")


@proves(15, "a lease that is over says nothing about rest")
async def _over(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0))
    lease = await granted(store, "s")
    await store.release(lease)
    later = await granted(store, "s")
    await store.release(lease, rested=1)
    await store.release(later)
    expect(await names(store), ["s"], "after a lease was released again, with a rest")


@proves(15, "where drivers came to rest is there after reopening")
async def _reopened(place: Place) -> None:
    store = await place.open()
    for name in "ab":
        await store.append(name, 0, said(0, 1))
    await drive(store, "a", 2)
    store = await place.reopen()
    expect(await names(store), ["b"], "after reopening")


@proves(15, "a ledger whose driver was killed is named")
async def _killed(place: Place) -> None:
    store, other = await place.open(), await place.other_process()
    await store.append("s", 0, said(0))
    await other.ask("lease", "s")
    expect(await names(store), [], "while another process drives it")
    await other.kill()
    until = time.monotonic() + driving.DEATH_NOTICED
    while not (found := await names(store)) and time.monotonic() < until:  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0.05)
    expect(found, ["s"], "after its driver was killed")
