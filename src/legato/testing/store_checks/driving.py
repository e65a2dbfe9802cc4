"""Sentences 9 and 10 of the contract: leases, and waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from legato.core.facts import MAX_COUNT, CallRef, CallStarted, Opened, Origin
from legato.errors import StoreError
from legato.stores.contract import Lease, Store
from legato.testing.store_checks.parts import facts_of, granted, outcomes, proves, said
from legato.testing.store_checks.place import Place, Unmet, expect, expect_error

DEATH_NOTICED = 10.0  # seconds: stores that notice death by a heartbeat need some


@proves(9, "a lease is newer than any epoch that the ledger's facts name, wherever they come from")
async def _epochs_in_facts(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, [*said(0), CallStarted(at=1, call=CallRef(0, 0), attempt=1, epoch=7_000_000)])
    lease = await granted(store, "s", above=7_000_000)
    await store.append("s", 2, [CallStarted(at=2, call=CallRef(0, 0), attempt=2, epoch=lease.epoch)])
    await store.release(lease)
    await granted(store, "s", above=lease.epoch)


@proves(9, "epochs that facts name concern their ledger alone, and no longer than until it is opened again")
async def _epochs_of_others(place: Place) -> None:
    store = await place.open()
    started = CallStarted(at=1, call=CallRef(0, 0), attempt=1, epoch=MAX_COUNT)
    await store.append("loaded", 0, [*said(0), started, Opened(at=2, ledger="l", workflow="w", origin=Origin("other", 2, "copy"))])
    await granted(store, "loaded")
    await store.append("made up", 0, [*said(0), started])
    async with expect_error(StoreError, "a lease of a ledger whose facts name the largest epoch"):
        await store.lease("made up")
    for each in ("before", "after"):
        await store.append(each, 0, said(0))
        await granted(store, each)
        await store.delete("made up")
    await store.append("made up", 0, said(0))
    await granted(store, "made up")


@proves(9, "a lease outlives appends of facts that name newer epochs, and is given back after them")
async def _epochs_while_leased(place: Place) -> None:
    store = await place.open()
    lease = await granted(store, "s")
    await store.append("s", 0, [*said(0), CallStarted(at=1, call=CallRef(0, 0), attempt=1, epoch=50)])
    expect(await store.lease("s"), None, "a second lease")
    await store.release(lease)
    await granted(store, "s", above=50)


@proves(9, "who gives back the lease of a deleted ledger takes nothing from the one that has its name now")
async def _lease_of_a_deleted_ledger(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0))
    old = await granted(store, "s")
    await store.delete("s")
    await store.append("s", 0, said(1))
    await granted(store, "s")
    await store.release(old, rested=1)
    expect(await store.lease("s"), None, "a second lease of the new ledger")


@proves(9, "a lease has one holder at a time, and each has a larger epoch than every one before")
async def _lease(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.append("s", 0, said(0))
    first = await granted(one, "s")
    expect((await one.lease("s"), await two.lease("s")), (None, None), "a second lease")
    other = await granted(two, "t")
    await one.release(first)
    second = await granted(two, "s", above=first.epoch)
    await one.release(first)
    expect(await one.lease("s"), None, "a lease after an old one was released again")
    for store, lease in ((two, second), (two, second), (two, other)):
        await store.release(lease)
    await granted(one, "s", above=second.epoch)


@proves(9, "of many who ask at once exactly one gets the lease")
async def _lease_race(place: Place) -> None:
    one, two = await place.open(), await place.open()
    epoch = 0
    for _ in range(5):
        results = await outcomes((one, two)[i % 2].lease("s") for i in range(20))
        won = [(i, result) for i, result in enumerate(results) if isinstance(result, Lease)]
        expect((len(won), results.count(None)), (1, 19), "those who got it, and those who did not")
        [(i, lease)] = won
        if lease.epoch <= epoch:
            raise Unmet(f"epoch {lease.epoch} came after {epoch}")
        epoch = lease.epoch
        await (one, two)[i % 2].release(lease)


@proves(9, "a ledger may be leased before its first fact, and nobody else sees it")
async def _lease_first(place: Place) -> None:
    store = await place.open()
    lease = await granted(store, "s")
    seen = await facts_of(store, "s"), list(await store.list()), await store.delete("s")
    expect(seen, ([], [], False), "a ledger only leased")
    expect(await store.lease("s"), None, "a second lease")
    expect(await store.append("s", 0, said(0)), 1, "its first append")
    fork = await granted(store, "fork")
    await store.fork("s", 1, "fork", said(1))
    expect(await facts_of(store, "fork"), said(0, 1), "a fork that was leased before it was made")
    await store.release(lease)
    await store.release(fork)
    await granted(store, "s", above=lease.epoch)


@proves(9, "a fork's epochs begin above its parent's")
async def _fork_epoch(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0))
    lease = await granted(store, "s")
    for _ in range(5):
        await store.release(lease)
        lease = await granted(store, "s", above=lease.epoch)
    await store.fork("s", 1, "fork", said(1))
    branch = await granted(store, "fork", above=lease.epoch)
    await store.fork("fork", 0, "fork of fork", said(2))
    await granted(store, "fork of fork", above=branch.epoch)


@proves(9, "a lease ends with the handle that held it")
async def _lease_closed(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0))
    lease = await granted(store, "s")
    store = await place.reopen()
    await granted(store, "s", above=lease.epoch)


@proves(9, "a lease ends with the process that held it")
async def _lease_killed(place: Place) -> None:
    store, other = await place.open(), await place.other_process()
    await store.append("s", 0, said(0))
    lease = await granted(store, "s")
    expect(await other.ask("lease", "s"), None, "a lease in another process")
    await store.release(lease)
    _, epoch = await other.ask("lease", "s")
    if epoch <= lease.epoch:
        raise Unmet(f"epoch {epoch} came after {lease.epoch}")
    expect(await store.lease("s"), None, "a lease that another process holds")
    await other.kill()
    until = time.monotonic() + DEATH_NOTICED
    while (taken := await store.lease("s")) is None and time.monotonic() < until:  # noqa: ASYNC110 - nobody is told of it
        await asyncio.sleep(0.05)
    if taken is None or taken.epoch <= epoch:
        raise Unmet(f"after its holder was killed: expected a lease with an epoch above {epoch}, found {taken}")


async def woken(store: Store, ledger: str, position: int, wake: Callable[[], Awaitable[Any]], by: str) -> None:
    waiting = asyncio.ensure_future(store.wait(ledger, position, 10))
    await asyncio.sleep(0.05)
    expect(waiting.done(), False, f"a wait on {ledger!r} before anything was appended")
    began = time.monotonic()
    await wake()
    expect(await waiting, True, f"a wait ended by {by}")
    if time.monotonic() - began > 5:
        raise Unmet(f"a wait was ended by {by} only after {time.monotonic() - began:.1f} s")


@proves(10, "wait ends when the ledger has grown, whoever made it grow")
async def _wait(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await woken(one, "s", 0, lambda: one.append("s", 0, said(0)), "an append that created the ledger")
    expect(await one.wait("s", 0, 0), True, "a wait for what is there")
    await woken(one, "s", 1, lambda: two.append("s", 1, said(1)), "an append of another handle")
    await woken(one, "fork", 1, lambda: two.fork("s", 1, "fork", said(2)), "a fork")
    many = [asyncio.ensure_future(one.wait("s", position % 6, 10)) for position in range(300)]
    await asyncio.sleep(0)
    for position in range(2, 6):
        await two.append("s", position, said(position))
    expect(await asyncio.gather(*many), [True] * 300, "many waits")


@proves(10, "wait ends when another process appends")
async def _wait_for_process(place: Place) -> None:
    store, other = await place.open(), await place.other_process()
    await other.append("s", 0, said(0))
    await woken(store, "s", 1, lambda: other.append("s", 1, said(1)), "an append of another process")


async def heard(told: list[int], length: int, by: str) -> None:
    """Wait until somebody who watches was told of this length; and of nothing else, but where it may be told of what it grew by."""
    until = time.monotonic() + 5
    while length not in told and time.monotonic() < until:  # noqa: ASYNC110 - it is the store that is to say so
        await asyncio.sleep(0.01)
    expect(told[-1:], [length], f"what those are told who watch, after {by}")


@proves(10, "who watches is told whenever the ledger has grown, whoever made it grow, until they watch no more")
async def _watch(place: Place) -> None:
    one, two = await place.open(), await place.open()
    told: list[int] = []
    stop = one.watch("s", 0, told.append)
    for store, by in ((one, "its own append"), (two, "an append of another handle"), (one, "one more of its own")):
        length = len(told)
        await store.append("s", length, said(length))
        await heard(told, length + 1, by)
    expect(told, [1, 2, 3], "what those are told who watch")
    later: list[int] = []
    stop_later = one.watch("s", 1, later.append)
    await heard(later, 3, "what was there before they began to watch")
    stop()
    await one.append("s", 3, said(3))
    await one.append("t", 0, said(0, 1, 2, 3, 4))
    await heard(later, 4, "an append, and another to another ledger")
    stop_later()
    await asyncio.sleep(0.1)
    expect((told, later), ([1, 2, 3], [3, 4]), "what those are told who watch no more, or another ledger")


@proves(10, "who watches is told when another process appends")
async def _watch_for_process(place: Place) -> None:
    store, other = await place.open(), await place.other_process()
    told: list[int] = []
    await other.append("s", 0, said(0))
    stop = store.watch("s", 1, told.append)
    await other.append("s", 1, said(1))
    await heard(told, 2, "an append of another process")
    stop()


@proves(10, "who watches a store that is closed is told to look")
async def _watch_the_end(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0))
    told: list[int] = []
    store.watch("s", 1, told.append)
    await store.close()
    await asyncio.sleep(0)
    expect(len(told), 1, "how often those are told who watch a store that is closed")


@proves(10, "wait says False when the time is over, and other ledgers do not end it")
async def _wait_in_vain(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0))
    began = time.monotonic()
    waiting = asyncio.ensure_future(store.wait("s", 1, 0.2))
    await asyncio.sleep(0.02)
    await store.append("t", 0, said(0, 1, 2))
    expect(await waiting, False, "a wait in vain")
    if not 0.15 < time.monotonic() - began < 5:
        raise Unmet(f"a wait of 0.2 s took {time.monotonic() - began:.2f} s")
    expect(await store.wait("unknown", 0, 0), False, "a wait of no time")
