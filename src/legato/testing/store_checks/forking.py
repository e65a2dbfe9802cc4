"""Sentences 6 and 7 of the contract: forks, and deletion."""

from __future__ import annotations

from legato.errors import BadInput, LedgerConflict, LedgerExists, StoreError, UnknownLedger
from legato.testing.store_checks.parts import facts_of, outcomes, proves, said
from legato.testing.store_checks.place import Place, expect, expect_error


@proves(6, "a fork begins with what lies before it, wherever it is made, and goes on with its own facts")
async def _forks(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(*range(6)))
    for at in range(7):
        expect(await store.fork("s", at, f"fork {at}", said(10)), at + 1, "fork returns the new length")
        expect(await facts_of(store, f"fork {at}"), [*said(*range(at)), *said(10)], f"a fork at {at}")
        for again in range(at + 2):
            name = f"fork {at} {again}"
            expect(await store.fork(f"fork {at}", again, name, said(20)), again + 1, "fork returns the new length")
            whole = [*[*said(*range(at)), *said(10)][:again], *said(20)]
            for start in range(again + 2):
                expect(await facts_of(store, name, start), whole[start:], f"a fork at {again} of a fork at {at}, from {start}")
    expect(await store.fork("s", 4, "bare", []), 4, "a fork without facts of its own")
    expect(await facts_of(store, "bare"), said(*range(4)), "a fork without facts of its own")


@proves(6, "neither branch sees what the other appends afterwards")
async def _branches(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0, 1, 2))
    await store.fork("s", 3, "end", [])
    await store.fork("s", 1, "middle", said(10))
    await store.append("s", 3, said(3), contents={"late": b"late"})
    await store.append("end", 3, said(30), contents={"own": b"own"})
    await store.append("middle", 2, said(20))
    expect(await facts_of(store, "s"), said(0, 1, 2, 3), "the parent")
    expect(await facts_of(store, "end"), said(0, 1, 2, 30), "the fork at the end")
    expect(await facts_of(store, "middle"), said(0, 10, 20), "the fork in the middle")
    for ledger, digest in (("end", "late"), ("s", "own"), ("middle", "own")):
        async with expect_error(StoreError, f"content {digest!r} in {ledger!r}"):
            await store.content(ledger, digest)


@proves(6, "a fork shares the contents recorded before it")
async def _shared_contents(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0), contents={"early": b"1"})
    await store.append("s", 1, said(1), contents={"later": b"2"})
    await store.fork("s", 2, "a", said(10))
    await store.fork("a", 3, "b", said(20))
    await store.fork("s", 1, "c", said(30))
    for ledger, digest, body in (("a", "early", b"1"), ("b", "later", b"2"), ("c", "early", b"1")):
        expect(await store.content(ledger, digest), body, f"content {digest!r} of {ledger!r}")
    async with expect_error(StoreError, "content recorded after the fork's point"):
        await store.content("c", "later")
    await store.fork("s", 1, "d", said(40), contents={"early": b"other", "new": b"3"})
    expect((await store.content("d", "early"), await store.content("d", "new")), (b"1", b"3"), "the contents of the fork's first facts")
    async with expect_error(StoreError, "content that a fork began with"):
        await store.content("s", "new")
    await store.append("c", 2, said(31), contents={"later": b"own"})
    expect(await store.content("c", "later"), b"own", "the fork's own content")
    expect(await store.content("s", "later"), b"2", "the parent's content")


@proves(6, "a fork that cannot be made is refused and writes nothing")
async def _refused_forks(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0, 1))
    await store.append("t", 0, said(5))
    async with expect_error(LedgerExists, "a fork onto another ledger"):
        await store.fork("s", 1, "t", said(9))
    async with expect_error(LedgerExists, "a fork onto itself"):
        await store.fork("s", 1, "s", said(9))
    async with expect_error(UnknownLedger, "a fork of an unknown ledger"):
        await store.fork("unknown", 0, "u", said(9))
    for at in (3, -1):
        async with expect_error(BadInput, f"a fork at {at} of 2 facts"):
            await store.fork("s", at, "u", said(9))
    for expected in (1, 3):
        async with expect_error(LedgerConflict, f"a fork of 2 facts by who believes that there are {expected}"):
            await store.fork("s", 1, "u", said(9), expected=expected)
    async with expect_error(UnknownLedger, "a fork of an unknown ledger by who believes that it has facts"):
        await store.fork("unknown", 0, "u", said(9), expected=3)
    expect([await facts_of(store, name) for name in "stu"], [said(0, 1), said(5), []], "the facts")
    expect(await store.fork("s", 1, "u", said(9), expected=2), 2, "a fork of as many facts as its maker believes")


