"""Checks of rule 15: the ledgers that need a driver."""

from __future__ import annotations

import asyncio
import time

from legato.stores.contract import Store
from legato.testing.store_checks import lease_and_watch_checks
from legato.testing.store_checks.check_environment import CheckEnvironment, expect
from legato.testing.store_checks.check_helpers import checks_rule, make_messages, take_lease


async def list_runnable_names(store: Store, limit: int = 100) -> list[str]:
    return [info.ledger for info in await store.list_runnable(limit)]


async def drive_once(store: Store, ledger: str, idle_at: int | None) -> None:
    await store.release(await take_lease(store, ledger), idle_at=idle_at)


@checks_rule(15, "ledgers that were never driven, or have grown since, are listed, the oldest last append first")
async def _check_list_runnable(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.open()
    expect(await list_runnable_names(store), [], "the ledgers of an empty store")
    for name in "abc":
        await store.append(name, 0, make_messages(5, 6))
    await store.lease("only leased")
    await store.append("a", 2, make_messages(7))
    expect(await list_runnable_names(other), ["b", "c", "a"], "ledgers that were never driven")
    expect(await list_runnable_names(store, limit=2), ["b", "c"], "the two with the oldest last append")
    await drive_once(store, "c", 2)
    await drive_once(store, "b", 1)
    expect(await list_runnable_names(store), ["b", "a"], "after one driver became idle at the end, and another before it")
    await drive_once(store, "a", 3)
    await drive_once(store, "b", 2)
    expect(await list_runnable_names(store), [], "after all became idle")
    await other.append("c", 2, make_messages(7))
    await other.append("b", 2, make_messages(7))
    expect(await list_runnable_names(store), ["c", "b"], "those that have grown")
    found = [(info.ledger, info.length, info.updated_at, info.parent) for info in await other.list_runnable(1)]
    expect(found, [("c", 3, 1007, "")], "the line of one ledger")
    await store.delete("c")
    await store.fork("b", 3, "fork", [])
    expect(await list_runnable_names(store), ["b", "fork"], "after a deletion and a fork, which was never driven")


@checks_rule(15, "paging through runnable ledgers returns each of them, whatever happens to ledgers meanwhile")
async def _check_runnable_pages(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.open()
    for name in "abcdefg":
        await store.append(name, 0, make_messages(0))
    await drive_once(store, "c", 1)
    first = await store.list_runnable(3)
    expect([info.ledger for info in first], ["a", "b", "d"], "the first three")
    await store.append("d", 1, make_messages(1))
    await store.delete("a")
    second = await other.list_runnable(2, first[-1])
    expect([info.ledger for info in second], ["e", "f"], "the next two, through another handle, after the last one has grown")
    await store.delete("f")
    third = await store.list_runnable(2, second[-1])
    expect([info.ledger for info in third], ["g", "d"], "the two after a deleted ledger; one that has grown is at the end")
    expect(await store.list_runnable(2, third[-1]), [], "the lines after the last")
    expect(await other.list_runnable(10), await store.list_runnable(10), "the lines through another handle")


@checks_rule(15, "a leased ledger is not listed until it is released")
async def _check_leased_ledgers(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.open()
    await store.append("s", 0, make_messages(0))
    await store.append("t", 0, make_messages(0))
    lease = await take_lease(store, "s")
    expect((await list_runnable_names(store), await list_runnable_names(other)), (["t"], ["t"]), "while one is driven")
    expect(await other.lease("s"), None, "a lease of a leased ledger, after listing")
    await store.append("s", 1, make_messages(1))
    await store.release(lease)
    expect(await list_runnable_names(other), ["t", "s"], "after its driver failed, and did not become idle")
    lease = await take_lease(store, "s")
    await store.append("s", 2, make_messages(2))
    await store.release(lease, idle_at=3)
    await other.append("s", 3, make_messages(3))
    expect(await list_runnable_names(other), ["t", "s"], "after an append since it became idle")


@checks_rule(15, "a lease that has ended records no idleness")
async def _check_idleness_of_ended_lease(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0))
    lease = await take_lease(store, "s")
    await store.release(lease)
    later = await take_lease(store, "s")
    await store.release(lease, idle_at=1)
    await store.release(later)
    expect(await list_runnable_names(store), ["s"], "after an ended lease was released again with a position")


@checks_rule(15, "recorded idleness is there after reopening")
async def _check_idleness_after_reopening(environment: CheckEnvironment) -> None:
    store = await environment.open()
    for name in "ab":
        await store.append(name, 0, make_messages(0, 1))
    await drive_once(store, "a", 2)
    store = await environment.reopen()
    expect(await list_runnable_names(store), ["b"], "after reopening")


@checks_rule(15, "a ledger whose driver was killed is listed")
async def _check_killed_driver(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.start_other_process()
    await store.append("s", 0, make_messages(0))
    await other.invoke("lease", "s")
    expect(await list_runnable_names(store), [], "while another process drives it")
    await other.kill()
    deadline = time.monotonic() + lease_and_watch_checks.DEATH_NOTICE_TIMEOUT_S
    while not (runnable := await list_runnable_names(store)) and time.monotonic() < deadline:  # noqa: ASYNC110 - there is no notification
        await asyncio.sleep(0.05)
    expect(runnable, ["s"], "after its driver was killed")
