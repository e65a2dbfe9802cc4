"""Checks, on raw facts, of limits and of messages that wait for guardrails.

A message that waits for guardrails joins the conversation when they let it pass. A withheld message never joins. A run begins when a
message joins, so a withheld message does not end it. These checks do not use the fold, like all of `promise_checks.py`.
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
from legato.core.limits import Limits

_NO_LIMITS = Limits(tool_rounds=None)


class AdmittedMessages:
    """The messages that have joined the conversation, fact by fact."""

    def __init__(self) -> None:
        self.unchecked: set[int] = set()
        """Positions of messages that wait for guardrails."""
        self.unseen: set[int] = set()
        """Positions of messages in the conversation that no reply has seen."""

    def apply(self, position: int, fact: AnyFact) -> int:
        """Apply the next fact, and return the position of the message that joins the conversation by it; -1 if none does."""
        if isinstance(fact, MessageReceived):
            if fact.awaits_guardrails:
                self.unchecked.add(position)
                return -1
            self.unseen.add(position)
            return position
        if isinstance(fact, GuardrailJudged) and fact.kind == "input":
            was_unchecked = fact.position in self.unchecked
            self.unchecked.discard(fact.position)
            if fact.stop:
                self.unseen.discard(fact.position)
            elif was_unchecked:
                self.unseen.add(fact.position)
                return fact.position
        if isinstance(fact, ModelReplied):
            self.unseen = {message for message in self.unseen if message > fact.upto}
        return -1


def find_run_options(facts: Sequence[AnyFact]) -> RunOptions:
    """Return the client's options in force after these facts: those of the newest message in the conversation, or of an answer since."""
    messages, options = AdmittedMessages(), NO_OPTIONS
    for position, fact in enumerate(facts):
        admitted = messages.apply(position, fact)
        message = facts[admitted] if admitted >= 0 else None
        if isinstance(message, MessageReceived):
            options = message.options or NO_OPTIONS
        elif isinstance(fact, Decided) and fact.options is not None:
            options = fact.options
    return options


class _RunUsage:
    """The counters of one run, and the extensions of its limits."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.tool_rounds = 0
        self.extensions: dict[str, int] = {}
        self.is_limit_refused = False

    def count(self, name: str, amount: int = 1) -> int:
        """Add to a counter, and return it."""
        total = self.counts[name] = self.counts.get(name, 0) + amount
        return total

    def permits(self, name: str, count: int, limit: int | None) -> bool:
        """Return True if the count is within the limit. Each extension by a person adds the same amount again."""
        return limit is None or count <= limit * (1 + self.extensions.get(name, 0))


def check_limits(facts: Sequence[AnyFact], limits: Limits | None) -> Iterator[tuple[str, str]]:
    """Yield broken promises with descriptions: a limit was exceeded without asking, or a call was superseded without a new message."""
    return _LimitChecker(facts, limits or _NO_LIMITS).check()


class _LimitChecker:
    """Reads the facts once, with the usage of the current run."""

    def __init__(self, facts: Sequence[AnyFact], limits: Limits) -> None:
        self._facts = facts
        self._limits = limits
        self._messages = AdmittedMessages()
        self._usage = _RunUsage()
        self._reported_turns: dict[CallRef, int] = {}  # by call, the last report of its child session
        # Usage is reported late after a driver's death, and where a branch continues a child session. Then a limit may be exceeded.
        is_linear = not any(isinstance(fact, CallLost) or (isinstance(fact, Opened) and fact.origin) for fact in facts)
        self._is_exact = is_linear and len({fact.epoch for fact in facts if isinstance(fact, CallStarted)}) <= 1
        self._resumed_attempts = {(fact.call, fact.attempt + 1) for fact in facts if isinstance(fact, CallPaused)}

    def check(self) -> Iterator[tuple[str, str]]:
        for position, fact in enumerate(self._facts):
            if self._messages.apply(position, fact) >= 0:
                self._usage = _RunUsage()
            match fact:
                case Decided(kind="limit"):
                    self._apply_decision(fact)
                case Opened(origin=origin) if origin and origin.kind != "move":
                    self._usage.extensions.clear()  # a fork or a copy must ask again
                case CallReturned(status="superseded") if not self._messages.unseen:
                    yield "C1", f"at {position} call {fact.call} was superseded without a new message in the conversation"
                case ModelReplied() | HandedOff():
                    yield from self._check_tool_rounds(position, fact)
                case ChildUsageReported():
                    yield from self._check_child_turns(position, fact)
                case _:
                    pass
            yield from self._check_counted_limits(position, fact)

    def _apply_decision(self, fact: Decided) -> None:
        self._usage.extensions[fact.limit] = self._usage.extensions.get(fact.limit, 0) + (fact.verdict == "approve")
        self._usage.is_limit_refused = self._usage.is_limit_refused or fact.verdict == "reject"

    def _check_tool_rounds(self, position: int, fact: ModelReplied | HandedOff) -> Iterator[tuple[str, str]]:
        usage, limit = self._usage, self._limits.tool_rounds
        if isinstance(fact, ModelReplied) and not usage.permits("tool_rounds", usage.tool_rounds + 1, limit):
            yield "D4", f"at {position} {fact.agent} replied after {usage.tool_rounds} tool rounds in a row, the limit is {limit}"
        has_calls = isinstance(fact, ModelReplied) and any(isinstance(item, Call) for item in fact.items)
        usage.tool_rounds = usage.tool_rounds + 1 if has_calls else 0

    def _check_child_turns(self, position: int, fact: ChildUsageReported) -> Iterator[tuple[str, str]]:
        more = fact.turns - self._reported_turns.get(fact.call, 0)
        self._reported_turns[fact.call] = fact.turns
        turns, limit = self._usage.count("turns", more), self._limits.turns
        if self._is_exact and not self._usage.permits("turns", turns, limit):
            yield "D4", f"at {position} child sessions exceeded the limit of {limit} turns without asking: {turns} turns"

    def _check_counted_limits(self, position: int, fact: AnyFact) -> Iterator[tuple[str, str]]:
        if isinstance(fact, CallStarted) and (fact.call, fact.attempt) in self._resumed_attempts:
            return  # a paused call that continues is counted once
        for name, counter in _list_counted_limits(fact):
            limit, count = getattr(self._limits, name), self._usage.count(counter)
            # Calls that were started before a person refused an extension are finished.
            if not self._usage.permits(name, count, limit) and not (self._usage.is_limit_refused and name == "tool_calls"):
                yield "D4", f"at {position} the limit of {limit} {name} was exceeded without asking: number {count} of {counter}"


def _list_counted_limits(fact: AnyFact) -> Iterator[tuple[str, str]]:
    """Yield the limits to which a fact counts, each with the name of its counter."""
    if isinstance(fact, ModelReplied):
        yield "turns", "turns"
    elif isinstance(fact, CallStarted):
        yield "tool_calls", "tool_calls"
    elif isinstance(fact, HandedOff):
        yield "handoffs", "handoffs"
        yield "same_edge", f"{fact.source} -> {fact.target}"
