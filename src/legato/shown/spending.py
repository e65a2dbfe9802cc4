"""What a conversation has cost, and what handoffs add to it. May know: sessions. Decides: what counts as sent again.

Tokens, cached tokens and cost are the provider's figures, as they were recorded with each reply. *Sent again because of a handoff* is
computed from them and from what the ledger says was sent:

    Of the input of the first reply after a handoff, the tokens that an earlier call of this session had sent or produced, and that the
    provider did not read from its cache.

The agent that takes over has other instructions and tools, which stand before the conversation: so a provider's cache, which knows
requests by how they begin, seldom helps it, and what was said before is paid for as if it were new. What had been sent or produced is all
that the new agent is shown of what was recorded up to the reply that handed over, and its instructions and tools if it had replied in
the same frame before. What was not is the rest: outputs and messages that came since, and a frame of its own. How many of the provider's
tokens each part is, no provider says; they are shared out by letters (`letters.py`), so the figure is an estimate. What was cached is taken
to be the beginning of the request, as it is for every provider.

It says what was paid again, and not what could have been saved: where a provider caches nothing, a reply of the same agent would have been
sent all of it again, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from legato.core.facts import Answered, AnyFact, HandedOff, Usage
from legato.core.frame import Frame, decode_frame
from legato.core.history import Summarised
from legato.core.state import State
from legato.drive.folding import apply_in_slices
from legato.session import Session
from legato.shown.letters import Letters, of_frame


class Used(Struct, frozen=True):
    """Tokens and cost. `cached` is part of `input`, `reasoning` of `output`.

    `dollars` is the cost of calls whose price is known, None if none is; `unpriced` counts the tokens of the others.
    """

    input: int
    cached: int
    output: int
    reasoning: int
    dollars: float | None
    unpriced: int = 0


class Passed(Struct, frozen=True):
    """A handoff, and where it is recorded."""

    source: str
    target: str
    position: int


class SpentAfter(Struct, frozen=True):
    """What was used after a handoff, until the next one; and what of that was sent again because of it."""

    source: str
    target: str
    position: int
    usage: Used
    resent: int


class Spending(Struct, frozen=True):
    """What a session has used: in all, by agent, by handoff."""

    total: Used
    agents: dict[str, Used]
    handoffs: list[SpentAfter]
    resent: int


def used(usage: Usage) -> Used:
    """Usage as it is shown."""
    return Used(usage.input, usage.cached, usage.output, usage.reasoning, usage.dollars, usage.unpriced_tokens)


async def spending(session: Session) -> Spending:
    """What a session has used so far."""
    facts = session.state.facts
    first = first_replies(facts)
    resent = await sent_again(session)
    by_handoff = {passed.position: resent.get(reply, 0) for reply, passed in first.items()}
    taken = [(position, fact) for position, fact in enumerate(facts) if isinstance(fact, HandedOff)]
    after = zip(taken, session.usage_by_handoff, strict=True)
    return Spending(
        used(session.usage),
        {agent: used(usage) for agent, usage in session.usage_by_agent.items()},
        [
            SpentAfter(fact.source, fact.target, position, used(usage), by_handoff.get(position, 0))
            for (position, fact), (_, _, usage) in after
        ],
        sum(resent.values()),
    )


def first_replies(facts: Sequence[AnyFact]) -> dict[int, Passed]:
    """The positions of those replies that were the first after a handoff, and which it was."""
    found: dict[int, Passed] = {}
    passed: Passed | None = None
    for position, fact in enumerate(facts):
        if isinstance(fact, HandedOff):
            passed = Passed(fact.source, fact.target, position)
        elif isinstance(fact, Answered):
            if passed is not None and fact.agent == passed.target:  # a message may have begun a run elsewhere first
                found[position] = passed
            passed = None
    return found


async def sent_again(session: Session) -> dict[int, int]:
    """For the first reply after each handoff, by its position: the tokens that were sent again. Those without recorded usage are left out.

    One pass: the conversation is folded once, and grows from one handoff to the next.
    """
    facts = session.facts
    first = first_replies(facts)
    found: dict[int, int] = {}
    frames: dict[str, Frame] = {}
    named: set[str] = set()  # the frames of earlier replies
    state, letters = State(session=session.id), Letters()
    for position, fact in enumerate(facts):
        if not isinstance(fact, Answered):
            continue
        if position in first and fact.usage.input:
            await apply_in_slices(state, facts[state.length : fact.upto + 1])
            if fact.frame not in frames:
                frames[fact.frame] = decode_frame(await session.store.content(session.id, fact.frame))
            found[position] = tokens_again(fact, frames[fact.frame], fact.frame in named, state, letters)
        named.add(fact.frame)
    return found


def tokens_again(fact: Answered, frame: Frame, framed_before: bool, state: State, letters: Letters) -> int:
    """The estimate that the module's docstring defines, for one reply. `state` is what its request saw."""
    front = of_frame(frame) + _summary(state, frame)
    old, new = letters.of_view(state, frame.history, fact.agent, fact.kept)
    of_all = front + old + new
    if not of_all:
        return 0
    usage, per_letter = fact.usage, fact.usage.input / of_all
    again = (front + old) * per_letter - usage.cached if framed_before else old * per_letter - max(0.0, usage.cached - front * per_letter)
    return round(min(max(again, 0.0), usage.input - usage.cached))


def _summary(state: State, frame: Frame) -> int:
    told = state.summaries.get(frame.agent) if type(frame.history) is Summarised else None
    return len(told.summary) if told else 0
