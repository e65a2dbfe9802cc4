"""Calls that waited for other conversations, checked on raw facts. May know: the ledgers of a store. Decides: what one owes another.

Each ledger keeps its promises by itself (`check_promises`). This is about what lies between two of them: a call that waits and the
conversation that is held for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from legato.core.child_session_ids import child_session_id
from legato.core.facts import NO_USAGE, AnyFact, CallLost, CallPaused, CallRef, CallReturned, CallStarted, Opened
from legato.testing.effects import call_key
from legato.testing.recorded import Reading
from legato.testing.violations import Rules, Violation


def check_waiting(ledgers: Mapping[str, Sequence[AnyFact]]) -> Iterator[Violation]:
    """Promises that are broken between ledgers: these are all that a store has."""
    owners: dict[str, str] = {}
    for name, facts in ledgers.items():
        own = max((index for index, fact in enumerate(facts) if isinstance(fact, Opened)), default=0)  # a branch shares what lies before
        for course in _courses(facts, own).values():
            for index, fact in enumerate(course):
                if not isinstance(fact, CallPaused):
                    continue
                if owners.setdefault(fact.session, name) != name:
                    told = f"{name} and {owners[fact.session]} wait for one conversation, {fact.session}: one decides for both"
                    yield Violation("S2", told)
                yield from _gone_on(name, fact, course[index + 1 : index + 3], ledgers)
        yield from _shared(name, facts, own, ledgers)


def _shared(name: str, facts: Sequence[AnyFact], own: int, ledgers: Mapping[str, Sequence[AnyFact]]) -> Iterator[Violation]:
    """What a branch made of the conversations that calls waited for when it parted."""
    missing = {fact.call for fact in facts[own:] if isinstance(fact, CallLost) and fact.missing}
    for call, course in _courses(facts[:own], 0).items():
        waits = next(fact for fact in reversed(course) if isinstance(fact, CallPaused))
        if _was_missing(call, facts[list(facts).index(waits) : own]):
            continue
        key = call_key(list(facts), call)
        here = ledgers.get(child_session_id(name, key), ())
        if call in missing:
            there = ledgers.get(child_session_id(_parent_of(facts[own]), key), ())
            if isinstance(course[-1], CallPaused) and len(there) >= waits.length:
                yield Violation("D2", f"{name} was made without the child session of call {call}, which {waits.session} is")
        elif not isinstance(course[-1], CallReturned) and here and here[: waits.length] != ledgers.get(waits.session, here)[: waits.length]:
            yield Violation("D2", f"{name} does anew what {waits.session} had done for call {call} when the two parted")


def _was_missing(call: CallRef, facts: Sequence[AnyFact]) -> bool:
    """Whether the child session of a call was missing before the branch parted. Then people were asked, and it may have begun anew."""
    return any(isinstance(fact, CallLost) and fact.missing and fact.call == call for fact in facts)


def _parent_of(begun: AnyFact) -> str:
    """The session that a branch parted from, by the fact that it began with; empty if it is none."""
    return begun.origin.session if isinstance(begun, Opened) and begun.origin else ""


def _courses(facts: Sequence[AnyFact], start: int) -> dict[CallRef, list[CallStarted | CallReturned | CallPaused]]:
    """What happened to each call that paused, in order."""
    courses: dict[CallRef, list[CallStarted | CallReturned | CallPaused]] = {
        fact.call: [] for fact in facts[start:] if isinstance(fact, CallPaused)
    }
    for fact in facts[start:]:
        if isinstance(fact, (CallStarted, CallReturned, CallPaused)) and fact.call in courses:
            courses[fact.call].append(fact)
    return courses


def _has_grown(session: str, length: int, ledgers: Mapping[str, Sequence[AnyFact]]) -> bool:
    """Whether a conversation has more facts than when a call began to wait for it, or one has that its own calls wait for."""
    there = ledgers.get(session, ())
    waiting = [(call, course[-1]) for call, course in _courses(there, 0).items()]
    return len(there) > length or any(
        isinstance(last, CallPaused) and _has_grown(child_session_id(session, call_key(list(there), call)), last.length, ledgers)
        for call, last in waiting
    )


def _gone_on(
    name: str, waits: CallPaused, after: Sequence[CallStarted | CallReturned | CallPaused], ledgers: Mapping[str, Sequence[AnyFact]]
) -> Iterator[Violation]:
    """What became of a call that waited: it was started again, and then perhaps paused again; or it was answered."""
    there = ledgers.get(waits.session, ())
    followed = after[0] if after else None
    if isinstance(followed, CallStarted) and not waits.retry_at:  # else it goes on by itself
        again = after[1] if len(after) > 1 else None
        # A child session that failed is tried again when its parent is resumed, one that had no budget when there is some.
        tried = waits.error or waits.needed != NO_USAGE
        has_grown = again.length > waits.length if isinstance(again, CallPaused) else _has_grown(waits.session, waits.length, ledgers)
        if not tried and not has_grown:
            yield Violation("D2", f"call {waits.call} of {name} was started again, and nobody had answered what {waits.session} asks")
    if isinstance(followed, CallReturned):
        reading = Reading(there, Rules(), [])
        reading.read()
        for call in reading.calls.values():
            if not call.answers:
                told = f"call {waits.call} of {name} was answered ({followed.status}) while it waited"
                yield Violation("S2", f"{told}, and what {waits.session} asks about {call.tool} can still be approved")
