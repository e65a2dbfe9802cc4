"""Calls that waited for other conversations, checked on raw facts. May know: the ledgers of a store. Decides: what one owes another.

Each ledger keeps its promises by itself (`check_promises`). This is about what lies between two of them: a call that waits and the
conversation that is held for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from legato.core.facts import AnyFact, Opened, Paused, Returned, Started
from legato.testing.recorded import Reading
from legato.testing.violations import Rules, Violation


def check_waiting(ledgers: Mapping[str, Sequence[AnyFact]]) -> Iterator[Violation]:
    """Promises that are broken between ledgers: these are all that a store has."""
    owners: dict[str, str] = {}
    for name, facts in ledgers.items():
        own = max((index for index, fact in enumerate(facts) if isinstance(fact, Opened)), default=0)
        for position, fact in enumerate(facts):
            if not isinstance(fact, Paused) or position < own:
                continue
            if owners.setdefault(fact.session, name) != name:
                yield Violation("S2", f"{name} and {owners[fact.session]} wait for one conversation, {fact.session}: one decides for both")
            yield from _gone_on(name, facts, position, fact, ledgers.get(fact.session, ()))


def _gone_on(name: str, facts: Sequence[AnyFact], position: int, waits: Paused, there: Sequence[AnyFact]) -> Iterator[Violation]:
    """What became of a call that waited."""
    about = [fact for fact in facts[position + 1 :] if isinstance(fact, (Started, Returned, Paused)) and fact.call == waits.call]
    followed = about[0] if about else None
    again = next((fact.length for fact in about if isinstance(fact, Paused)), len(there))
    if isinstance(followed, Started) and again <= waits.length:
        yield Violation("D2", f"call {waits.call} of {name} was started again, and nobody had answered what {waits.session} asks")
    if isinstance(followed, Returned):
        reading = Reading(there, Rules(), [])
        reading.read()
        for call in reading.calls.values():
            if not call.answers:
                told = f"call {waits.call} of {name} was answered ({followed.status}) while it waited"
                yield Violation("S2", f"{told}, and what {waits.session} asks about {call.tool} can still be approved")
