"""What the checks are written with. May know: the facts. Decides: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from legato.core.facts import (
    MAX_COUNT,
    MAX_TIME_MS,
    AgentPrompted,
    AnyFact,
    ApprovalChecked,
    Call,
    CallLost,
    CallPaused,
    CallRef,
    CallReturned,
    CallStarted,
    Cancelled,
    ChildUsageReported,
    Compacted,
    ConversationClaimed,
    Decided,
    File,
    GuardrailJudged,
    HandedOff,
    Image,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Opened,
    Origin,
    Reasoning,
    Redacted,
    Refusal,
    Standing,
    Text,
    Usage,
    Words,
)
from legato.stores.contract import Lease, Store
from legato.testing.store_checks.place import Place, Unmet

Check: TypeAlias = Callable[[Place], Awaitable[None]]
CHECKS: list[tuple[int, str, Check]] = []


def proves(clause: int, sentence: str) -> Callable[[Check], Check]:
    def enter(check: Check) -> Check:
        CHECKS.append((clause, sentence, check))
        return check

    return enter


def said(*numbers: int, words: str = "fact") -> list[AnyFact]:
    """Facts that can be told apart."""
    return [MessageReceived(at=1000 + number, content=f"{words} {number}") for number in numbers]


def one_of_each() -> list[AnyFact]:
    """Every kind of fact, with every field in use."""
    ref = CallRef(3, 1)
    usage = Usage(input=1, output=2, cached=3, reasoning=4, cost=MAX_COUNT, written=5)
    parts = (Text("see"), Image("image/png", "http://x"), File("a.pdf", "application/pdf", "", "d" * 32))
    odd = 'äöü \U0001f3b5 \x00 \\ " \n\u2028' + "long " * 2000
    return [
        Opened(at=1, ledger="l-1", workflow="desk", origin=Origin("l-0", 7, "copy")),
        MessageReceived(at=2, content=odd, author="ann", key="k"),
        MessageReceived(at=1_700_000_000_000, content=parts, author="ann", key="k"),
        ModelReplied(
            at=MAX_TIME_MS,
            agent="triage",
            frame="f" * 32,
            upto=2,
            items=(Reasoning("r", "e", "i"), Words("w", "i"), Call("t", '{"a": 1}', "c", "i"), Refusal("no", "i")),
            finish="length",
            usage=usage,
            model="m",
            response_id="r",
            stored=True,
            base="b",
            kept=((0, 1), (3, 4)),
            losses=("one",),
            took=5,
        ),
        ConversationClaimed(at=0, agent="a", conversation="conv_1", upto=3),
        ModelRequestFailed(at=0, agent="a", frame="", error="e", code="c", number=2, final=True, usage=usage, took=9),
        ModelRequestFailed(at=0, agent="a", frame="", error="e", retry_at=9_000),
        ApprovalChecked(at=3, call=ref, needed=True, digest="d"),
        Decided(at=4, kind="approval", verdict="edit", call=ref, digest="d", arguments="{}", standing=Standing("a", "t"), source="me"),
        Decided(at=4, kind="limit", verdict="approve", limit="turns", words="go on", output=(Text("x"),), key="k"),
        CallStarted(at=5, call=ref, attempt=1, epoch=2, digest="d"),
        CallReturned(at=6, call=ref, output="", attempt=1, status="error", full="x", late=True, took=1),
        CallLost(at=7, call=ref, attempt=1),
        CallPaused(at=7, call=ref, attempt=2, session="s/key", length=9, took=4, error="e", needed=usage),
        CallPaused(at=7, call=ref, attempt=2, session="s/key", length=9, retry_at=9_000),
        ChildUsageReported(at=7, call=ref, agents=(("a", usage),)),
        HandedOff(at=8, call=ref, source="a", target="b"),
        GuardrailJudged(at=9, kind="termination", position=4, index=0, stop=True, words="w", by="b"),
        AgentPrompted(at=10, agent="a", text="go on"),
        Compacted(at=11, agent="a", upto=3, summary="s", usage=usage),
        Cancelled(at=12, words="stop"),
        Redacted(at=13, positions=(1, 2), digests=("d", "e"), along=(3,), reason="asked for", by="ann"),
    ]


async def facts_of(store: Store, ledger: str, start: int = 0) -> list[AnyFact]:
    return list(await store.read(ledger, start))


async def outcomes(jobs: Iterable[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*jobs, return_exceptions=True)


async def granted(store: Store, ledger: str, above: int = 0) -> Lease:
    lease = await store.lease(ledger)
    if lease is None or lease.ledger != ledger or lease.epoch <= above:
        raise Unmet(f"expected a lease on {ledger!r} with an epoch above {above}, found {lease}")
    return lease