@proves(6, "a long chain of forks is read like one ledger")
async def _chain(place: Place) -> None:
    store = await place.open()
    await store.append("0", 0, said(0))
    for number in range(1, 60):
        await store.fork(str(number - 1), number, str(number), said(number))
    for start in (0, 1, 30, 58, 59, 60):
        expect(await facts_of(store, "59", start), said(*range(start, 60)), f"the end of the chain, from {start}")
    for number in range(60, 90):  # 'try that again': forks of forks at one and the same point
        await store.fork(str(number - 1), 30, str(number), said(number))
    expect(await facts_of(store, "89"), said(*range(30), 89), "forks at the same point")


@proves(7, "a deleted ledger is gone, and its name may be used again")
async def _delete(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0, 1), contents={"d": b"body"})
    await store.append("t", 0, said(5))
    expect(await store.delete("s"), True, "delete of what is there")
    expect(await store.delete("s"), False, "delete of what is not there")
    expect(await facts_of(store, "s"), [], "the deleted ledger")
    expect([info.ledger for info in await store.list()], ["t"], "the ledgers")
    async with expect_error(UnknownLedger, "the content of a deleted ledger"):
        await store.content("s", "d")
    async with expect_error(LedgerConflict, "an append that believes it is still there"):
        await store.append("s", 2, said(2))
    expect(await store.append("s", 0, said(7)), 1, "an append under its name")
    expect(await facts_of(store, "s"), said(7), "the new ledger")
    async with expect_error(StoreError, "the content of the ledger before"):
        await store.content("s", "d")


@proves(7, "a ledger that has grown, or is another one, is not deleted by whoever does not know")
async def _delete_expected(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0, 1), born="first")
    async with expect_error(LedgerConflict, "a deletion of one fact where there are two"):
        await store.delete("s", expected={"s": 1})
    async with expect_error(UnknownLedger, "a deletion of a ledger that was born in another way"):
        await store.delete("s", expected={"s": 2}, born="another")
    async with expect_error(UnknownLedger, "a deletion of a ledger that is not there"):
        await store.delete("t", born="first")
    expect(await facts_of(store, "s"), said(0, 1), "the facts")
    expect(await store.delete("t", expected={"t": 2}), False, "a deletion where there is nothing")
    results = await outcomes([store.append("s", 2, said(2), born="first"), store.delete("s", expected={"s": 2}, born="first")])
    expect(sum(isinstance(result, StoreError) for result in results), 1, "how many of an append and a deletion that race are refused")
    expect(await facts_of(store, "s"), said(0, 1, 2) if results[0] == 3 else [], "what is there then")


@proves(7, "what forks share stays readable when the ledgers they came from are deleted")
async def _delete_shared(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(*range(5)), contents={"d": b"body"})
    await store.fork("s", 4, "a", said(10, 11))
    await store.fork("a", 5, "b", said(20))
    await store.fork("a", 2, "c", said(30))
    for deleted in ("s", "a"):
        await store.delete(deleted)
        expect(await facts_of(store, deleted), [], "the deleted ledger")
        expect(await facts_of(store, "b"), said(0, 1, 2, 3, 10, 20), "a fork of a fork")
        expect(await facts_of(store, "c"), said(0, 1, 30), "another")
        expect(await store.content("b", "d"), b"body", "shared content")
    await store.append("s", 0, said(70))
    await store.fork("s", 1, "a", said(71))
    expect(await facts_of(store, "b"), said(0, 1, 2, 3, 10, 20), "a fork, when its parent's name is used again")
    expect({info.ledger: info.parent for info in await store.list()}, {"a": "s", "s": "", "b": "", "c": ""}, "the parents")
    await store.delete("b")
    expect(await facts_of(store, "c"), said(0, 1, 30), "a fork, when its sibling is deleted")
    expect(await store.append("c", 3, said(31)), 4, "appending to it")
