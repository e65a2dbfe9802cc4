"""Checks of rules 6 and 7: forks, and deletion."""

from __future__ import annotations

from legato.errors import BadInput, LedgerConflict, LedgerExists, StoreError, UnknownLedger
from legato.testing.store_checks.check_environment import CheckEnvironment, expect, expect_error
from legato.testing.store_checks.check_helpers import checks_rule, gather_outcomes, make_messages, read_facts


@checks_rule(6, "a fork begins with the facts before its position, and continues with its own facts")
async def _check_forks(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(*range(6)))
    for at in range(7):
        expect(await store.fork("s", at, f"fork {at}", make_messages(10)), at + 1, "fork returns the new length")
        expect(await read_facts(store, f"fork {at}"), [*make_messages(*range(at)), *make_messages(10)], f"a fork at {at}")
        for again in range(at + 2):
            name = f"fork {at} {again}"
            expect(await store.fork(f"fork {at}", again, name, make_messages(20)), again + 1, "fork returns the new length")
            whole = [*[*make_messages(*range(at)), *make_messages(10)][:again], *make_messages(20)]
            for start in range(again + 2):
                expect(await read_facts(store, name, start), whole[start:], f"a fork at {again} of a fork at {at}, from {start}")
    expect(await store.fork("s", 4, "bare", []), 4, "a fork without facts of its own")
    expect(await read_facts(store, "bare"), make_messages(*range(4)), "a fork without facts of its own")


@checks_rule(6, "neither branch sees what the other appends later")
async def _check_branches(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0, 1, 2))
    await store.fork("s", 3, "end", [])
    await store.fork("s", 1, "middle", make_messages(10))
    await store.append("s", 3, make_messages(3), contents={"late": b"late"})
    await store.append("end", 3, make_messages(30), contents={"own": b"own"})
    await store.append("middle", 2, make_messages(20))
    expect(await read_facts(store, "s"), make_messages(0, 1, 2, 3), "the parent")
    expect(await read_facts(store, "end"), make_messages(0, 1, 2, 30), "the fork at the end")
    expect(await read_facts(store, "middle"), make_messages(0, 10, 20), "the fork in the middle")
    for ledger, digest in (("end", "late"), ("s", "own"), ("middle", "own")):
        async with expect_error(StoreError, f"content {digest!r} in {ledger!r}"):
            await store.content(ledger, digest)


@checks_rule(6, "a fork shares the contents recorded before it")
async def _check_fork_contents(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0), contents={"early": b"1"})
    await store.append("s", 1, make_messages(1), contents={"later": b"2"})
    await store.fork("s", 2, "a", make_messages(10))
    await store.fork("a", 3, "b", make_messages(20))
    await store.fork("s", 1, "c", make_messages(30))
    for ledger, digest, body in (("a", "early", b"1"), ("b", "later", b"2"), ("c", "early", b"1")):
        expect(await store.content(ledger, digest), body, f"content {digest!r} of {ledger!r}")
    async with expect_error(StoreError, "content recorded after the fork's point"):
        await store.content("c", "later")
    await store.fork("s", 1, "d", make_messages(40), contents={"early": b"other", "new": b"3"})
    expect((await store.content("d", "early"), await store.content("d", "new")), (b"1", b"3"), "the contents of the fork's first facts")
    async with expect_error(StoreError, "content that a fork began with"):
        await store.content("s", "new")
    await store.append("c", 2, make_messages(31), contents={"later": b"own"})
    expect(await store.content("c", "later"), b"own", "the fork's own content")
    expect(await store.content("s", "later"), b"2", "the parent's content")


@checks_rule(6, "an impossible fork is refused and writes nothing")
async def _check_refused_forks(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0, 1))
    await store.append("t", 0, make_messages(5))
    async with expect_error(LedgerExists, "a fork onto another ledger"):
        await store.fork("s", 1, "t", make_messages(9))
    async with expect_error(LedgerExists, "a fork onto itself"):
        await store.fork("s", 1, "s", make_messages(9))
    async with expect_error(UnknownLedger, "a fork of an unknown ledger"):
        await store.fork("unknown", 0, "u", make_messages(9))
    for at in (3, -1):
        async with expect_error(BadInput, f"a fork at {at} of 2 facts"):
            await store.fork("s", at, "u", make_messages(9))
    for expected in (1, 3):
        async with expect_error(LedgerConflict, f"a fork of 2 facts with {expected} expected"):
            await store.fork("s", 1, "u", make_messages(9), expected=expected)
    async with expect_error(UnknownLedger, "a fork of an unknown ledger with 3 facts expected"):
        await store.fork("unknown", 0, "u", make_messages(9), expected=3)
    expect([await read_facts(store, name) for name in "stu"], [make_messages(0, 1), make_messages(5), []], "the facts")
    expect(await store.fork("s", 1, "u", make_messages(9), expected=2), 2, "a fork with the expected number of facts")


