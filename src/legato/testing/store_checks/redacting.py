"""Sentence 16 of the contract: erasing words."""

from __future__ import annotations

import asyncio

from legato.core.facts import AnyFact, CallRef, CallReturned, File, MessageReceived, ModelReplied, Redacted, Text, Words
from legato.core.messages import contents_of
from legato.core.messages_to_model import ERASED
from legato.core.redaction import Erasing
from legato.core.turn_context import Frame, encode_frame
from legato.errors import BadInput, LedgerConflict, StoreError, UnknownLedger
from legato.stores.contract import Store
from legato.testing.store_checks.parts import facts_of, outcomes, proves, said
from legato.testing.store_checks.place import Place, expect, expect_error

KEY = b"k" * 32


def erasing(*positions: int) -> Erasing:
    """What erases these, or all words there are."""
    return Erasing(frozenset(positions) if positions else None, KEY, 9000, "asked for", "ann")


def erased(facts: list[AnyFact], *positions: int) -> list[AnyFact]:
    """The facts as they are when nothing but these was erased."""
    after = [replaced(fact) if position in positions else fact for position, fact in enumerate(facts)]
    digests = tuple(erasing().digest_of(facts[at]) for at in positions)
    return [*after, Redacted(at=9000, positions=positions, digests=digests, reason="asked for", by="ann")]


def replaced(fact: AnyFact) -> AnyFact:
    return MessageReceived(at=fact.at, content=ERASED)


@proves(16, "erased words are gone, the rest stays where it was, and what was done is appended")
async def _erases(place: Place) -> None:
    one, two = await place.open(), await place.open()
    facts = said(*range(4))
    await one.append("s", 0, facts, born="first")
    done = await one.redact("s", erasing(1, 3), born="first")
    expect(list(done), ["s"], "the ledgers that were changed")
    expect(len(done["s"].added), 1, "what was appended to it")
    for store in (one, two):
        expect(await facts_of(store, "s"), erased(facts, 1, 3), "the facts")
        expect(await facts_of(store, "s", 4), erased(facts, 1, 3)[4:], "what is new")
    expect(await one.born("s"), "first", "the birth name")
    expect([(info.ledger, info.length, info.updated) for info in await one.list()], [("s", 5, 9000)], "the ledgers")
    expect(await one.redact("s", erasing(1, 3)), {}, "what is erased again")
    expect(await one.append("s", 5, said(9), born="first"), 6, "appending goes on")
    async with expect_error(LedgerConflict, "an append by somebody who has not seen it"):
        await two.append("s", 4, said(8), born="first")


@proves(16, "an erasure that cannot be made is refused and writes nothing")
async def _refuses(place: Place) -> None:
    store = await place.open()
    facts = [*said(0), ModelReplied(at=5, agent="a", frame="", upto=0, items=())]
    await store.append("s", 0, facts, born="first")
    async with expect_error(BadInput, "an erasure of what has no words"):
        await store.redact("s", erasing(0, 1))
    async with expect_error(UnknownLedger, "an erasure in an unknown ledger"):
        await store.redact("unknown", erasing())
    async with expect_error(UnknownLedger, "an erasure in a ledger that was replaced"):
        await store.redact("s", erasing(0), born="another")
    expect(await facts_of(store, "s"), facts, "the facts")
    expect([info.ledger for info in await store.list()], ["s"], "the ledgers")


@proves(16, "contents go with the last fact that names them, and others come in their place")
async def _contents(place: Place) -> None:
    store = await place.open()
    (quoting, frame), (plain, _) = encode_frame(Frame("a", "they said: fact 0, all of it")), encode_frame(Frame("a", ERASED))
    twice, once = File("a.pdf", digest="twice"), File("b.pdf", digest="once")
    facts: list[AnyFact] = [
        MessageReceived(at=1, content="fact 0, all of it"),
        ModelReplied(at=2, agent="a", frame=quoting, upto=0, items=(Words("yes"),)),
        MessageReceived(at=3, content=(Text("both"), twice, once)),
        MessageReceived(at=4, content=(twice,)),
    ]
    await store.append("s", 0, facts, contents={quoting: frame, "twice": b"2", "once": b"1"})
    await store.redact("s", erasing(0, 2))
    now = await facts_of(store, "s")
    expect(contents_of(now[1]), {plain}, "the frame that the reply names")
    expect(await store.content("s", plain), encode_frame(Frame("a", ERASED))[1], "its bytes")
    expect(await store.content("s", "twice"), b"2", "the file that is named elsewhere too")
    for digest in (quoting, "once"):
        async with expect_error(StoreError, f"content {digest!r}, which nothing names any more"):
            await store.content("s", digest)
    await store.append("s", len(now), [MessageReceived(at=5, content=(once,))], contents={"once": b"1"})
    expect(await store.content("s", "once"), b"1", "the same file, given again")


