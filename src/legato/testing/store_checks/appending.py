"""Sentences 1 to 5 and 8 of the contract: appending, reading, contents, listing."""

from __future__ import annotations

import asyncio
import time

from legato.errors import BadInput, LedgerConflict, StoreError, UnknownLedger
from legato.testing.store_checks.parts import facts_of, one_of_each, outcomes, proves, said
from legato.testing.store_checks.place import Place, Unmet, expect, expect_error


@proves(1, "every kind of fact is read back as it was written, in order")
async def _round_trip(place: Place) -> None:
    store = await place.open()
    facts = one_of_each()
    expect(await store.append("s", 0, facts[:5]), 5, "append returns the new length")
    expect(await store.append("s", 5, facts[5:], durable=True), len(facts), "append returns the new length")
    expect(await facts_of(store, "s"), facts, "the facts")


@proves(1, "an append at the wrong position writes nothing and says what was found")
async def _conflict(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(0, 1))
    for ledger, expected, found in (("s", 0, 2), ("s", 1, 2), ("s", 3, 2), ("other", 1, 0)):
        try:
            await store.append(ledger, expected, said(9))
        except LedgerConflict as conflict:
            expect((conflict.expected_position, conflict.found_position), (expected, found), "what the conflict says")
        else:
            raise Unmet(f"an append at {expected} to {found} facts was taken")
    expect(await facts_of(store, "s"), said(0, 1), "the facts after refused appends")
    expect(await facts_of(store, "other"), [], "a ledger that was only refused")
    expect([info.ledger for info in await store.list()], ["s"], "the ledgers")


@proves(1, "of many appends that race for one position exactly one is recorded")
async def _race(place: Place) -> None:
    one, two = await place.open(), await place.open()
    for round in range(5):
        results = await outcomes((one, two)[i % 2].append("s", round, said(100 * round + i)) for i in range(20))
        won = [i for i, result in enumerate(results) if result == round + 1]
        lost = [result for result in results if isinstance(result, LedgerConflict)]
        expect((len(won), len(lost)), (1, 19), f"winners and losers of round {round} (of {results[:3]} ...)")
        expect(await facts_of(two, "s", round), said(100 * round + won[0]), "the fact recorded")


@proves(1, "an append of several facts is never seen in part")
async def _whole(place: Place) -> None:
    writer, reader = await place.open(), await place.open()

    async def write() -> None:
        for batch in range(30):
            await writer.append("s", 5 * batch, said(*range(5)))

    writing = asyncio.ensure_future(write())
    while not writing.done():
        expect(len(await reader.read("s")) % 5, 0, "facts of an unfinished append")
        await asyncio.sleep(0)
    await writing
    expect(await facts_of(reader, "s"), said(*range(5)) * 30, "the facts")


@proves(2, "what one handle acknowledged, every other reads at once")
async def _other_handle(place: Place) -> None:
    one, two = await place.open(), await place.open()
    for position in range(20):
        writer, reader = (one, two) if position % 2 else (two, one)
        await writer.append("s", position, said(position), contents={str(position): b"%d" % position})
        expect(await facts_of(reader, "s", position), said(position), "the fact just acknowledged")
        expect(await reader.content("s", str(position)), b"%d" % position, "the content just acknowledged")


@proves(2, "facts, contents, forks, order and epochs are there after reopening")
async def _reopening(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(*range(5)), contents={"d": b"body"})
    await store.fork("s", 3, "fork", said(50))
    await store.append("s", 5, said(5))
    lease = await store.lease("s")
    store = await place.reopen()
    expect(await facts_of(store, "s"), said(*range(6)), "the facts")
    expect(await facts_of(store, "fork"), said(0, 1, 2, 50), "the fork's facts")
    expect(await store.content("fork", "d"), b"body", "the content")
    expect([info.ledger for info in await store.list()], ["s", "fork"], "the ledgers")
    later = await store.lease("s")
    if lease is None or later is None or later.epoch <= lease.epoch:
        raise Unmet(f"a lease after reopening: expected one with an epoch above that of {lease}, found {later}")
    expect(await store.append("s", 6, said(6)), 7, "appending goes on")


@proves(2, "what a process acknowledged is there after it was killed")
async def _killed(place: Place) -> None:
    other = await place.other_process()
    for position in range(10):
        await other.append("s", position, said(position))
    await other.kill()
    expect(await facts_of(await place.open(), "s"), said(*range(10)), "the facts")


@proves(3, "read gives the facts from `start` on, and nothing for what is not there")
async def _start(place: Place) -> None:
    store = await place.open()
    await store.append("s", 0, said(*range(10)))
    for start in range(12):
        expect(await facts_of(store, "s", start), said(*range(start, 10)), f"read from {start}")
    expect(await facts_of(store, "unknown"), [], "an unknown ledger")
    async with expect_error(BadInput, "a negative start"):
        await store.read("s", -1)