@checks_rule(6, "a long chain of forks is read like one ledger")
async def _check_fork_chain(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("0", 0, make_messages(0))
    for number in range(1, 60):
        await store.fork(str(number - 1), number, str(number), make_messages(number))
    for start in (0, 1, 30, 58, 59, 60):
        expect(await read_facts(store, "59", start), make_messages(*range(start, 60)), f"the end of the chain, from {start}")
    for number in range(60, 90):  # repeated forks of forks at the same position
        await store.fork(str(number - 1), 30, str(number), make_messages(number))
    expect(await read_facts(store, "89"), make_messages(*range(30), 89), "forks at the same point")


@checks_rule(7, "a deleted ledger is gone, and its name may be used again")
async def _check_deletion(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0, 1), contents={"d": b"body"})
    await store.append("t", 0, make_messages(5))
    expect(await store.delete("s"), True, "the deletion of a ledger")
    expect(await store.delete("s"), False, "the deletion of an unknown ledger")
    expect(await read_facts(store, "s"), [], "the deleted ledger")
    expect([info.ledger for info in await store.list()], ["t"], "the ledgers")
    async with expect_error(UnknownLedger, "the content of a deleted ledger"):
        await store.content("s", "d")
    async with expect_error(LedgerConflict, "an append to the deleted ledger"):
        await store.append("s", 2, make_messages(2))
    expect(await store.append("s", 0, make_messages(7)), 1, "an append under its name")
    expect(await read_facts(store, "s"), make_messages(7), "the new ledger")
    async with expect_error(StoreError, "the content of the ledger before"):
        await store.content("s", "d")


@checks_rule(7, "a deletion with an expected length or ledger id is refused if the ledger is another one or has grown")
async def _check_guarded_deletion(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(0, 1), ledger_id="first")
    async with expect_error(LedgerConflict, "a deletion of one fact where there are two"):
        await store.delete("s", expected={"s": 1})
    async with expect_error(UnknownLedger, "a deletion with the ledger id of another ledger"):
        await store.delete("s", expected={"s": 2}, ledger_id="another")
    async with expect_error(UnknownLedger, "a deletion of an unknown ledger with a ledger id"):
        await store.delete("t", ledger_id="first")
    expect(await read_facts(store, "s"), make_messages(0, 1), "the facts")
    expect(await store.delete("t", expected={"t": 2}), False, "a deletion of an unknown ledger with an expected length")
    results = await gather_outcomes(
        [store.append("s", 2, make_messages(2), ledger_id="first"), store.delete("s", expected={"s": 2}, ledger_id="first")]
    )
    expect(sum(isinstance(result, StoreError) for result in results), 1, "the refused ones of an append and a deletion that race")
    expect(await read_facts(store, "s"), make_messages(0, 1, 2) if results[0] == 3 else [], "the facts after the race")


@checks_rule(7, "facts that forks share stay readable when the original ledgers are deleted")
async def _check_shared_facts(environment: CheckEnvironment) -> None:
    store = await environment.open()
    await store.append("s", 0, make_messages(*range(5)), contents={"d": b"body"})
    await store.fork("s", 4, "a", make_messages(10, 11))
    await store.fork("a", 5, "b", make_messages(20))
    await store.fork("a", 2, "c", make_messages(30))
    for deleted in ("s", "a"):
        await store.delete(deleted)
        expect(await read_facts(store, deleted), [], "the deleted ledger")
        expect(await read_facts(store, "b"), make_messages(0, 1, 2, 3, 10, 20), "a fork of a fork")
        expect(await read_facts(store, "c"), make_messages(0, 1, 30), "another")
        expect(await store.content("b", "d"), b"body", "shared content")
    await store.append("s", 0, make_messages(70))
    await store.fork("s", 1, "a", make_messages(71))
    expect(await read_facts(store, "b"), make_messages(0, 1, 2, 3, 10, 20), "a fork, when its parent's name is used again")
    expect({info.ledger: info.parent for info in await store.list()}, {"a": "s", "s": "", "b": "", "c": ""}, "the parents")
    await store.delete("b")
    expect(await read_facts(store, "c"), make_messages(0, 1, 30), "a fork, when its sibling is deleted")
    expect(await store.append("c", 3, make_messages(31)), 4, "appending to it")
