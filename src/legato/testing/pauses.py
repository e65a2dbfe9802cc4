"""Messages that wait and limits that pause, checked on raw facts. May know: facts as they were recorded. Decides: what a run is.

A message that guardrails must judge is part of the conversation from the verdict that lets it pass, and one that they withhold never
is. So a run begins there, and counts on over whatever was withheld in between. Written apart from the fold, as all of `promises.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legato.core.facts import (
    NO_OPTIONS,
    AnyFact,
    Call,
    CallLost,
    CallPaused,
    CallRef,
    CallReturned,
    CallStarted,
    ChildUsageReported,
    Decided,
    GuardrailJudged,
    HandedOff,
    MessageReceived,
    ModelReplied,
    Opened,
    RunOptions,
)
from legato.core.workflow_graph import Limits

_NO_LIMITS = Limits(tool_rounds=None)


class Landings:
    """Which messages are part of the conversation, as one walks through the facts."""

    def __init__(self) -> None:
        self.outside: set[int] = set()
        """Those that no guardrail has judged yet."""
        self.unseen: set[int] = set()
        """Those that no reply has seen."""

    def landed(self, position: int, fact: AnyFact) -> int:
        """The position of the message that takes its place in the conversation by this fact; -1 if none does."""
        if isinstance(fact, MessageReceived):
            if fact.guarded:
                self.outside.add(position)
                return -1
            self.unseen.add(position)
            return position
        if isinstance(fact, GuardrailJudged) and fact.kind == "input":
            waited = fact.position in self.outside
            self.outside.discard(fact.position)
            if fact.stop:
                self.unseen.discard(fact.position)
            elif waited:
                self.unseen.add(fact.position)
                return fact.position
        if isinstance(fact, ModelReplied):
            self.unseen = {message for message in self.unseen if message > fact.upto}
        return -1


def options_at(facts: Sequence[AnyFact]) -> RunOptions:
    """The client's options in force when the ledger ended here: of the newest message that was let pass, or of an answer since."""
    messages, options = Landings(), NO_OPTIONS
    for position, fact in enumerate(facts):
        landed = messages.landed(position, fact)
        message = facts[landed] if landed >= 0 else None
        if isinstance(message, MessageReceived):
            options = message.options or NO_OPTIONS
        elif isinstance(fact, Decided) and fact.options is not None:
            options = fact.options
    return options


class _Counted:
    """What one run has used of its limits."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}
        self.tool_rounds = 0
        self.allowed: dict[str, int] = {}
        self.refused = False

    def add(self, what: str, count: int = 1) -> int:
        """How much of something is used, with this."""
        used = self.used[what] = self.used.get(what, 0) + count
        return used

    def permits(self, name: str, used: int, limit: int | None) -> bool:
        """Whether so much may be used: what the limit says, and as much again for each time that a person allowed more."""
        return limit is None or used <= limit * (1 + self.allowed.get(name, 0))


def check_pauses(facts: Sequence[AnyFact], limits: Limits | None) -> Iterator[tuple[str, str]]:
    """Promises that are broken, and how: a limit was passed and nobody was asked, or a call gave way to a message that is not there."""
    return _Pauses(facts, limits or _NO_LIMITS).check()


class _Pauses:
    """The facts, read once, and what the run that goes on has used."""

    def __init__(self, facts: Sequence[AnyFact], limits: Limits) -> None:
        self._facts = facts
        self._limits = limits
        self._messages = Landings()
        self._run = _Counted()
        self._children: dict[CallRef, int] = {}  # model replies that the child session of a call has reported
        # What a driver that died had not reported comes later than it was used; so it does where a branch goes on with a child session.
        exact = not any(isinstance(fact, CallLost) or (isinstance(fact, Opened) and fact.origin) for fact in facts)
        self._exact = exact and len({fact.epoch for fact in facts if isinstance(fact, CallStarted)}) <= 1
        self._gone_on = {(fact.call, fact.attempt + 1) for fact in facts if isinstance(fact, CallPaused)}

    def check(self) -> Iterator[tuple[str, str]]:
        for position, fact in enumerate(self._facts):
            if self._messages.landed(position, fact) >= 0:
                self._run = _Counted()
            match fact:
                case Decided(kind="limit"):
                    self._decide(fact)
                case Opened(origin=origin) if origin and origin.kind != "move":
                    self._run.allowed.clear()  # a fork or a copy asks again
                case CallReturned(status="superseded") if not self._messages.unseen:
                    yield "C1", f"at {position} call {fact.call} was superseded, and no message that anybody was let say had come"
                case ModelReplied() | HandedOff():
                    yield from self._check_tool_rounds(position, fact)
                case ChildUsageReported():
                    yield from self._check_children(position, fact)
                case _:
                    pass
            yield from self._check_uses(position, fact)

    def _decide(self, fact: Decided) -> None:
        self._run.allowed[fact.limit] = self._run.allowed.get(fact.limit, 0) + (fact.verdict == "approve")
        self._run.refused = self._run.refused or fact.verdict == "reject"

    def _check_tool_rounds(self, position: int, fact: ModelReplied | HandedOff) -> Iterator[tuple[str, str]]:
        run, most = self._run, self._limits.tool_rounds
        if isinstance(fact, ModelReplied) and not run.permits("tool_rounds", run.tool_rounds + 1, most):
            yield "D4", f"at {position} {fact.agent} replied after {run.tool_rounds} tool rounds in a row, the limit is {most}"
        calls = isinstance(fact, ModelReplied) and any(isinstance(item, Call) for item in fact.items)
        run.tool_rounds = run.tool_rounds + 1 if calls else 0

    def _check_children(self, position: int, fact: ChildUsageReported) -> Iterator[tuple[str, str]]:
        more = fact.turns - self._children.get(fact.call, 0)
        self._children[fact.call] = fact.turns
        turns, limit = self._run.add("turns", more), self._limits.turns
        if self._exact and not self._run.permits("turns", turns, limit):
            yield "D4", f"at {position} the limit of {limit} turns was passed by child sessions, and nobody was asked: {turns} turns"

    def _check_uses(self, position: int, fact: AnyFact) -> Iterator[tuple[str, str]]:
        if isinstance(fact, CallStarted) and (fact.call, fact.attempt) in self._gone_on:
            return  # a call that waited goes on, and is no other call
        for name, what in _uses(fact):
            limit, used = getattr(self._limits, name), self._run.add(what)
            # What a refused limit finds started comes to its end.
            if not self._run.permits(name, used, limit) and not (self._run.refused and name == "tool_calls"):
                yield "D4", f"at {position} the limit of {limit} {name} was passed, and nobody was asked: number {used} of {what}"


def _uses(fact: AnyFact) -> Iterator[tuple[str, str]]:
    """The limits that a fact uses up by one, and what is counted for each."""
    if isinstance(fact, ModelReplied):
        yield "turns", "turns"
    elif isinstance(fact, CallStarted):
        yield "tool_calls", "tool_calls"
    elif isinstance(fact, HandedOff):
        yield "handoffs", "handoffs"
        yield "same_edge", f"{fact.source} -> {fact.target}"
