"""Sentence 13 of the contract: which ledger a name means, when one was deleted and another made under it."""

from __future__ import annotations

from legato.errors import LedgerConflict, StoreError, UnknownLedger
from legato.stores.contract import Store
from legato.testing.store_checks.parts import facts_of, outcomes, proves, said
from legato.testing.store_checks.place import Place, expect, expect_error


async def _replace(store: Store, *numbers: int, born: str) -> None:
    await store.delete("s")
    await store.append("s", 0, said(*numbers), born=born)


@proves(13, "a ledger has the birth name that it was made with, and a fork has its own")
async def _names(place: Place) -> None:
    store, other = await place.open(), await place.open()
    await store.lease("leased first")
    expect((await store.born("unknown"), await store.born("leased first")), ("", ""), "the birth names of no ledgers")
    await store.append("s", 0, said(0), born="first")
    await store.append("leased first", 0, said(0), born="after the lease")
    await store.append("s", 1, said(1), born="first")
    await store.append("s", 2, said(2))
    async with expect_error(LedgerConflict, "an append that would have made it, and came too late"):
        await store.append("s", 0, said(9), born="too late")
    await store.fork("s", 2, "fork", said(10), born="branch", of="first")
    await store.fork("fork", 1, "fork of fork", [], born="twig", of="branch")
    await store.append("nameless", 0, said(0))
    await store.fork("s", 1, "nameless fork", said(10))
    named = {"s": "first", "leased first": "after the lease", "fork": "branch", "fork of fork": "twig"}
    wanted = {**named, "nameless": "", "nameless fork": ""}
    expect({name: await other.born(name) for name in wanted}, wanted, "the birth names")
    await store.delete("s")
    expect(await other.born("s"), "", "the birth name of a deleted ledger")
    await store.append("s", 0, said(0), born="second")
    expect(await other.born("s"), "second", "the birth name of the ledger that was made after it")
    await _replace(store, 0, born="")
    expect(await other.born("s"), "", "the birth name of one that was made without")
    expect(await facts_of(store, "s"), said(0), "its facts")


@proves(13, "whoever means a ledger that was deleted or replaced is refused, and nothing is written")
async def _refused(place: Place) -> None:
    store, other = await place.open(), await place.open()
    await store.append("s", 0, said(0, 1), contents={"d": b"old"}, born="first")
    new: tuple[tuple[str, list[int]], ...] = (("second", [5, 6]), ("third", [7, 8, 9]), ("fourth", [4]), ("", [2, 3]), ("", []))
    for born, numbers in new:
        what = f"a ledger that was replaced by one of {len(numbers)} facts, born {born!r}"
        await store.delete("s")
        if numbers:
            await store.append("s", 0, said(*numbers), born=born)
        for expected in (1, 2, 3, 4):
            async with expect_error(UnknownLedger, f"an append at {expected} to {what}"):
                await other.append("s", expected, said(99), contents={"late": b"late"}, durable=True, born="first")
        for start in (0, 2, 9):
            async with expect_error(UnknownLedger, f"a read from {start} of {what}"):
                await other.read("s", start, born="first")
        async with expect_error(UnknownLedger, f"a fork of {what}"):
            await other.fork("s", 1, "fork", said(99), born="branch", of="first")
        expect(await facts_of(store, "s"), said(*numbers), "the facts after the refusals")
        expect(await facts_of(store, "fork"), [], "a fork that was refused")
        async with expect_error(StoreError, "the content of a refused append"):
            await store.content("s", "late")
        expect(await store.born("s"), born, "the birth name after the refusals")
    await store.append("s", 0, said(0), born="last")
    expect(list(await other.read("s", born="last")), said(0), "a read by the right name")
    expect(await other.append("s", 1, said(1), born="last"), 2, "an append by the right name")
    async with expect_error(LedgerConflict, "an append by the right name at the wrong position"):
        await other.append("s", 1, said(1), born="last")
    expect(await other.append("s", 2, said(2)), 3, "an append that gives no name")
    expect(await store.fork("s", 3, "fork", [], of="last"), 3, "a fork by the right name")


@proves(13, "a ledger that is replaced at the very moment of an append, a read or a fork is never taken for the one before")
async def _race(place: Place) -> None:
    one, two = await place.open(), await place.open()
    for round in range(20):
        old, new = f"old {round}", f"new {round}"
        await _replace(one, 0, 1, born=old)
        appended, seen, forked, _ = await outcomes(
            (
                two.append("s", 2, said(99), born=old),
                two.read("s", born=old),
                two.fork("s", 2, f"fork {round}", said(50), of=old),
                _replace(one, 5, 6, born=new),
            )
        )
        expect(await facts_of(one, "s"), said(5, 6), f"the new ledger, of which nobody else knew (the append: {appended})")
        if not isinstance(seen, UnknownLedger):
            expect(list(seen)[:2], said(0, 1), "what was read of the old one")
        if not isinstance(forked, UnknownLedger):
            expect(await facts_of(one, f"fork {round}"), said(0, 1, 50), "a fork of the old one")


@proves(13, "birth names are there after reopening")
async def _reopened(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0, 1), born="first")
    await store.fork("s", 1, "fork", said(10), born="branch")
    store = await place.reopen()
    expect((await store.born("s"), await store.born("fork")), ("first", "branch"), "the birth names")
    async with expect_error(UnknownLedger, "an append by another name"):
        await store.append("s", 2, said(2), born="another")
    expect(await store.append("s", 2, said(2), born="first"), 3, "an append by the right name")


@proves(13, "a ledger that another process replaced is another one")
async def _other_process(place: Place) -> None:
    store, other = await place.open(), await place.other_process()
    await store.append("s", 0, said(0, 1), born="first")
    expect(await other.ask("born", "s"), "first", "the birth name in another process")
    expect(len(await store.read("s", born="first")), 2, "the facts before")
    await other.ask("delete", "s")
    await other.append("s", 0, said(5, 6))
    async with expect_error(UnknownLedger, "a read of what another process replaced"):
        await store.read("s", 2, born="first")
    async with expect_error(UnknownLedger, "an append to what another process replaced"):
        await store.append("s", 2, said(2), born="first")
    expect(await facts_of(store, "s"), said(5, 6), "the new ledger")
