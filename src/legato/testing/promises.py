"""The promises, checked on what really happened. May know: facts as they were recorded. Decides: whether a promise was broken.

Written apart from the code it judges: it reads raw facts by itself and uses neither the fold nor the plan nor the views, so that a
mistake there is seen here. (`fold` is called once, to prove that it accepts the ledger.)

>>> from legato.core.facts import MessageReceived, Opened
>>> first, second = MessageReceived(at=1, content="hello", key="k"), MessageReceived(at=2, content="hi", key="k")
>>> check_promises([Opened(at=0, ledger="a", workflow="desk"), first, second])[0]
Violation(D6: the key 'k' was recorded twice, at 1 and 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from legato.core.facts import AnyFact, ModelReplied, Redacted, Refusal, Words
from legato.core.state import fold
from legato.core.view import Request
from legato.errors import LegatoError
from legato.models.base import Reply
from legato.testing.pauses import check_pauses
from legato.testing.recorded import Reading
from legato.testing.sent import check_replies, check_request
from legato.testing.violations import Deed, Rules, Violation

__all__ = ["Asked", "Deed", "Rules", "Violation", "check_promises", "check_stream"]

Asked: TypeAlias = Request | tuple[Request, Reply | None]
"""A request that a model was sent; with what it replied (None: nothing), where that is known."""


def check_promises(
    facts: Sequence[AnyFact],
    requests: Iterable[Asked] = (),
    deeds: Iterable[Deed | tuple[str, str]] = (),
    *,
    rules: Rules | None = None,
    acknowledged: Iterable[tuple[int, Sequence[AnyFact]]] = (),
    session: str = "",
) -> list[Violation]:
    """Every promise that this ledger, and what was asked and done for it, breaks.

    `requests` are what models were sent for it, `deeds` what tools did (as `Deed`s, or the pairs of a `World`), `acknowledged` the
    appends that were confirmed, as positions and facts.
    """
    broken: list[Violation] = []
    reading = Reading(facts, rules or Rules(), broken)
    reading.read()
    given: dict[str, tuple[Request, Reply]] = {}
    for each in requests:
        request, reply = each if isinstance(each, tuple) else (each, None)
        if not session or request.session == session:
            check_request(reading, request, broken)
        if reply is not None and reply.response_id:
            given[reply.response_id] = request, reply
    if given:
        check_replies(reading, given, broken)
    reading.check_deeds(deeds)
    broken += [Violation(promise, what) for promise, what in check_pauses(facts, reading.rules.limits)]
    for position, confirmed in acknowledged:
        if not is_recorded(reading.facts, position, confirmed):
            broken.append(Violation("D1", f"what was acknowledged at {position} is not there"))
    try:
        fold(facts, session)
    except LegatoError as error:
        broken.append(Violation("fold", f"the ledger cannot be folded: {error.summary}"))
    except Exception as error:
        broken.append(Violation("fold", f"the ledger cannot be folded: {error!r}"))
    return broken


def is_recorded(facts: Sequence[AnyFact], position: int, confirmed: Sequence[AnyFact]) -> bool:
    """Whether facts that were acknowledged are on record: as they were, or without what was erased since."""
    there = facts[position : position + len(confirmed)]
    if len(there) != len(confirmed):
        return False
    if all(now == then for now, then in zip(there, confirmed, strict=True)):
        return True
    erased = any(isinstance(fact, Redacted) for fact in facts)
    return erased and all(now == then or _the_same(now, then) for now, then in zip(there, confirmed, strict=True))


def _the_same(now: AnyFact, then: AnyFact) -> bool:
    """Whether one may be what an erasure left of the other. What exactly it left, `Redacted` says, and is checked by itself."""
    return type(now) is type(then) and now.at == then.at


def check_stream(events: Iterable[Any], facts: Sequence[AnyFact]) -> list[Violation]:
    """C6 for one observer: the pieces it was shown and that were not withdrawn are the words that were recorded."""
    broken: list[Violation] = []
    pieces: list[str] = []
    erased = {position for fact in facts if isinstance(fact, Redacted) for position in fact.positions}  # of which nobody can tell
    for event in events:
        if event.type == "output" and event.data.delta:
            pieces.append(event.data.text)
        elif event.type == "output_reset":
            pieces.clear()
        elif event.type == "message" and isinstance(fact := facts[event.position], ModelReplied):  # a guardrail's words may come in between
            words, shown = _words_of(fact), "".join(pieces)
            if pieces and shown != words and event.position not in erased:
                broken.append(Violation("C6", f"a reader was shown {shown!r} for the reply at {event.position}, which says {words!r}"))
            pieces.clear()
    if pieces:
        broken.append(Violation("C6", f"a reader was left with {''.join(pieces)!r}, which was never recorded"))
    return broken


def _words_of(reply: ModelReplied) -> str:
    return "".join(item.text for item in reply.items if isinstance(item, (Words, Refusal)))