@proves(3, "ledgers are kept apart, whatever their names")
async def _apart(place: Place) -> None:
    store = await place.open()
    names = ["a", "A", "a ", "ä", "a'; --", "a/../b", "%", "_", "a\nb", "\U0001f3b5", "x" * 500]
    for number, name in enumerate(names):
        await store.append(name, 0, said(number))
        await store.append(name, 1, said(number + 100))
    for number, name in enumerate(names):
        expect(await facts_of(store, name), said(number, number + 100), f"the facts of {name!r}")
    expect([info.ledger for info in await store.list()], names[::-1], "the ledgers")


@proves(3, "what read returned stays as it was when more is appended")
async def _snapshot(place: Place) -> None:
    store = await place.open()
    given = said(0, 1)
    await store.append("s", 0, given)
    given.clear()
    before = await store.read("s")
    await store.append("s", 2, said(2))
    expect(list(before), said(0, 1), "what was read before")
    expect(await facts_of(store, "s"), said(0, 1, 2), "what is read now")


@proves(4, "an append to a long ledger costs what one to a short ledger costs")
async def _cost(place: Place) -> None:
    store = await place.open()
    await store.append("long", 0, said(*range(20_000)))
    seconds: dict[str, float] = {}
    for ledger, length in (("short", 0), ("long", 20_000)):
        for position in range(length, length + 30):
            began = time.perf_counter()
            await store.append(ledger, position, said(position))
            seconds[ledger] = min(seconds.get(ledger, 1e9), time.perf_counter() - began)
    if seconds["long"] > 10 * seconds["short"] + 0.001:
        raise Unmet(f"best of 30: {seconds['short'] * 1e6:.0f} us at length 0, {seconds['long'] * 1e6:.0f} us at 20,000")


@proves(5, "contents are recorded with their append, once per digest, or not at all")
async def _contents(place: Place) -> None:
    store = await place.open()
    large = bytes(range(256)) * 1000
    await store.append("s", 0, said(0), contents={"one": b"1", "large": large, "empty": b""})
    await store.append("s", 1, said(1), contents={"one": b"another"})
    async with expect_error(LedgerConflict, "an append at the wrong position"):
        await store.append("s", 1, said(2), contents={"refused": b"2"})
    for digest, body in (("one", b"1"), ("large", large), ("empty", b"")):
        expect(await store.content("s", digest), body, f"content {digest!r}")
    async with expect_error(StoreError, "the content of a refused append"):
        await store.content("s", "refused")
    await store.append("t", 0, said(0))
    async with expect_error(StoreError, "another ledger's content"):
        await store.content("t", "one")
    async with expect_error(UnknownLedger, "the content of an unknown ledger"):
        await store.content("unknown", "one")


@proves(8, "list gives the ledgers, the most recently appended first")
async def _list(place: Place) -> None:
    store = await place.open()
    expect(list(await store.list()), [], "the ledgers of an empty store")
    for name in "abcd":
        await store.append(name, 0, said(5))
    await store.append("b", 1, said(2))  # the order is that of appending, not that of the facts' times
    await store.fork("a", 1, "e", said(1))
    await store.lease("only leased")
    await store.read("c")
    found = [(info.ledger, info.length, info.updated, info.parent) for info in await store.list()]
    wanted = [("e", 2, 1001, "a"), ("b", 2, 1002, ""), ("d", 1, 1005, ""), ("c", 1, 1005, ""), ("a", 1, 1005, "")]
    expect(found, wanted, "the ledgers")
    expect([info.ledger for info in await store.list(limit=2)], ["e", "b"], "the two most recent")


@proves(8, "a list that is gone on with behind its last line gives each ledger that did not grow, once, whatever becomes of that line's")
async def _pages(place: Place) -> None:
    store, other = await place.open(), await place.open()
    for name in "abcdefg":
        await store.append(name, 0, said(0))
    first = await store.list(2)
    expect([info.ledger for info in first], ["g", "f"], "the two most recent")
    await other.append("f", 1, said(1))
    second = await other.list(2, first[-1])
    expect([info.ledger for info in second], ["e", "d"], "the next two, as another sees them, when the last has grown")
    await store.delete("d")
    await store.append("new", 0, said(0))
    third = await store.list(2, second[-1])
    expect([info.ledger for info in third], ["c", "b"], "those behind one that is deleted; what is new is at the front")
    expect([info.ledger for info in await store.list(2, third[-1])], ["a"], "what is left")
    expect(list(await store.list(2, (await store.list())[-1])), [], "what is behind the last")
    expect(list(await other.list()), list(await store.list()), "the lines, as another sees them")
