"""Checks of rule 16: redaction."""

from __future__ import annotations

import asyncio

from legato.core.facts import AnyFact, CallRef, CallReturned, File, MessageReceived, ModelReplied, OutputText, Redacted, Text
from legato.core.messages import find_content_digests
from legato.core.redaction import PositionRedactor
from legato.core.texts_for_model import REDACTED_TEXT
from legato.core.turn_context import TurnContext, encode_turn_context
from legato.errors import BadInput, LedgerConflict, StoreError, UnknownLedger
from legato.stores.contract import Store
from legato.testing.store_checks.check_environment import CheckEnvironment, expect, expect_error
from legato.testing.store_checks.check_helpers import checks_rule, gather_outcomes, make_messages, read_facts

KEY = b"k" * 32


def make_redactor(*positions: int) -> PositionRedactor:
    """Return a redactor of these positions; without positions, of all text."""
    return PositionRedactor(frozenset(positions) if positions else None, KEY, 9000, "asked for", "ann")


def make_redacted_ledger(facts: list[AnyFact], *positions: int) -> list[AnyFact]:
    """Return the facts after these positions were redacted."""
    redacted = [make_redacted_message(fact) if position in positions else fact for position, fact in enumerate(facts)]
    digests = tuple(make_redactor().make_digest(facts[at]) for at in positions)
    return [*redacted, Redacted(at=9000, positions=positions, digests=digests, reason="asked for", by="ann")]


def make_redacted_message(fact: AnyFact) -> AnyFact:
    return MessageReceived(at=fact.at, content=REDACTED_TEXT)


@checks_rule(16, "redacted text is gone, the other facts stay in place, and the redaction is appended")
async def _check_redaction(environment: CheckEnvironment) -> None:
    one, two = await environment.open(), await environment.open()
    facts = make_messages(*range(4))
    await one.append("s", 0, facts, ledger_id="first")
    redactions = await one.redact("s", make_redactor(1, 3), ledger_id="first")
    expect(list(redactions), ["s"], "the changed ledgers")
    expect(len(redactions["s"].appended_facts), 1, "the number of appended facts")
    for store in (one, two):
        expect(await read_facts(store, "s"), make_redacted_ledger(facts, 1, 3), "the facts")
        expect(await read_facts(store, "s", 4), make_redacted_ledger(facts, 1, 3)[4:], "the appended facts")
    expect(await one.ledger_id("s"), "first", "the ledger id")
    expect([(info.ledger, info.length, info.updated_at) for info in await one.list()], [("s", 5, 9000)], "the ledgers")
    expect(await one.redact("s", make_redactor(1, 3)), {}, "the result of the same redaction again")
    expect(await one.append("s", 5, make_messages(9), ledger_id="first"), 6, "appending goes on")
    async with expect_error(LedgerConflict, "an append at the position before the redaction"):
        await two.append("s", 4, make_messages(8), ledger_id="first")


@checks_rule(16, "an impossible redaction is refused and writes nothing")
async def _check_refused_redaction(environment: CheckEnvironment) -> None:
    store = await environment.open()
    facts = [*make_messages(0), ModelReplied(at=5, agent="a", context_digest="", upto=0, items=())]
    await store.append("s", 0, facts, ledger_id="first")
    async with expect_error(BadInput, "a redaction of a fact without text"):
        await store.redact("s", make_redactor(0, 1))
    async with expect_error(UnknownLedger, "a redaction in an unknown ledger"):
        await store.redact("unknown", make_redactor())
    async with expect_error(UnknownLedger, "a redaction in a ledger that was replaced"):
        await store.redact("s", make_redactor(0), ledger_id="another")
    expect(await read_facts(store, "s"), facts, "the facts")
    expect([info.ledger for info in await store.list()], ["s"], "the ledgers")


@checks_rule(16, "contents are dropped with the last fact that names them, and redacted ones are added")
async def _check_redacted_contents(environment: CheckEnvironment) -> None:
    store = await environment.open()
    (quoting, frame), (plain, _) = (
        encode_turn_context(TurnContext("a", "they said: fact 0, all of it")),
        encode_turn_context(TurnContext("a", REDACTED_TEXT)),
    )
    twice, once = File("a.pdf", digest="twice"), File("b.pdf", digest="once")
    facts: list[AnyFact] = [
        MessageReceived(at=1, content="fact 0, all of it"),
        ModelReplied(at=2, agent="a", context_digest=quoting, upto=0, items=(OutputText("yes"),)),
        MessageReceived(at=3, content=(Text("both"), twice, once)),
        MessageReceived(at=4, content=(twice,)),
    ]
    await store.append("s", 0, facts, contents={quoting: frame, "twice": b"2", "once": b"1"})
    await store.redact("s", make_redactor(0, 2))
    now = await read_facts(store, "s")
    expect(find_content_digests(now[1]), {plain}, "the digest of the turn context in the reply")
    expect(await store.content("s", plain), encode_turn_context(TurnContext("a", REDACTED_TEXT))[1], "the turn context")
    expect(await store.content("s", "twice"), b"2", "the file that another fact names too")
    for digest in (quoting, "once"):
        async with expect_error(StoreError, f"content {digest!r}, which no fact names any more"):
            await store.content("s", digest)
    await store.append("s", len(now), [MessageReceived(at=5, content=(once,))], contents={"once": b"1"})
    expect(await store.content("s", "once"), b"1", "the same file after it was appended again")


