"""Sentence 14 of the contract: one store for several tenants, who do not know of one another."""

from __future__ import annotations

import asyncio

from legato.errors import BadInput, LedgerConflict, LedgerExists, StoreError, UnknownLedger
from legato.stores.contract import Store
from legato.testing.store_checks.driving import woken
from legato.testing.store_checks.parts import facts_of, granted, proves, said
from legato.testing.store_checks.place import Place, expect, expect_error

NAMES = ("acme", "ACME", "acme-wal", "acme-leases", "a/../acme", "ä b%", "acme'; --", "x" * 200)


async def _names(store: Store) -> list[str]:
    return sorted(info.ledger for info in [*await store.list(), *await store.unrested()])


@proves(14, "ledgers of one name belong to each tenant by itself, and to the store without one")
async def _apart(place: Place) -> None:
    store = await place.open()
    everyone = [store, *map(store.tenant, NAMES)]
    for number, one in enumerate(everyone):
        expect(await facts_of(one, "s"), [], "a ledger that only others have")
        expect(await one.append("s", 0, said(number), contents={"d": b"%d" % number}, born=f"born {number}"), 1, "a first append")
        await one.append("s", 1, said(number + 100), born=f"born {number}")
    for number, one in enumerate(everyone):
        expect(await facts_of(one, "s"), said(number, number + 100), "a tenant's facts")
        expect(await one.born("s"), f"born {number}", "a tenant's birth name")
        expect(await one.content("s", "d"), b"%d" % number, "a tenant's content")
        expect(await _names(one), ["s", "s"], "a tenant's lists")
    again, other = store.tenant("acme"), await place.open()
    expect(await facts_of(again, "s"), said(1, 101), "the facts of a tenant that is asked for again")
    expect(await facts_of(other.tenant("ACME"), "s"), said(2, 102), "a tenant's facts through another handle")


@proves(14, "what one tenant does, no other sees or can reach")
async def _unseen(place: Place) -> None:
    store = await place.open()
    one, two = store.tenant("one"), store.tenant("two")
    await one.append("s", 0, said(0, 1), contents={"d": b"one"}, born="first")
    await one.append("only one's", 0, said(5))
    for other in (store, two):
        expect(await _names(other), [], "another tenant's lists")
        expect((await other.born("s"), await other.delete("s"), await other.wait("s", 0, 0)), ("", False, False), "another tenant's ledger")
        async with expect_error(UnknownLedger, "another tenant's content"):
            await other.content("s", "d")
        async with expect_error(UnknownLedger, "a fork of another tenant's ledger"):
            await other.fork("s", 1, "mine", [])
        async with expect_error(LedgerConflict, "an append to another tenant's ledger"):
            await other.append("s", 2, said(9))
        async with expect_error(UnknownLedger, "an append to another tenant's ledger by its birth name"):
            await other.append("s", 2, said(9), born="first")
    await two.append("s", 0, said(7))
    async with expect_error(StoreError, "another tenant's content under the same name"):
        await two.content("s", "d")
    expect(await one.fork("s", 1, "fork", said(10)), 2, "a fork onto a name that is free")
    expect(await two.fork("s", 1, "fork", said(20)), 2, "a fork onto a name that another tenant has")
    async with expect_error(LedgerExists, "a fork onto a name that is taken"):
        await two.fork("s", 1, "fork", [])
    expect(await two.delete("s"), True, "a deletion")
    expect(await facts_of(one, "s"), said(0, 1), "what another tenant has under that name")
    expect(await facts_of(one, "fork"), said(0, 10), "a fork of it")
    expect(await facts_of(two, "fork"), said(7, 20), "the other tenant's fork")


@proves(14, "leases and waits of one tenant do not touch another's")
async def _driving(place: Place) -> None:
    store = await place.open()
    one, two = store.tenant("one"), store.tenant("two")
    leases = [await granted(each, "s") for each in (store, one, two)]
    expect(await one.lease("s"), None, "a second lease of the same tenant")
    await two.release(leases[2])
    expect(await one.lease("s"), None, "a lease after another tenant's was released")
    await granted(two, "s", above=leases[2].epoch)
    waiting = asyncio.ensure_future(one.wait("s", 0, 0.3))
    await asyncio.sleep(0.02)
    await two.append("s", 0, said(0, 1))
    await store.append("s", 0, said(0, 1))
    expect(await waiting, False, "a wait that others' appends must not end")
    await woken(one, "s", 0, lambda: one.append("s", 0, said(0)), "an append of the same tenant")


@proves(14, "whose ledgers are meant is decided where a store is opened: a tenant's store has no tenants, and ends with its own")
async def _scope(place: Place) -> None:
    store = await place.open()
    one = store.tenant("one")
    async with expect_error(BadInput, "a tenant of a tenant"):
        one.tenant("two")
    for wrong in ("", "a\x00b", "a\nb", "x" * 201):
        async with expect_error(BadInput, f"a tenant named {wrong[:5]!r}"):
            store.tenant(wrong)
    await one.append("s", 0, said(0))
    await one.close()
    expect(await one.append("s", 1, said(1)), 2, "an append after a tenant's store was closed")
    await store.close()
    async with expect_error(StoreError, "a tenant's store after the one it came from was closed"):
        await one.append("s", 2, said(2))


@proves(14, "tenants are there after reopening, each with its own")
async def _reopened(place: Place) -> None:
    store = await place.open()
    for number, name in enumerate(NAMES):
        await store.tenant(name).append("s", 0, said(number))
    store = await place.reopen()
    for number, name in enumerate(NAMES):
        expect(await facts_of(store.tenant(name), "s"), said(number), f"the facts of {name!r}")
    expect(await _names(store), [], "the ledgers of nobody in particular")
