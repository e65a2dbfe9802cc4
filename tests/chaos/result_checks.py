"""The checks after a chaos run: whether anything was lost, duplicated, or done twice.

The project's checkers read the raw facts. The activity log has the requests that models really got, and what tools really did.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from legato.core.facts import (
    AnyFact,
    CallLost,
    CallReturned,
    CallStarted,
    Decided,
    HandedOff,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    OutputText,
)
from legato.core.messages import render_content
from legato.core.view import ModelRequest
from legato.engines import Engine
from legato.errors import IllegalFact
from legato.stores.contract import Store
from legato.testing.ledger_checker import LedgerChecker
from legato.testing.promise_checks import ToolExecution, Violation, WorkflowRules, check_promises
from legato.testing.request_checks import build_expected_groups
from tests.chaos.activity_log import Activity, ActivityLog
from tests.chaos.desk import AGENTS, NON_IDEMPOTENT_TOOLS, desk, make_user_messages
from tests.chaos.monkey import Fault

RULES = WorkflowRules.from_workflow(desk)
KILL_LATENCY_S = 0.02
"""The time in which a killed worker may still write."""


@dataclass
class CheckResults:
    """The results of the checks of all conversations."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    takeover_seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """For each kind of fault: the seconds until another worker continued a conversation that was interrupted."""

    def add_violation(self, promise: str, what: str) -> None:
        self.violations.append(Violation(promise, what))


async def check_results(
    store: Store, engine: Engine, log: ActivityLog, faults: Sequence[Fault], seed: int, names: Sequence[str], turns: int
) -> CheckResults:
    """Check all conversations."""
    results = CheckResults()
    log.read()
    activities: dict[str, list[Activity]] = defaultdict(list)
    for activity in log.activities:
        activities[activity.session].append(activity)
    for name in names:
        facts = list(await store.read(name))
        requests = await _read_last_requests(store, name, facts)
        for violation in check_promises(facts, requests, _make_deeds(activities[name]), rules=RULES, session=name):
            results.add_violation(violation.promise, f"{name}: {violation.description}")
        _check_messages(results, name, facts, make_user_messages(seed, name, turns))
        _check_sent_requests(results, name, facts, activities[name])
        _check_tool_starts(results, name, activities[name])
        _count_facts(results, facts, activities[name])
        _measure_takeovers(results, facts, activities[name], faults)
    stored = {info.ledger for info in await store.list(len(names) + 100)}
    if stored != set(names):
        results.add_violation("D1", f"conversations that nobody held, or that are gone: {sorted(stored ^ set(names))[:5]}")
    for parked in await engine.list_parked():
        results.add_violation("D4", f"{parked.session} was set aside: {parked.error}")
    if hasattr(store, "verify"):
        for problem in await store.verify():
            results.add_violation("D1", problem)
    return results


async def _read_last_requests(store: Store, name: str, facts: Sequence[AnyFact]) -> list[ModelRequest]:
    """Return the last request of each agent, reconstructed from the ledger: each contains the whole conversation."""
    replies = [fact.agent for fact in facts if isinstance(fact, ModelReplied)]
    last = {agent: index for index, agent in enumerate(replies)}
    session = desk.session(name, store=store)
    try:
        return [await session.seen(last[agent]) for agent in AGENTS if agent in last]
    except IllegalFact:  # the checkers say so too
        return []


def _make_deeds(activities: Sequence[Activity]) -> list[ToolExecution]:
    return [
        ToolExecution(activity.details["key"], activity.name, activity.session, activity.details["attempt"])
        for activity in activities
        if activity.kind == "tool"
    ]


def _check_messages(results: CheckResults, name: str, facts: Sequence[AnyFact], messages: list[str]) -> None:
    """Check that every message is recorded once, in order, and that the last one was answered."""
    recorded = [render_content(fact.content) for fact in facts if isinstance(fact, MessageReceived)]
    if recorded != messages:
        results.add_violation("C1", f"{name}: {len(recorded)} messages are recorded, {len(messages)} were said: {recorded[-3:]}")
    last = next((fact for fact in reversed(facts) if isinstance(fact, ModelReplied)), None)
    text = "".join(item.text for item in last.items if isinstance(item, OutputText)) if last else ""
    if text != f"done {messages[-1].split()[0]}":
        results.add_violation("D4", f"{name}: it did not come to its end, but to {text!r}")


def _check_sent_requests(results: CheckResults, name: str, facts: Sequence[AnyFact], activities: Sequence[Activity]) -> None:
    """Check that every model really got the conversation so far, each entry once and in order, and that its reply is recorded once."""
    reading = LedgerChecker(facts, RULES, [])
    reading.check()
    requests = {activity.details["id"]: activity for activity in activities if activity.kind == "model"}
    for activity in requests.values():
        upto = activity.details["upto"]
        if upto >= len(facts):
            results.add_violation("C1", f"{name}: {activity.name} was sent up to {upto}; there are {len(facts)} facts")
            continue
        expected = [_token(kind, at, facts) for tokens, _, _ in build_expected_groups(reading, upto, activity.name) for kind, at in tokens]
        if (actual := activity.details["tokens"].split()) != expected:
            differs = next((pair for pair in zip(actual, expected, strict=False) if pair[0] != pair[1]), (actual[-1:], expected[-1:]))
            results.add_violation(
                "C1", f"{name}: {activity.name} was sent {differs[0]} where {differs[1]} belongs ({len(actual)} instead of {len(expected)})"
            )
    for position, fact in enumerate(facts):
        if isinstance(fact, ModelReplied):
            activity = requests.get(fact.response_id)
            if activity is None or (activity.name, activity.details["upto"]) != (fact.agent, fact.upto):
                results.add_violation("D1", f"{name}: the reply at {position} is not what a model gave")


def _token(kind: str, at: object, facts: Sequence[AnyFact]) -> str:
    if kind == "user":
        fact = facts[at]  # type: ignore[call-overload]
        return f"u{at}={render_content(fact.content).split(' ')[0]}"
    return f"{kind[0]}{at}"


def _check_tool_starts(results: CheckResults, name: str, activities: Sequence[Activity]) -> None:
    """Check that no non-idempotent tool was started twice: the simulated users never ask for that."""
    starts = Counter(
        activity.details["key"] for activity in activities if activity.kind == "tool" and activity.name in NON_IDEMPOTENT_TOOLS
    )
    for key, times in starts.items():
        if times > 1:
            results.add_violation("D2", f"{name}: a tool that may not be started twice was started {times} times, for {key}")


def _count_facts(results: CheckResults, facts: Sequence[AnyFact], activities: Sequence[Activity]) -> None:
    results.counts["conversations"] += 1
    results.counts["facts"] += len(facts)
    for kind in (MessageReceived, ModelReplied, ModelRequestFailed, HandedOff, CallStarted, CallLost):
        results.counts[kind.__name__] += sum(isinstance(fact, kind) for fact in facts)
    results.counts["late outcomes"] += sum(isinstance(fact, CallReturned) and fact.late for fact in facts)
    for fact in facts:
        if isinstance(fact, Decided):
            results.counts[f"decided: {fact.kind}"] += 1
    results.counts["model requests"] += sum(activity.kind == "model" for activity in activities)
    results.counts["started tools"] += sum(activity.kind == "tool" for activity in activities)
    results.counts["started non-idempotent tools"] += sum(
        activity.kind == "tool" and activity.name in NON_IDEMPOTENT_TOOLS for activity in activities
    )


def _measure_takeovers(results: CheckResults, facts: Sequence[AnyFact], activities: Sequence[Activity], faults: Sequence[Fault]) -> None:
    """Measure the time until another worker continued the work of a killed or stopped one."""
    for fault in faults:
        if fault.kind not in ("worker killed", "worker stopped"):
            continue
        if any(
            activity.worker == fault.worker and activity.started_at < fault.started_at and not 0 < activity.ended_at < fault.started_at
            for activity in activities
        ):
            after = [
                fact.at / 1000
                for fact in facts
                if fact.at / 1000 > fault.started_at + KILL_LATENCY_S and not isinstance(fact, (MessageReceived, Decided))
            ]
            if after and not 0 < fault.ended_at < after[0]:
                results.takeover_seconds[fault.kind].append(after[0] - fault.started_at)
            elif after:
                results.counts["continued by themselves"] += 1


def format_distribution(seconds: Sequence[float]) -> str:
    """Return count, median, 95th percentile and maximum of durations."""
    ordered = sorted(seconds)
    if not ordered:
        return "none"
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"{len(ordered)}, median {statistics.median(ordered):.1f} s, 95 of 100 {high:.1f} s, longest {ordered[-1]:.1f} s"
