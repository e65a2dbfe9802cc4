"""Checks of rule 13: the ids that tell a ledger from another one that was made under the same name after a deletion."""

from __future__ import annotations

from legato.errors import LedgerConflict, StoreError, UnknownLedger
from legato.stores.contract import Store
from legato.testing.store_checks.check_environment import CheckEnvironment, expect, expect_error
from legato.testing.store_checks.check_helpers import checks_rule, gather_outcomes, make_messages, read_facts


async def _replace_ledger(store: Store, *numbers: int, ledger_id: str) -> None:
    await store.delete("s")
    await store.append("s", 0, make_messages(*numbers), ledger_id=ledger_id)


@checks_rule(13, "a ledger has the id that it was created with, and a fork has its own")
async def _check_ledger_ids(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.open()
    await store.lease("leased first")
    expect((await store.ledger_id("unknown"), await store.ledger_id("leased first")), ("", ""), "the ids of unknown ledgers")
    await store.append("s", 0, make_messages(0), ledger_id="first")
    await store.append("leased first", 0, make_messages(0), ledger_id="after the lease")
    await store.append("s", 1, make_messages(1), ledger_id="first")
    await store.append("s", 2, make_messages(2))
    async with expect_error(LedgerConflict, "an append at 0 to an existing ledger"):
        await store.append("s", 0, make_messages(9), ledger_id="too late")
    await store.fork("s", 2, "fork", make_messages(10), ledger_id="branch", parent_ledger_id="first")
    await store.fork("fork", 1, "fork of fork", [], ledger_id="twig", parent_ledger_id="branch")
    await store.append("nameless", 0, make_messages(0))
    await store.fork("s", 1, "nameless fork", make_messages(10))
    named = {"s": "first", "leased first": "after the lease", "fork": "branch", "fork of fork": "twig"}
    expected = {**named, "nameless": "", "nameless fork": ""}
    expect({name: await other.ledger_id(name) for name in expected}, expected, "the ledger ids")
    await store.delete("s")
    expect(await other.ledger_id("s"), "", "the id of a deleted ledger")
    await store.append("s", 0, make_messages(0), ledger_id="second")
    expect(await other.ledger_id("s"), "second", "the id of the ledger that replaced it")
    await _replace_ledger(store, 0, ledger_id="")
    expect(await other.ledger_id("s"), "", "the id of a ledger that was created without one")
    expect(await read_facts(store, "s"), make_messages(0), "its facts")


@checks_rule(13, "operations on a ledger that was deleted or replaced are refused and write nothing")
async def _check_wrong_ledger_id(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.open()
    await store.append("s", 0, make_messages(0, 1), contents={"d": b"old"}, ledger_id="first")
    new: tuple[tuple[str, list[int]], ...] = (("second", [5, 6]), ("third", [7, 8, 9]), ("fourth", [4]), ("", [2, 3]), ("", []))
    for ledger_id, numbers in new:
        description = f"a ledger that was replaced by one of {len(numbers)} facts with id {ledger_id!r}"
        await store.delete("s")
        if numbers:
            await store.append("s", 0, make_messages(*numbers), ledger_id=ledger_id)
        for expected in (1, 2, 3, 4):
            async with expect_error(UnknownLedger, f"an append at {expected} to {description}"):
                await other.append("s", expected, make_messages(99), contents={"late": b"late"}, durable=True, ledger_id="first")
        for start in (0, 2, 9):
            async with expect_error(UnknownLedger, f"a read from {start} of {description}"):
                await other.read("s", start, ledger_id="first")
        async with expect_error(UnknownLedger, f"a fork of {description}"):
            await other.fork("s", 1, "fork", make_messages(99), ledger_id="branch", parent_ledger_id="first")
        expect(await read_facts(store, "s"), make_messages(*numbers), "the facts after the refusals")
        expect(await read_facts(store, "fork"), [], "a fork that was refused")
        async with expect_error(StoreError, "the content of a refused append"):
            await store.content("s", "late")
        expect(await store.ledger_id("s"), ledger_id, "the ledger id after the refusals")
    await store.append("s", 0, make_messages(0), ledger_id="last")
    expect(list(await other.read("s", ledger_id="last")), make_messages(0), "a read with the right id")
    expect(await other.append("s", 1, make_messages(1), ledger_id="last"), 2, "an append with the right id")
    async with expect_error(LedgerConflict, "an append with the right id at the wrong position"):
        await other.append("s", 1, make_messages(1), ledger_id="last")
    expect(await other.append("s", 2, make_messages(2)), 3, "an append without an id")
    expect(await store.fork("s", 3, "fork", [], parent_ledger_id="last"), 3, "a fork with the right id")


@checks_rule(13, "a ledger that is replaced during an append, a read or a fork is never mistaken for the one before")
async def _check_replacement_race(environment: CheckEnvironment) -> None:
    one, two = await environment.open(), await environment.open()
    for round in range(20):
        old, new = f"old {round}", f"new {round}"
        await _replace_ledger(one, 0, 1, ledger_id=old)
        append_result, read_result, fork_result, _ = await gather_outcomes(
            (
                two.append("s", 2, make_messages(99), ledger_id=old),
                two.read("s", ledger_id=old),
                two.fork("s", 2, f"fork {round}", make_messages(50), parent_ledger_id=old),
                _replace_ledger(one, 5, 6, ledger_id=new),
            )
        )
        expect(await read_facts(one, "s"), make_messages(5, 6), f"the new ledger (the append to the old one: {append_result})")
        if not isinstance(read_result, UnknownLedger):
            expect(list(read_result)[:2], make_messages(0, 1), "the facts read from the old ledger")
        if not isinstance(fork_result, UnknownLedger):
            expect(await read_facts(one, f"fork {round}"), make_messages(0, 1, 50), "a fork of the old ledger")


@checks_rule(13, "ledger ids are there after reopening")
async def _check_ids_after_reopening(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0, 1), ledger_id="first")
    await store.fork("s", 1, "fork", make_messages(10), ledger_id="branch")
    store = await environment.reopen()
    expect((await store.ledger_id("s"), await store.ledger_id("fork")), ("first", "branch"), "the ledger ids")
    async with expect_error(UnknownLedger, "an append with another id"):
        await store.append("s", 2, make_messages(2), ledger_id="another")
    expect(await store.append("s", 2, make_messages(2), ledger_id="first"), 3, "an append with the right id")


@checks_rule(13, "a ledger that another process replaced has another id")
async def _check_replacement_by_other_process(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.start_other_process()
    await store.append("s", 0, make_messages(0, 1), ledger_id="first")
    expect(await other.invoke("ledger_id", "s"), "first", "the ledger id in another process")
    expect(len(await store.read("s", ledger_id="first")), 2, "the facts before")
    await other.invoke("delete", "s")
    await other.append("s", 0, make_messages(5, 6))
    async with expect_error(UnknownLedger, "a read of a ledger that another process replaced"):
        await store.read("s", 2, ledger_id="first")
    async with expect_error(UnknownLedger, "an append to a ledger that another process replaced"):
        await store.append("s", 2, make_messages(2), ledger_id="first")
    expect(await read_facts(store, "s"), make_messages(5, 6), "the new ledger")
