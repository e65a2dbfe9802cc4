"""Checks of rule 14: one store for several tenants, each with its own ledgers."""

from __future__ import annotations

import asyncio

from legato.errors import BadInput, LedgerConflict, LedgerExists, StoreError, UnknownLedger
from legato.stores.contract import Store
from legato.testing.store_checks.check_environment import CheckEnvironment, expect, expect_error
from legato.testing.store_checks.check_helpers import checks_rule, make_messages, read_facts, take_lease
from legato.testing.store_checks.lease_and_watch_checks import expect_wakeup

TENANT_NAMES = ("acme", "ACME", "acme-wal", "acme-leases", "a/../acme", "ä b%", "acme'; --", "x" * 200)


async def _list_names(store: Store) -> list[str]:
    return sorted(info.ledger for info in [*await store.list(), *await store.list_runnable()])


@checks_rule(14, "each tenant, and the store without a tenant, has its own ledgers under the same names")
async def _check_tenants_are_apart(environment: CheckEnvironment) -> None:
    store = await environment.open()
    everyone = [store, *map(store.tenant, TENANT_NAMES)]
    for number, one in enumerate(everyone):
        expect(await read_facts(one, "s"), [], "a ledger that only other tenants have")
        expect(
            await one.append("s", 0, make_messages(number), contents={"d": b"%d" % number}, ledger_id=f"born {number}"), 1, "a first append"
        )
        await one.append("s", 1, make_messages(number + 100), ledger_id=f"born {number}")
    for number, one in enumerate(everyone):
        expect(await read_facts(one, "s"), make_messages(number, number + 100), "a tenant's facts")
        expect(await one.ledger_id("s"), f"born {number}", "a tenant's ledger id")
        expect(await one.content("s", "d"), b"%d" % number, "a tenant's content")
        expect(await _list_names(one), ["s", "s"], "a tenant's lists")
    again, other = store.tenant("acme"), await environment.open()
    expect(await read_facts(again, "s"), make_messages(1, 101), "the facts of a tenant whose store is requested again")
    expect(await read_facts(other.tenant("ACME"), "s"), make_messages(2, 102), "a tenant's facts through another handle")


@checks_rule(14, "no tenant can see or reach the ledgers of another")
async def _check_tenants_are_invisible(environment: CheckEnvironment) -> None:
    store = await environment.open()
    one, two = store.tenant("one"), store.tenant("two")
    await one.append("s", 0, make_messages(0, 1), contents={"d": b"one"}, ledger_id="first")
    await one.append("only one's", 0, make_messages(5))
    for other in (store, two):
        expect(await _list_names(other), [], "another tenant's lists")
        expect(
            (await other.ledger_id("s"), await other.delete("s"), await other.wait("s", 0, 0)),
            ("", False, False),
            "another tenant's ledger",
        )
        async with expect_error(UnknownLedger, "another tenant's content"):
            await other.content("s", "d")
        async with expect_error(UnknownLedger, "a fork of another tenant's ledger"):
            await other.fork("s", 1, "mine", [])
        async with expect_error(LedgerConflict, "an append to another tenant's ledger"):
            await other.append("s", 2, make_messages(9))
        async with expect_error(UnknownLedger, "an append to another tenant's ledger by its id"):
            await other.append("s", 2, make_messages(9), ledger_id="first")
    await two.append("s", 0, make_messages(7))
    async with expect_error(StoreError, "another tenant's content under the same name"):
        await two.content("s", "d")
    expect(await one.fork("s", 1, "fork", make_messages(10)), 2, "a fork onto a name that is free")
    expect(await two.fork("s", 1, "fork", make_messages(20)), 2, "a fork onto a name that another tenant has")
    async with expect_error(LedgerExists, "a fork onto a name that is taken"):
        await two.fork("s", 1, "fork", [])
    expect(await two.delete("s"), True, "a deletion")
    expect(await read_facts(one, "s"), make_messages(0, 1), "another tenant's ledger of that name")
    expect(await read_facts(one, "fork"), make_messages(0, 10), "a fork of it")
    expect(await read_facts(two, "fork"), make_messages(7, 20), "the other tenant's fork")


@checks_rule(14, "leases and waits of one tenant do not affect another's")
async def _check_leases_of_tenants(environment: CheckEnvironment) -> None:
    store = await environment.open()
    one, two = store.tenant("one"), store.tenant("two")
    leases = [await take_lease(each, "s") for each in (store, one, two)]
    expect(await one.lease("s"), None, "a second lease of the same tenant")
    await two.release(leases[2])
    expect(await one.lease("s"), None, "a lease after another tenant's was released")
    await take_lease(two, "s", above=leases[2].epoch)
    waiting = asyncio.ensure_future(one.wait("s", 0, 0.3))
    await asyncio.sleep(0.02)
    await two.append("s", 0, make_messages(0, 1))
    await store.append("s", 0, make_messages(0, 1))
    expect(await waiting, False, "a wait that appends of other tenants must not end")
    await expect_wakeup(one, "s", 0, lambda: one.append("s", 0, make_messages(0)), "an append of the same tenant")


@checks_rule(14, "a tenant's store has no tenants, and ends with the store that it came from")
async def _check_tenant_scope(environment: CheckEnvironment) -> None:
    store = await environment.open()
    one = store.tenant("one")
    async with expect_error(BadInput, "a tenant of a tenant"):
        one.tenant("two")
    for wrong in ("", "a\x00b", "a\nb", "x" * 201):
        async with expect_error(BadInput, f"a tenant named {wrong[:5]!r}"):
            store.tenant(wrong)
    await one.append("s", 0, make_messages(0))
    await one.close()
    expect(await one.append("s", 1, make_messages(1)), 2, "an append after a tenant's store was closed")
    await store.close()
    async with expect_error(StoreError, "a tenant's store after the store that it came from was closed"):
        await one.append("s", 2, make_messages(2))


@checks_rule(14, "tenants are there after reopening, each with its own ledgers")
async def _check_tenants_after_reopening(environment: CheckEnvironment) -> None:
    store = await environment.open()
    for number, name in enumerate(TENANT_NAMES):
        await store.tenant(name).append("s", 0, make_messages(number))
    store = await environment.reopen()
    for number, name in enumerate(TENANT_NAMES):
        expect(await read_facts(store.tenant(name), "s"), make_messages(number), f"the facts of {name!r}")
    expect(await _list_names(store), [], "the ledgers without a tenant")
