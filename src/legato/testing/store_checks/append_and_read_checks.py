"""Checks of rules 1 to 5 and 8: appending, reading, contents, listing."""

from __future__ import annotations

import asyncio
import time

from legato.errors import BadInput, LedgerConflict, StoreError, UnknownLedger
from legato.testing.store_checks.check_environment import CheckEnvironment, ContractBroken, expect, expect_error
from legato.testing.store_checks.check_helpers import checks_rule, gather_outcomes, make_messages, make_one_of_each_fact, read_facts


@checks_rule(1, "every kind of fact is read back as it was written, in order")
async def _check_round_trip(environment: CheckEnvironment) -> None:
    store = await environment.open()
    facts = make_one_of_each_fact()
    expect(await store.append("s", 0, facts[:5]), 5, "append returns the new length")
    expect(await store.append("s", 5, facts[5:], durable=True), len(facts), "append returns the new length")
    expect(await read_facts(store, "s"), facts, "the facts")


@checks_rule(1, "an append at the wrong position writes nothing and names the position found")
async def _check_wrong_position(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0, 1))
    for ledger, expected, length in (("s", 0, 2), ("s", 1, 2), ("s", 3, 2), ("other", 1, 0)):
        try:
            await store.append(ledger, expected, make_messages(9))
        except LedgerConflict as conflict:
            expect((conflict.expected_position, conflict.found_position), (expected, length), "the positions in the conflict")
        else:
            raise ContractBroken(f"an append at {expected} to {length} facts was accepted")
    expect(await read_facts(store, "s"), make_messages(0, 1), "the facts after refused appends")
    expect(await read_facts(store, "other"), [], "a ledger to which every append was refused")
    expect([info.ledger for info in await store.list()], ["s"], "the ledgers")


@checks_rule(1, "of many appends that race for one position exactly one is recorded")
async def _check_append_race(environment: CheckEnvironment) -> None:
    one, two = await environment.open(), await environment.open()
    for round in range(5):
        results = await gather_outcomes((one, two)[i % 2].append("s", round, make_messages(100 * round + i)) for i in range(20))
        winners = [i for i, result in enumerate(results) if result == round + 1]
        losers = [result for result in results if isinstance(result, LedgerConflict)]
        expect((len(winners), len(losers)), (1, 19), f"winners and losers of round {round} (of {results[:3]} ...)")
        expect(await read_facts(two, "s", round), make_messages(100 * round + winners[0]), "the recorded fact")


@checks_rule(1, "an append of several facts is never read in part")
async def _check_append_is_atomic(environment: CheckEnvironment) -> None:
    writer, reader = await environment.open(), await environment.open()

    async def write() -> None:
        for batch in range(30):
            await writer.append("s", 5 * batch, make_messages(*range(5)))

    writing = asyncio.ensure_future(write())
    while not writing.done():
        expect(len(await reader.read("s")) % 5, 0, "facts of an unfinished append")
        await asyncio.sleep(0)
    await writing
    expect(await read_facts(reader, "s"), make_messages(*range(5)) * 30, "the facts")


@checks_rule(2, "an acknowledged append is read at once by every other handle")
async def _check_other_handle(environment: CheckEnvironment) -> None:
    one, two = await environment.open(), await environment.open()
    for position in range(20):
        writer, reader = (one, two) if position % 2 else (two, one)
        await writer.append("s", position, make_messages(position), contents={str(position): b"%d" % position})
        expect(await read_facts(reader, "s", position), make_messages(position), "the fact just acknowledged")
        expect(await reader.content("s", str(position)), b"%d" % position, "the content just acknowledged")


@checks_rule(2, "facts, contents, forks, order and epochs are there after reopening")
async def _check_reopening(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(*range(5)), contents={"d": b"body"})
    await store.fork("s", 3, "fork", make_messages(50))
    await store.append("s", 5, make_messages(5))
    lease = await store.lease("s")
    store = await environment.reopen()
    expect(await read_facts(store, "s"), make_messages(*range(6)), "the facts")
    expect(await read_facts(store, "fork"), make_messages(0, 1, 2, 50), "the fork's facts")
    expect(await store.content("fork", "d"), b"body", "the content")
    expect([info.ledger for info in await store.list()], ["s", "fork"], "the ledgers")
    later = await store.lease("s")
    if lease is None or later is None or later.epoch <= lease.epoch:
        raise ContractBroken(f"a lease after reopening: expected one with an epoch above that of {lease}, found {later}")
    expect(await store.append("s", 6, make_messages(6)), 7, "appending goes on")


@checks_rule(2, "what a process acknowledged is there after it was killed")
async def _check_killed_process(environment: CheckEnvironment) -> None:
    other = await environment.start_other_process()
    for position in range(10):
        await other.append("s", position, make_messages(position))
    await other.kill()
    expect(await read_facts(await environment.open(), "s"), make_messages(*range(10)), "the facts")


