"""Checks of rules 9 and 10: leases, waiting and watching."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from legato.core.facts import MAX_COUNT, CallRef, CallStarted, Opened, Origin
from legato.errors import StoreError
from legato.stores.contract import Lease, Store
from legato.testing.store_checks.check_environment import CheckEnvironment, ContractBroken, expect, expect_error
from legato.testing.store_checks.check_helpers import checks_rule, gather_outcomes, make_messages, read_facts, take_lease

DEATH_NOTICE_TIMEOUT_S = 10.0
"""The time for a store to notice the death of a process: a store with a heartbeat needs some seconds."""


@checks_rule(9, "the epoch of a lease is larger than every epoch in the ledger's facts, even of foreign facts")
async def _check_epochs_in_facts(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, [*make_messages(0), CallStarted(at=1, call=CallRef(0, 0), attempt=1, epoch=7_000_000)])
    lease = await take_lease(store, "s", above=7_000_000)
    await store.append("s", 2, [CallStarted(at=2, call=CallRef(0, 0), attempt=2, epoch=lease.epoch)])
    await store.release(lease)
    await take_lease(store, "s", above=lease.epoch)


@checks_rule(9, "epochs in facts concern their own ledger only, and only until it is opened again")
async def _check_foreign_epochs(environment: CheckEnvironment) -> None:
    store = await environment.open()
    started = CallStarted(at=1, call=CallRef(0, 0), attempt=1, epoch=MAX_COUNT)
    await store.append(
        "loaded", 0, [*make_messages(0), started, Opened(at=2, ledger_id="l", workflow="w", origin=Origin("other", 2, "copy"))]
    )
    await take_lease(store, "loaded")
    await store.append("made up", 0, [*make_messages(0), started])
    async with expect_error(StoreError, "a lease of a ledger whose facts name the largest epoch"):
        await store.lease("made up")
    for each in ("before", "after"):
        await store.append(each, 0, make_messages(0))
        await take_lease(store, each)
        await store.delete("made up")
    await store.append("made up", 0, make_messages(0))
    await take_lease(store, "made up")


@checks_rule(9, "a lease outlives appends of facts with larger epochs, and can be released after them")
async def _check_epochs_during_lease(environment: CheckEnvironment) -> None:
    store = await environment.open()
    lease = await take_lease(store, "s")
    await store.append("s", 0, [*make_messages(0), CallStarted(at=1, call=CallRef(0, 0), attempt=1, epoch=50)])
    expect(await store.lease("s"), None, "a second lease")
    await store.release(lease)
    await take_lease(store, "s", above=50)


@checks_rule(9, "releasing the lease of a deleted ledger does not affect a new ledger of that name")
async def _check_lease_of_deleted_ledger(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0))
    old = await take_lease(store, "s")
    await store.delete("s")
    await store.append("s", 0, make_messages(1))
    await take_lease(store, "s")
    await store.release(old, idle_at=1)
    expect(await store.lease("s"), None, "a second lease of the new ledger")


@checks_rule(9, "a lease has one holder at a time, and each lease has a larger epoch than every one before")
async def _check_lease(environment: CheckEnvironment) -> None:
    one, two = await environment.open(), await environment.open()
    await one.append("s", 0, make_messages(0))
    first = await take_lease(one, "s")
    expect((await one.lease("s"), await two.lease("s")), (None, None), "a second lease")
    other = await take_lease(two, "t")
    await one.release(first)
    second = await take_lease(two, "s", above=first.epoch)
    await one.release(first)
    expect(await one.lease("s"), None, "a lease after an old one was released again")
    for store, lease in ((two, second), (two, second), (two, other)):
        await store.release(lease)
    await take_lease(one, "s", above=second.epoch)


@checks_rule(9, "of many simultaneous requests exactly one gets the lease")
async def _check_lease_race(environment: CheckEnvironment) -> None:
    one, two = await environment.open(), await environment.open()
    epoch = 0
    for _ in range(5):
        results = await gather_outcomes((one, two)[i % 2].lease("s") for i in range(20))
        granted = [(i, result) for i, result in enumerate(results) if isinstance(result, Lease)]
        expect((len(granted), results.count(None)), (1, 19), "the number of leases granted and refused")
        [(i, lease)] = granted
        if lease.epoch <= epoch:
            raise ContractBroken(f"epoch {lease.epoch} came after {epoch}")
        epoch = lease.epoch
        await (one, two)[i % 2].release(lease)


@checks_rule(9, "a ledger may be leased before its first fact, and is invisible until then")
async def _check_lease_before_append(environment: CheckEnvironment) -> None:
    store = await environment.open()
    lease = await take_lease(store, "s")
    seen = await read_facts(store, "s"), list(await store.list()), await store.delete("s")
    expect(seen, ([], [], False), "a ledger only leased")
    expect(await store.lease("s"), None, "a second lease")
    expect(await store.append("s", 0, make_messages(0)), 1, "its first append")
    fork = await take_lease(store, "fork")
    await store.fork("s", 1, "fork", make_messages(1))
    expect(await read_facts(store, "fork"), make_messages(0, 1), "a fork that was leased before it was made")
    await store.release(lease)
    await store.release(fork)
    await take_lease(store, "s", above=lease.epoch)


@checks_rule(9, "the epochs of a fork begin above its parent's")
async def _check_fork_epochs(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0))
    lease = await take_lease(store, "s")
    for _ in range(5):
        await store.release(lease)
        lease = await take_lease(store, "s", above=lease.epoch)
    await store.fork("s", 1, "fork", make_messages(1))
    branch = await take_lease(store, "fork", above=lease.epoch)
    await store.fork("fork", 0, "fork of fork", make_messages(2))
    await take_lease(store, "fork of fork", above=branch.epoch)


@checks_rule(9, "the epochs of a ledger that was deleted and made again begin above those before")
async def _check_epochs_after_deletion(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0), ledger_id="s1")
    lease = await take_lease(store, "s")
    for _ in range(3):
        await store.release(lease)
        lease = await take_lease(store, "s", above=lease.epoch)
    await store.append("other", 0, make_messages(0))
    await store.delete("s")
    await store.append("s", 0, make_messages(0), ledger_id="s1")
    again = await take_lease(store, "s", above=lease.epoch)
    await store.delete("s")
    await store.fork("other", 1, "s", make_messages(1), ledger_id="s1")
    forked = await take_lease(store, "s", above=again.epoch)
    await store.delete("s")
    await take_lease(store, "s", above=forked.epoch)


@checks_rule(9, "a lease ends with the handle that held it")
async def _check_lease_of_closed_handle(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0))
    lease = await take_lease(store, "s")
    store = await environment.reopen()
    await take_lease(store, "s", above=lease.epoch)


@checks_rule(9, "a lease ends with the process that held it")
async def _check_lease_of_killed_process(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.start_other_process()
    await store.append("s", 0, make_messages(0))
    lease = await take_lease(store, "s")
    expect(await other.invoke("lease", "s"), None, "a lease in another process")
    await store.release(lease)
    _, epoch = await other.invoke("lease", "s")
    if epoch <= lease.epoch:
        raise ContractBroken(f"epoch {epoch} came after {lease.epoch}")
    expect(await store.lease("s"), None, "a lease that another process holds")
    await other.kill()
    deadline = time.monotonic() + DEATH_NOTICE_TIMEOUT_S
    while (next_lease := await store.lease("s")) is None and time.monotonic() < deadline:  # noqa: ASYNC110 - there is no notification
        await asyncio.sleep(0.05)
    if next_lease is None or next_lease.epoch <= epoch:
        raise ContractBroken(f"after its holder was killed: expected a lease with an epoch above {epoch}, found {next_lease}")


async def expect_wakeup(store: Store, ledger: str, position: int, wake: Callable[[], Awaitable[Any]], by: str) -> None:
    """Fail the check unless `wake` ends a wait within 5 seconds. `by` describes `wake`."""
    waiting = asyncio.ensure_future(store.wait(ledger, position, 10))
    await asyncio.sleep(0.05)
    expect(waiting.done(), False, f"a wait on {ledger!r} before anything was appended")
    started_at = time.monotonic()
    await wake()
    expect(await waiting, True, f"a wait ended by {by}")
    if time.monotonic() - started_at > 5:
        raise ContractBroken(f"a wait was ended by {by} only after {time.monotonic() - started_at:.1f} s")


@checks_rule(10, "wait ends when the ledger has grown, through this handle or another")
async def _check_wait(environment: CheckEnvironment) -> None:
    one, two = await environment.open(), await environment.open()
    await expect_wakeup(one, "s", 0, lambda: one.append("s", 0, make_messages(0)), "an append that created the ledger")
    expect(await one.wait("s", 0, 0), True, "a wait for a length that is reached already")
    await expect_wakeup(one, "s", 1, lambda: two.append("s", 1, make_messages(1)), "an append of another handle")
    await expect_wakeup(one, "fork", 1, lambda: two.fork("s", 1, "fork", make_messages(2)), "a fork")
    many = [asyncio.ensure_future(one.wait("s", position % 6, 10)) for position in range(300)]
    await asyncio.sleep(0)
    for position in range(2, 6):
        await two.append("s", position, make_messages(position))
    expect(await asyncio.gather(*many), [True] * 300, "many waits")


@checks_rule(10, "wait ends when another process appends")
async def _check_wait_for_other_process(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.start_other_process()
    await other.append("s", 0, make_messages(0))
    await expect_wakeup(store, "s", 1, lambda: other.append("s", 1, make_messages(1)), "an append of another process")


async def expect_notified(lengths: list[int], length: int, by: str) -> None:
    """Wait until a watcher got this length, and fail the check unless it is the last one. `by` describes the change."""
    deadline = time.monotonic() + 5
    while length not in lengths and time.monotonic() < deadline:  # noqa: ASYNC110 - the store's notification is what is checked
        await asyncio.sleep(0.01)
    expect(lengths[-1:], [length], f"the last length reported to a watcher after {by}")


@checks_rule(10, "watch reports every growth of the ledger, through this handle or another, until it is stopped")
async def _check_watch(environment: CheckEnvironment) -> None:
    one, two = await environment.open(), await environment.open()
    lengths: list[int] = []
    stop = one.watch("s", 0, lengths.append)
    for store, by in ((one, "its own append"), (two, "an append of another handle"), (one, "one more of its own")):
        length = len(lengths)
        await store.append("s", length, make_messages(length))
        await expect_notified(lengths, length + 1, by)
    expect(lengths, [1, 2, 3], "the lengths reported to a watcher")
    later: list[int] = []
    stop_later = one.watch("s", 1, later.append)
    await expect_notified(later, 3, "the facts from before the watch began")
    stop()
    await one.append("s", 3, make_messages(3))
    await one.append("t", 0, make_messages(0, 1, 2, 3, 4))
    await expect_notified(later, 4, "an append, and another to another ledger")
    stop_later()
    await asyncio.sleep(0.1)
    expect((lengths, later), ([1, 2, 3], [3, 4]), "the lengths reported to watchers that were stopped before the appends")


@checks_rule(10, "watch reports the appends of another process")
async def _check_watch_of_other_process(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.start_other_process()
    lengths: list[int] = []
    await other.append("s", 0, make_messages(0))
    stop = store.watch("s", 1, lengths.append)
    await other.append("s", 1, make_messages(1))
    await expect_notified(lengths, 2, "an append of another process")
    stop()


@checks_rule(10, "watch calls back once more when the store is closed")
async def _check_watch_of_closed_store(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0))
    lengths: list[int] = []
    store.watch("s", 1, lengths.append)
    await store.close()
    await asyncio.sleep(0)
    expect(len(lengths), 1, "the number of reports to the watcher of a store that is closed")


@checks_rule(10, "wait returns False when the time is over, and other ledgers do not end it")
async def _check_wait_timeout(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0))
    started_at = time.monotonic()
    waiting = asyncio.ensure_future(store.wait("s", 1, 0.2))
    await asyncio.sleep(0.02)
    await store.append("t", 0, make_messages(0, 1, 2))
    expect(await waiting, False, "a wait that times out")
    if not 0.15 < time.monotonic() - started_at < 5:
        raise ContractBroken(f"a wait of 0.2 s took {time.monotonic() - started_at:.2f} s")
    expect(await store.wait("unknown", 0, 0), False, "a wait of no time")