@checks_rule(16, "facts that forks share are redacted in all of them, and each gets the appended facts")
async def _check_redaction_of_forks(environment: CheckEnvironment) -> None:
    store = await environment.open()
    trunk = make_messages(*range(5))
    await store.append("s", 0, trunk, contents={"d": b"body"})
    await store.fork("s", 4, "a", make_messages(10, 11))
    await store.fork("a", 5, "b", make_messages(20))
    await store.fork("s", 1, "c", make_messages(30, 31))
    await store.append("other", 0, make_messages(*range(5)))
    redactions = await store.redact("b", make_redactor(2, 4))
    expect(sorted(redactions), ["a", "b", "s"], "the changed ledgers")
    expect(
        await read_facts(store, "b"),
        make_redacted_ledger([*trunk[:4], *make_messages(10), *make_messages(20)], 2, 4),
        "the fork in which the redaction was requested",
    )
    expect(await read_facts(store, "a"), make_redacted_ledger([*trunk[:4], *make_messages(10, 11)], 2, 4), "its parent")
    expect(await read_facts(store, "s"), make_redacted_ledger(trunk, 2), "the trunk, which has another fact at 4")
    expect(await read_facts(store, "c"), [*trunk[:1], *make_messages(30, 31)], "a fork that shares no redacted fact")
    expect(await read_facts(store, "other"), make_messages(*range(5)), "an unrelated ledger with the same text")
    await store.delete("a")
    redactions = await store.redact("s", make_redactor(0))
    expect(sorted(redactions), ["b", "c", "s"], "the ledgers that share the first fact, after one was deleted")
    expect((await read_facts(store, "c"))[0], make_redacted_message(trunk[0]), "the first fact in a fork")
    left = [
        make_redacted_message(trunk[0]),
        trunk[1],
        make_redacted_message(trunk[2]),
        trunk[3],
        make_redacted_message(make_messages(10)[0]),
    ]
    expect((await read_facts(store, "b"))[:5], left, "the first facts of another fork")
    expect(await store.append("b", 8, make_messages(21)), 9, "appending to it")


@checks_rule(16, "a content that a fork still names stays readable there")
async def _check_contents_of_forks(environment: CheckEnvironment) -> None:
    store = await environment.open()
    shown = MessageReceived(at=1, content=(File("a.pdf", digest="d"),))
    await store.append("s", 0, [shown, *make_messages(1)], contents={"d": b"body"})
    await store.fork("s", 2, "a", [shown])
    await store.redact("s", make_redactor(0))
    expect(await store.content("a", "d"), b"body", "the file that the fork names in a fact of its own")
    await store.redact("a", make_redactor(2))
    for ledger in ("s", "a"):
        async with expect_error(StoreError, f"the file in {ledger!r}, when no fact names it"):
            await store.content(ledger, "d")


@checks_rule(16, "a redaction and appends that race with it are all recorded, one after the other")
async def _check_redaction_race(environment: CheckEnvironment) -> None:
    one, two = await environment.open(), await environment.open()
    await one.append("s", 0, make_messages(0, 1))

    async def go_on(store: Store, number: int) -> None:
        while True:
            try:
                await store.append("s", len(await store.read("s")), make_messages(number))
                return
            except LedgerConflict:
                await asyncio.sleep(0)

    results = await gather_outcomes(
        [go_on(two, 10), one.redact("s", make_redactor(0)), go_on(two, 11), two.redact("s", make_redactor(1)), go_on(one, 12)]
    )
    expect([result for result in results if isinstance(result, Exception)], [], "the errors")
    facts = await read_facts(one, "s")
    expect(len(facts), 7, "the number of facts")
    expect(facts[:2], [make_redacted_message(fact) for fact in make_messages(0, 1)], "the redacted facts")
    expect(sorted(fact.positions for fact in facts if isinstance(fact, Redacted)), [(0,), (1,)], "the positions in the appended facts")


@checks_rule(16, "a redaction ends a wait for the ledger")
async def _check_redaction_ends_wait(environment: CheckEnvironment) -> None:
    one, two = await environment.open(), await environment.open()
    await one.append("s", 0, make_messages(0))
    await one.fork("s", 1, "a", make_messages(10))
    waiting = [asyncio.ensure_future(two.wait(name, length, 10)) for name, length in (("s", 1), ("a", 2))]
    await asyncio.sleep(0.05)
    await one.redact("s", make_redactor(0))
    expect(await asyncio.gather(*waiting), [True, True], "the results of the waits")


@checks_rule(16, "redacted text is gone in another process, and after reopening")
async def _check_redaction_in_other_process(environment: CheckEnvironment) -> None:
    store, other = await environment.open(), await environment.start_other_process()
    answer = CallReturned(at=3, call=CallRef(1, 0), output="secret output", full_output_digest="whole")
    await store.append("s", 0, [*make_messages(0, 1), answer], contents={"whole": b"the whole secret"})
    await store.redact("s", make_redactor(0, 2))
    facts = await other.invoke("read", "s")
    expect((len(facts), "secret" in str(facts)), (4, False), "the number of facts in another process, and whether they have the text")
    store = await environment.reopen()
    facts = await read_facts(store, "s")
    expect((len(facts), "secret" in str(facts)), (4, False), "the number of facts after reopening, and whether they have the text")
    async with expect_error(StoreError, "the full output"):
        await store.content("s", "whole")
