"""What holds between a session and its child sessions, checked on raw facts: none is missing, none is begun again, all is counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from legato.core.child_session_ids import child_session_id, parent_calls
from legato.core.facts import (
    NO_USAGE,
    AnyFact,
    CallLost,
    CallRef,
    CallReturned,
    CallStarted,
    ChildUsageReported,
    ModelReplied,
    ModelRequestFailed,
    Opened,
)
from legato.core.state import State, fold
from legato.errors import IllegalFact
from legato.testing.effects import call_key
from legato.testing.violations import Violation


def check_families(ledgers: Mapping[str, Sequence[AnyFact]], *, orphans: bool = False, late_attempts: bool = False) -> Iterator[Violation]:
    """Promises that are broken between a session and its child sessions. These are all ledgers of one store.

    `orphans`: child sessions may be there without their parent, since a copy was killed that would have brought it. A fork or a beginning
    that was interrupted leaves some too, in which nothing has happened. `late_attempts`: one that was taken for lost may have begun a child
    session after the next had started.
    """
    for name, facts in ledgers.items():
        parent = next(parent_calls(name), None)
        if parent is not None and parent[0] not in ledgers:
            if orphans or not any(isinstance(fact, (ModelReplied, ModelRequestFailed)) for fact in facts[_own(facts) :]):
                continue
            yield Violation("D2", f"the child session {name} is there without its parent")
        elif parent is not None and not late_attempts:
            yield from _check_birth(name, facts, parent[2], ledgers[parent[0]])
        with suppress(IllegalFact):  # `check_promises` says so
            yield from _check_answers(name, facts, ledgers)


def _own(facts: Sequence[AnyFact]) -> int:
    """Where a branch begins to have facts of its own."""
    return max((at for at, fact in enumerate(facts) if isinstance(fact, Opened)), default=0)


def _check_birth(name: str, facts: Sequence[AnyFact], call: CallRef, parent: Sequence[AnyFact]) -> Iterator[Violation]:
    """A child session begins in the first attempt of its call, or after a person was asked about one that is missing."""
    missing = {fact.attempt for fact in parent if isinstance(fact, CallLost) and fact.call == call and fact.missing}
    possible = _attempts_that_began(facts[0].at, call, parent, missing)
    if possible and not any(attempt == 1 or attempt - 1 in missing for attempt in possible):
        yield Violation("D2", f"the child session {name} was begun again in attempt {possible[0]}, and nobody had been asked")


def _attempts_that_began(born: int, call: CallRef, parent: Sequence[AnyFact], missing: set[int]) -> list[int]:
    """The attempts that may have begun a child session at a time. One that found it missing did not."""
    able = [fact for fact in parent if isinstance(fact, CallStarted) and fact.call == call and fact.attempt not in missing]
    before = [start.attempt for start in able if start.at < born]
    return [*before[-1:], *(start.attempt for start in able if start.at == born)]


def _check_answers(name: str, facts: Sequence[AnyFact], ledgers: Mapping[str, Sequence[AnyFact]]) -> Iterator[Violation]:
    """A session used what it and its child sessions used. One that has returned has reported everything; one that failed is not over."""
    counted, reported = _count_usage(facts)
    missing = {fact.call for fact in facts if isinstance(fact, CallLost) and fact.missing}
    usage = fold(facts).spent.total
    if not missing and usage.total != counted:
        yield Violation("usage", f"{name} says that it used {usage.total} tokens, and its facts say otherwise")
    for fact in facts[_own(facts) :]:
        if not isinstance(fact, CallReturned) or fact.status not in ("ok", "error") or fact.late or fact.call in missing:
            continue
        child = ledgers.get(child_session_id(name, call_key(list(facts), fact.call)))
        if child is not None:
            yield from _check_returned(name, fact, fold(child), reported.get(fact.call, 0))


def _count_usage(facts: Sequence[AnyFact]) -> tuple[int, dict[CallRef, int]]:
    """The tokens that a session and its child sessions used, and those that the child session of each call reported last."""
    counted = sum((fact.usage for fact in facts if isinstance(fact, (ModelReplied, ModelRequestFailed))), NO_USAGE).total
    reported: dict[CallRef, int] = {}
    for fact in facts:
        if isinstance(fact, ChildUsageReported):
            now = sum(usage.total for _, usage in fact.agents)
            counted += max(0, now - reported.get(fact.call, 0))  # a branch goes back to where its parent last waited
            reported[fact.call] = now
    return counted, reported


def _check_returned(name: str, fact: CallReturned, child: State, known: int) -> Iterator[Violation]:
    """What a call returned, compared with its child session."""
    if fact.status == "error":
        if child.failed is not None and child.failed.final:
            yield Violation("D4", f"call {fact.call} of {name} was answered, and its child session has only failed")
    elif (used := child.spent.total.total) != known:
        yield Violation("usage", f"call {fact.call} of {name} returned, and counts {known} of the {used} tokens that its child used")
