"""Checks, on raw facts, of calls that waited for their child sessions.

`check_promises` checks each ledger by itself. These checks are between two ledgers: that of a call that paused, and its child session's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from legato.core.child_session_ids import make_child_session_id
from legato.core.facts import NO_USAGE, AnyFact, CallLost, CallPaused, CallRef, CallReturned, CallStarted, Opened
from legato.testing.effect_log import find_idempotency_key
from legato.testing.ledger_checker import LedgerChecker
from legato.testing.violations import Violation, WorkflowRules


def check_child_sessions(ledgers: Mapping[str, Sequence[AnyFact]]) -> Iterator[Violation]:
    """Yield the promises broken between ledgers and those of child sessions. `ledgers` are all ledgers of one store."""
    parents: dict[str, str] = {}
    for name, facts in ledgers.items():
        own_start = max((index for index, fact in enumerate(facts) if isinstance(fact, Opened)), default=0)  # a branch shares earlier facts
        for events in _list_call_events(facts, own_start).values():
            for index, fact in enumerate(events):
                if not isinstance(fact, CallPaused):
                    continue
                if parents.setdefault(fact.session, name) != name:
                    description = f"{name} and {parents[fact.session]} wait for one child session, {fact.session}: one decides for both"
                    yield Violation("S2", description)
                yield from _check_paused_call(name, fact, events[index + 1 : index + 3], ledgers)
        yield from _check_branch(name, facts, own_start, ledgers)


def _check_branch(name: str, facts: Sequence[AnyFact], own_start: int, ledgers: Mapping[str, Sequence[AnyFact]]) -> Iterator[Violation]:
    """Check that a branch continues the child sessions for which calls waited when it branched off."""
    missing = {fact.call for fact in facts[own_start:] if isinstance(fact, CallLost) and fact.missing}
    for call, events in _list_call_events(facts[:own_start], 0).items():
        pause = next(fact for fact in reversed(events) if isinstance(fact, CallPaused))
        if _was_missing(call, facts[list(facts).index(pause) : own_start]):
            continue
        key = find_idempotency_key(list(facts), call)
        own_child = ledgers.get(make_child_session_id(name, key), ())
        if call in missing:
            parent_child = ledgers.get(make_child_session_id(_find_parent_id(facts[own_start]), key), ())
            if isinstance(events[-1], CallPaused) and len(parent_child) >= pause.length:
                yield Violation("D2", f"{name} was created without a copy of {pause.session}, the child session of call {call}")
        elif not isinstance(events[-1], CallReturned) and own_child:
            original = ledgers.get(pause.session, own_child)
            if own_child[: pause.length] != original[: pause.length]:
                yield Violation("D2", f"{name} repeats what {pause.session} had done for call {call} before the branch")


def _was_missing(call: CallRef, facts: Sequence[AnyFact]) -> bool:
    """Return True if the child session of a call was missing before the branch. Then a person decided, and it may have started again."""
    return any(isinstance(fact, CallLost) and fact.missing and fact.call == call for fact in facts)


def _find_parent_id(opening: AnyFact) -> str:
    """Return the session that a branch was made from, by its first own fact; empty if it is no branch."""
    return opening.origin.session if isinstance(opening, Opened) and opening.origin else ""


def _list_call_events(facts: Sequence[AnyFact], start: int) -> dict[CallRef, list[CallStarted | CallReturned | CallPaused]]:
    """Return the starts, pauses and returns of each call that paused, in order."""
    events: dict[CallRef, list[CallStarted | CallReturned | CallPaused]] = {
        fact.call: [] for fact in facts[start:] if isinstance(fact, CallPaused)
    }
    for fact in facts[start:]:
        if isinstance(fact, (CallStarted, CallReturned, CallPaused)) and fact.call in events:
            events[fact.call].append(fact)
    return events


def _has_grown(session: str, length: int, ledgers: Mapping[str, Sequence[AnyFact]]) -> bool:
    """Return True if a child session has grown beyond `length`, or a child session of its own has since its call paused."""
    facts = ledgers.get(session, ())
    last_events = [(call, events[-1]) for call, events in _list_call_events(facts, 0).items()]
    return len(facts) > length or any(
        isinstance(last, CallPaused)
        and _has_grown(make_child_session_id(session, find_idempotency_key(list(facts), call)), last.length, ledgers)
        for call, last in last_events
    )


def _check_paused_call(
    name: str, pause: CallPaused, events: Sequence[CallStarted | CallReturned | CallPaused], ledgers: Mapping[str, Sequence[AnyFact]]
) -> Iterator[Violation]:
    """Check the two events after a pause: the call was started again, and perhaps paused again; or it got an output."""
    child = ledgers.get(pause.session, ())
    next_event = events[0] if events else None
    if isinstance(next_event, CallStarted) and not pause.retry_at:  # with `retry_at` the call continues by itself
        second_event = events[1] if len(events) > 1 else None
        # A failed child session is retried when its parent is resumed, one that ran out of budget when the budget grows.
        may_retry = pause.error or pause.needed != NO_USAGE
        if isinstance(second_event, CallPaused):
            has_grown = second_event.length > pause.length
        else:
            has_grown = _has_grown(pause.session, pause.length, ledgers)
        if not may_retry and not has_grown:
            yield Violation("D2", f"call {pause.call} of {name} was started again before the requests of {pause.session} were answered")
    if isinstance(next_event, CallReturned):
        checker = LedgerChecker(child, WorkflowRules(), [])
        checker.check()
        for call in checker.calls.values():
            if not call.outputs:
                description = f"call {pause.call} of {name} got an output ({next_event.status}) while it waited"
                yield Violation("S2", f"{description}, and call {call.tool} of {pause.session} can still be approved")
