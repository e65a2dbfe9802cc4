"""What is looked at when all is over. May know: ledgers, and the book. Decides: what was lost, doubled, or done twice.

The project's own checkers read the raw facts; what models were really sent, and what tools really did, comes from the book.
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
    Words,
)
from legato.core.messages import text_of
from legato.core.view import Request
from legato.engines import Engine
from legato.errors import IllegalFact
from legato.stores.contract import Store
from legato.testing.promises import Deed, Rules, Violation, check_promises
from legato.testing.recorded import Reading
from legato.testing.sent import expected
from tests.chaos.book import Act, Book
from tests.chaos.desk import AGENTS, ONCE, desk, script
from tests.chaos.monkey import Blow

RULES = Rules.of(desk)
HARDLY = 0.02
"""Seconds in which a worker that is killed may still be dying."""


@dataclass
class Judgement:
    """What was found in all conversations."""

    counts: Counter[str] = field(default_factory=Counter)
    broken: list[Violation] = field(default_factory=list)
    taken_over: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """For each kind of blow: seconds until somebody else went on with a conversation that the worker was in the middle of."""

    def say(self, promise: str, what: str) -> None:
        self.broken.append(Violation(promise, what))


async def judge(store: Store, engine: Engine, book: Book, blows: Sequence[Blow], seed: int, names: Sequence[str], turns: int) -> Judgement:
    """Look at everything."""
    found = Judgement()
    book.read()
    acts: dict[str, list[Act]] = defaultdict(list)
    for act in book.acts:
        acts[act.session].append(act)
    for name in names:
        facts = list(await store.read(name))
        requests = await _requests(store, name, facts)
        for violation in check_promises(facts, requests, _deeds(acts[name]), rules=RULES, session=name):
            found.say(violation.promise, f"{name}: {violation.what}")
        _heard(found, name, facts, script(seed, name, turns))
        _sent(found, name, facts, acts[name])
        _once(found, name, acts[name])
        _count(found, facts, acts[name])
        _takeovers(found, facts, acts[name], blows)
    known = {info.ledger for info in await store.list(len(names) + 100)}
    if known != set(names):
        found.say("D1", f"conversations that nobody held, or that are gone: {sorted(known ^ set(names))[:5]}")
    for dead in await engine.dead():
        found.say("D4", f"{dead.session} was set aside: {dead.error}")
    if hasattr(store, "verify"):
        for problem in await store.verify():
            found.say("D1", problem)
    return found


async def _requests(store: Store, name: str, facts: Sequence[AnyFact]) -> list[Request]:
    """The last request of each agent, as the ledger tells it: each has the whole conversation in it."""
    replies = [fact.agent for fact in facts if isinstance(fact, ModelReplied)]
    last = {agent: index for index, agent in enumerate(replies)}
    session = desk.session(name, store=store)
    try:
        return [await session.seen(last[agent]) for agent in AGENTS if agent in last]
    except IllegalFact:  # the checkers say so too
        return []


def _deeds(acts: Sequence[Act]) -> list[Deed]:
    return [Deed(act.more["key"], act.name, act.session, act.more["attempt"]) for act in acts if act.kind == "tool"]


def _heard(found: Judgement, name: str, facts: Sequence[AnyFact], messages: list[str]) -> None:
    """Every message is there once, in order, and the last one was answered."""
    said = [text_of(fact.content) for fact in facts if isinstance(fact, MessageReceived)]
    if said != messages:
        found.say("C1", f"{name}: {len(said)} messages are recorded, {len(messages)} were said: {said[-3:]}")
    last = next((fact for fact in reversed(facts) if isinstance(fact, ModelReplied)), None)
    words = "".join(item.text for item in last.items if isinstance(item, Words)) if last else ""
    if words != f"done {messages[-1].split()[0]}":
        found.say("D4", f"{name}: it did not come to its end, but to {words!r}")


def _sent(found: Judgement, name: str, facts: Sequence[AnyFact], acts: Sequence[Act]) -> None:
    """What every model was really sent is the conversation up to there, each thing once and in order; what it replied is there once."""
    reading = Reading(facts, RULES, [])
    reading.read()
    sent = {act.more["id"]: act for act in acts if act.kind == "model"}
    for act in sent.values():
        upto = act.more["upto"]
        if upto >= len(facts):
            found.say("C1", f"{name}: {act.name} was sent up to {upto}; there are {len(facts)} facts")
            continue
        wanted = [_token(kind, at, facts) for tokens, _, _ in expected(reading, upto, act.name) for kind, at in tokens]
        if (saw := act.more["saw"].split()) != wanted:
            differs = next((pair for pair in zip(saw, wanted, strict=False) if pair[0] != pair[1]), (saw[-1:], wanted[-1:]))
            found.say("C1", f"{name}: {act.name} was sent {differs[0]} where {differs[1]} belongs ({len(saw)} instead of {len(wanted)})")
    for position, fact in enumerate(facts):
        if isinstance(fact, ModelReplied):
            act = sent.get(fact.response_id)
            if act is None or (act.name, act.more["upto"]) != (fact.agent, fact.upto):
                found.say("D1", f"{name}: the reply at {position} is not what a model gave")


def _token(kind: str, at: object, facts: Sequence[AnyFact]) -> str:
    if kind == "user":
        fact = facts[at]  # type: ignore[call-overload]
        return f"u{at}={text_of(fact.content).split(' ')[0]}"
    return f"{kind[0]}{at}"


def _once(found: Judgement, name: str, acts: Sequence[Act]) -> None:
    """No body of a tool began twice that may not: the people of this house never ask for that."""
    begun = Counter(act.more["key"] for act in acts if act.kind == "tool" and act.name in ONCE)
    for key, times in begun.items():
        if times > 1:
            found.say("D2", f"{name}: a tool that may not be started twice was started {times} times, for {key}")


def _count(found: Judgement, facts: Sequence[AnyFact], acts: Sequence[Act]) -> None:
    found.counts["conversations"] += 1
    found.counts["facts"] += len(facts)
    for kind in (MessageReceived, ModelReplied, ModelRequestFailed, HandedOff, CallStarted, CallLost):
        found.counts[kind.__name__] += sum(isinstance(fact, kind) for fact in facts)
    found.counts["late outcomes"] += sum(isinstance(fact, CallReturned) and fact.late for fact in facts)
    for fact in facts:
        if isinstance(fact, Decided):
            found.counts[f"decided: {fact.kind}"] += 1
    found.counts["models asked"] += sum(act.kind == "model" for act in acts)
    found.counts["tools begun"] += sum(act.kind == "tool" for act in acts)
    found.counts["tools begun that may not be twice"] += sum(act.kind == "tool" and act.name in ONCE for act in acts)


def _takeovers(found: Judgement, facts: Sequence[AnyFact], acts: Sequence[Act], blows: Sequence[Blow]) -> None:
    """When somebody else went on with what a worker was in the middle of."""
    for blow in blows:
        if blow.kind not in ("worker killed", "worker stopped"):
            continue
        if any(act.worker == blow.worker and act.began < blow.at and not 0 < act.ended < blow.at for act in acts):
            after = [
                fact.at / 1000 for fact in facts if fact.at / 1000 > blow.at + HARDLY and not isinstance(fact, (MessageReceived, Decided))
            ]
            if after and not 0 < blow.until < after[0]:
                found.taken_over[blow.kind].append(after[0] - blow.at)
            elif after:
                found.counts["zombies that went on by themselves"] += 1


def spread(seconds: Sequence[float]) -> str:
    """Seconds, in a few words."""
    ordered = sorted(seconds)
    if not ordered:
        return "none"
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"{len(ordered)}, median {statistics.median(ordered):.1f} s, 95 of 100 {high:.1f} s, longest {ordered[-1]:.1f} s"