@checks_rule(3, "read returns the facts from `start` on, and nothing from an unknown ledger")
async def _check_read_start(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(*range(10)))
    for start in range(12):
        expect(await read_facts(store, "s", start), make_messages(*range(start, 10)), f"read from {start}")
    expect(await read_facts(store, "unknown"), [], "an unknown ledger")
    async with expect_error(BadInput, "a negative start"):
        await store.read("s", -1)


@checks_rule(3, "ledgers are kept apart, whatever their names")
async def _check_ledger_names(environment: CheckEnvironment) -> None:
    store = await environment.open()
    names = ["a", "A", "a ", "ä", "a'; --", "a/../b", "%", "_", "a\nb", "\U0001f3b5", "x" * 500]
    for number, name in enumerate(names):
        await store.append(name, 0, make_messages(number))
        await store.append(name, 1, make_messages(number + 100))
    for number, name in enumerate(names):
        expect(await read_facts(store, name), make_messages(number, number + 100), f"the facts of {name!r}")
    expect([info.ledger for info in await store.list()], names[::-1], "the ledgers")


@checks_rule(3, "the result of a read does not change when more is appended")
async def _check_snapshot(environment: CheckEnvironment) -> None:
    store = await environment.open()
    facts = make_messages(0, 1)
    await store.append("s", 0, facts)
    facts.clear()
    before = await store.read("s")
    await store.append("s", 2, make_messages(2))
    expect(list(before), make_messages(0, 1), "the facts read before the append")
    expect(await read_facts(store, "s"), make_messages(0, 1, 2), "the facts read after it")


@checks_rule(4, "an append to a long ledger costs the same as one to a short ledger")
async def _check_append_cost(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("long", 0, make_messages(*range(20_000)))
    seconds: dict[str, float] = {}
    for ledger, length in (("short", 0), ("long", 20_000)):
        for position in range(length, length + 30):
            started_at = time.perf_counter()
            await store.append(ledger, position, make_messages(position))
            seconds[ledger] = min(seconds.get(ledger, 1e9), time.perf_counter() - started_at)
    if seconds["long"] > 10 * seconds["short"] + 0.001:
        raise ContractBroken(f"best of 30: {seconds['short'] * 1e6:.0f} us at length 0, {seconds['long'] * 1e6:.0f} us at 20,000")


@checks_rule(5, "contents are recorded with their append, once per digest, or not at all")
async def _check_contents(environment: CheckEnvironment) -> None:
    store = await environment.open()
    large = bytes(range(256)) * 1000
    await store.append("s", 0, make_messages(0), contents={"one": b"1", "large": large, "empty": b""})
    await store.append("s", 1, make_messages(1), contents={"one": b"another"})
    async with expect_error(LedgerConflict, "an append at the wrong position"):
        await store.append("s", 1, make_messages(2), contents={"refused": b"2"})
    for digest, body in (("one", b"1"), ("large", large), ("empty", b"")):
        expect(await store.content("s", digest), body, f"content {digest!r}")
    async with expect_error(StoreError, "the content of a refused append"):
        await store.content("s", "refused")
    await store.append("t", 0, make_messages(0))
    async with expect_error(StoreError, "another ledger's content"):
        await store.content("t", "one")
    async with expect_error(UnknownLedger, "the content of an unknown ledger"):
        await store.content("unknown", "one")


@checks_rule(8, "list returns the ledgers, the most recently appended first")
async def _check_list_order(environment: CheckEnvironment) -> None:
    store = await environment.open()
    expect(list(await store.list()), [], "the ledgers of an empty store")
    for name in "abcd":
        await store.append(name, 0, make_messages(5))
    await store.append("b", 1, make_messages(2))  # the order follows the appends, not the times of the facts
    await store.fork("a", 1, "e", make_messages(1))
    await store.lease("only leased")
    await store.read("c")
    lines = [(info.ledger, info.length, info.updated_at, info.parent) for info in await store.list()]
    expected = [("e", 2, 1001, "a"), ("b", 2, 1002, ""), ("d", 1, 1005, ""), ("c", 1, 1005, ""), ("a", 1, 1005, "")]
    expect(lines, expected, "the ledgers")
    expect([info.ledger for info in await store.list(limit=2)], ["e", "b"], "the two most recent")


@checks_rule(8, "paging through a list returns each ledger that did not grow once, whatever happens to the last line's ledger")
async def _check_list_pages(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.open()
    for name in "abcdefg":
        await store.append(name, 0, make_messages(0))
    first = await store.list(2)
    expect([info.ledger for info in first], ["g", "f"], "the two most recent")
    await other.append("f", 1, make_messages(1))
    second = await other.list(2, first[-1])
    expect([info.ledger for info in second], ["e", "d"], "the next two, through another handle, after the last one has grown")
    await store.delete("d")
    await store.append("new", 0, make_messages(0))
    third = await store.list(2, second[-1])
    expect([info.ledger for info in third], ["c", "b"], "the two after a deleted ledger, without the new one at the front")
    expect([info.ledger for info in await store.list(2, third[-1])], ["a"], "the rest")
    expect(list(await store.list(2, (await store.list())[-1])), [], "the lines after the last")
    expect(list(await other.list()), list(await store.list()), "the lines through another handle")
