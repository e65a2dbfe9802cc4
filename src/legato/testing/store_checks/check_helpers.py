"""The registry of checks, sample facts, and functions that many checks use."""

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
    OutputText,
    Reasoning,
    Redacted,
    Refusal,
    StandingApproval,
    TerminationJudged,
    Text,
    Usage,
)
from legato.stores.contract import Lease, Store
from legato.testing.store_checks.check_environment import CheckEnvironment, ContractBroken

StoreCheck: TypeAlias = Callable[[CheckEnvironment], Awaitable[None]]
CHECKS: list[tuple[int, str, StoreCheck]] = []
"""The number of a rule, what is checked, and the check."""


def checks_rule(rule: int, statement: str) -> Callable[[StoreCheck], StoreCheck]:
    """Register a check of a rule of the contract."""

    def register(check: StoreCheck) -> StoreCheck:
        CHECKS.append((rule, statement, check))
        return check

    return register


def make_messages(*numbers: int, text: str = "fact") -> list[AnyFact]:
    """Return one message for each number, each with its own time and text."""
    return [MessageReceived(at=1000 + number, content=f"{text} {number}") for number in numbers]


def make_one_of_each_fact() -> list[AnyFact]:
    """Return facts of every kind, with every field in use."""
    ref = CallRef(3, 1)
    usage = Usage(input=1, output=2, cached=3, reasoning=4, cost=MAX_COUNT, written=5)
    parts = (Text("see"), Image("image/png", "http://x"), File("a.pdf", "application/pdf", "", "d" * 32))
    odd = 'äöü \U0001f3b5 \x00 \\ " \n\u2028' + "long " * 2000
    return [
        Opened(at=1, ledger_id="l-1", workflow="desk", origin=Origin("l-0", 7, "copy")),
        MessageReceived(at=2, content=odd, author="ann", key="k"),
        MessageReceived(at=1_700_000_000_000, content=parts, author="ann", key="k"),
        ModelReplied(
            at=MAX_TIME_MS,
            agent="triage",
            context_digest="f" * 32,
            upto=2,
            items=(Reasoning("r", "e", "i"), OutputText("w", "i"), Call("t", '{"a": 1}', "c", "i"), Refusal("no", "i")),
            finish="length",
            usage=usage,
            model="m",
            response_id="r",
            stored=True,
            base="b",
            kept_groups=((0, 1), (3, 4)),
            losses=("one",),
            duration_ms=5,
        ),
        ConversationClaimed(at=0, agent="a", conversation="conv_1", upto=3),
        ModelRequestFailed(at=0, agent="a", context_digest="", error="e", code="c", attempt=2, final=True, usage=usage, duration_ms=9),
        ModelRequestFailed(at=0, agent="a", context_digest="", error="e", retry_at=9_000),
        ApprovalChecked(at=3, call=ref, needed=True, digest="d"),
        Decided(
            at=4, kind="approval", verdict="edit", call=ref, digest="d", arguments="{}", standing=StandingApproval("a", "t"), source="me"
        ),
        Decided(at=4, kind="limit", verdict="approve", limit="turns", reason="go on", output=(Text("x"),), key="k"),
        CallStarted(at=5, call=ref, attempt=1, epoch=2, digest="d"),
        CallReturned(at=6, call=ref, output="", attempt=1, status="error", full_output_digest="x", late=True, duration_ms=1),
        CallLost(at=7, call=ref, attempt=1),
        CallPaused(at=7, call=ref, attempt=2, session="s/key", length=9, duration_ms=4, error="e", needed=usage),
        CallPaused(at=7, call=ref, attempt=2, session="s/key", length=9, retry_at=9_000),
        ChildUsageReported(at=7, call=ref, agents=(("a", usage),)),
        HandedOff(at=8, call=ref, source="a", target="b"),
        GuardrailJudged(at=9, kind="tool", position=4, index=0, stop=True, reason="w", guardrail="b"),
        TerminationJudged(at=9, position=4, stop=True),
        AgentPrompted(at=10, agent="a", text="go on"),
        Compacted(at=11, agent="a", upto=3, summary="s", usage=usage),
        Cancelled(at=12, reason="stop"),
        Redacted(at=13, positions=(1, 2), digests=("d", "e"), derived=(3,), reason="asked for", by="ann"),
    ]


async def read_facts(store: Store, ledger: str, start: int = 0) -> list[AnyFact]:
    return list(await store.read(ledger, start))


async def gather_outcomes(jobs: Iterable[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*jobs, return_exceptions=True)


async def take_lease(store: Store, ledger: str, above: int = 0) -> Lease:
    lease = await store.lease(ledger)
    if lease is None or lease.ledger != ledger or lease.epoch <= above:
        raise ContractBroken(f"expected a lease on {ledger!r} with an epoch above {above}, found {lease}")
    return lease