@proves(16, "what forks share is erased in all of them, whoever asks, and in each it is appended")
async def _forks(place: Place) -> None:
    store = await place.open()
    trunk = said(*range(5))
    await store.append("s", 0, trunk, contents={"d": b"body"})
    await store.fork("s", 4, "a", said(10, 11))
    await store.fork("a", 5, "b", said(20))
    await store.fork("s", 1, "c", said(30, 31))
    await store.append("other", 0, said(*range(5)))
    done = await store.redact("b", erasing(2, 4))
    expect(sorted(done), ["a", "b", "s"], "the ledgers that were changed")
    expect(await facts_of(store, "b"), erased([*trunk[:4], *said(10), *said(20)], 2, 4), "the fork that was asked")
    expect(await facts_of(store, "a"), erased([*trunk[:4], *said(10, 11)], 2, 4), "the one it came from")
    expect(await facts_of(store, "s"), erased(trunk, 2), "the trunk, which has another fact at 4")
    expect(await facts_of(store, "c"), [*trunk[:1], *said(30, 31)], "a fork that shares nothing of it")
    expect(await facts_of(store, "other"), said(*range(5)), "a ledger of its own with the same words")
    await store.delete("a")
    done = await store.redact("s", erasing(0))
    expect(sorted(done), ["b", "c", "s"], "the ledgers that share the first words, when one is deleted")
    expect((await facts_of(store, "c"))[0], replaced(trunk[0]), "the first words in a fork")
    left = [replaced(trunk[0]), trunk[1], replaced(trunk[2]), trunk[3], replaced(said(10)[0])]
    expect((await facts_of(store, "b"))[:5], left, "what another has by now")
    expect(await store.append("b", 8, said(21)), 9, "appending to it")


@proves(16, "a content that a fork still names stays readable there")
async def _shared_contents(place: Place) -> None:
    store = await place.open()
    shown = MessageReceived(at=1, content=(File("a.pdf", digest="d"),))
    await store.append("s", 0, [shown, *said(1)], contents={"d": b"body"})
    await store.fork("s", 2, "a", [shown])
    await store.redact("s", erasing(0))
    expect(await store.content("a", "d"), b"body", "the file that the fork names in a fact of its own")
    await store.redact("a", erasing(2))
    for ledger in ("s", "a"):
        async with expect_error(StoreError, f"the file in {ledger!r}, when nobody names it"):
            await store.content(ledger, "d")


@proves(16, "an erasure and appends that race for it are all recorded, one after the other")
async def _races(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.append("s", 0, said(0, 1))

    async def go_on(store: Store, number: int) -> None:
        while True:
            try:
                await store.append("s", len(await store.read("s")), said(number))
                return
            except LedgerConflict:
                await asyncio.sleep(0)

    results = await outcomes([go_on(two, 10), one.redact("s", erasing(0)), go_on(two, 11), two.redact("s", erasing(1)), go_on(one, 12)])
    expect([result for result in results if isinstance(result, Exception)], [], "what failed")
    facts = await facts_of(one, "s")
    expect(len(facts), 7, "the number of facts")
    expect(facts[:2], [replaced(fact) for fact in said(0, 1)], "what was erased")
    expect(sorted(fact.positions for fact in facts if isinstance(fact, Redacted)), [(0,), (1,)], "what was appended")


@proves(16, "whoever waits for a ledger hears of an erasure in it")
async def _heard(place: Place) -> None:
    one, two = await place.open(), await place.open()
    await one.append("s", 0, said(0))
    await one.fork("s", 1, "a", said(10))
    waiting = [asyncio.ensure_future(two.wait(name, length, 10)) for name, length in (("s", 1), ("a", 2))]
    await asyncio.sleep(0.05)
    await one.redact("s", erasing(0))
    expect(await asyncio.gather(*waiting), [True, True], "whether it was heard")


@proves(16, "erased words are gone in another process, and after reopening")
async def _elsewhere(place: Place) -> None:
    store, other = await place.open(), await place.other_process()
    answer = CallReturned(at=3, call=CallRef(1, 0), output="secret output", full="whole")
    await store.append("s", 0, [*said(0, 1), answer], contents={"whole": b"the whole secret"})
    await store.redact("s", erasing(0, 2))
    there = await other.ask("read", "s")
    expect((len(there), "secret" in str(there)), (4, False), "how much another process reads, and whether the words are there")
    store = await place.reopen()
    again = await facts_of(store, "s")
    expect((len(again), "secret" in str(again)), (4, False), "how much is read after reopening, and whether the words are there")
    async with expect_error(StoreError, "the whole output"):
        await store.content("s", "whole")
