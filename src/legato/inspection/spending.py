"""Tokens and cost of a session: in all, by agent and by handoff; and bounds on what handoffs had sent again.

All figures are the provider's, as they were recorded with each reply. *Sent again because of a handoff* means:

    Of the input of the first reply after a handoff, the tokens that an earlier call of this session had sent or produced, and that the
    provider did not read from its cache.

The agent that takes over has other instructions and tools, which stand before the conversation: so a provider's cache, which knows
requests by how they begin, seldom helps it, and what was said before is paid for as if it were new. No provider says how many tokens each
part of a request has. What their figures give is a range (`TokenRange`):

- At most all of the input that was not read from the cache; that includes instructions, messages and outputs that were new.
- At least what an earlier request of the same agent had, less what was read from the cache; for this request begins as that one did. This
  holds if both went to the same model, in the same frame, with a history policy that only ever adds. Otherwise nothing is known: 0.

It says what was paid again, and not what could have been saved: where a provider caches nothing, a reply of the same agent would have been
sent all of it again, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from legato.core.facts import AnyFact, HandedOff, ModelReplied, Usage
from legato.core.history_policies import Dialogue, Everything, OwnTools
from legato.core.turn_context import decode_frame
from legato.runtime.session import Session

GROWING_POLICIES = (Everything, Dialogue, OwnTools)
"""History policies under which an agent's request begins with all of its request before."""


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


class TokenRange(Struct, frozen=True):
    """A number of tokens that is known to lie between two others.

    >>> TokenRange(700, 1200) + TokenRange(0, 40)
    TokenRange(least=700, most=1240)
    """

    least: int = 0
    most: int = 0

    def __add__(self, other: TokenRange) -> TokenRange:
        return TokenRange(self.least + other.least, self.most + other.most)


class SpentAfter(Struct, frozen=True):
    """What was used after a handoff, until the next one; and what of that was sent again because of it.

    `resent` is None as long as the target has not replied, and if its model did not say what it used.
    """

    source: str
    target: str
    position: int
    usage: Used
    resent: TokenRange | None


class Spending(Struct, frozen=True):
    """What a session has used: in all, by agent, by handoff. `resent` is the sum over those handoffs of which it is known."""

    total: Used
    agents: dict[str, Used]
    handoffs: list[SpentAfter]
    resent: TokenRange


def used(usage: Usage) -> Used:
    """Usage as it is shown."""
    return Used(usage.input, usage.cached, usage.output, usage.reasoning, usage.dollars, usage.unpriced_tokens)


async def spending(session: Session) -> Spending:
    """What a session has used so far."""
    facts = session.state.facts
    first = first_replies(facts)
    resent = await sent_again(session)
    by_handoff = {passed.position: resent.get(reply) for reply, passed in first.items()}
    taken = [(position, fact) for position, fact in enumerate(facts) if isinstance(fact, HandedOff)]
    after = zip(taken, session.usage_by_handoff, strict=True)
    return Spending(
        used(session.usage),
        {agent: used(usage) for agent, usage in session.usage_by_agent.items()},
        [
            SpentAfter(fact.source, fact.target, position, used(usage), by_handoff.get(position))
            for (position, fact), (_, _, usage) in after
        ],
        sum(resent.values(), TokenRange()),
    )


def first_replies(facts: Sequence[AnyFact]) -> dict[int, Passed]:
    """The positions of those replies that were the first after a handoff, and which it was."""
    found: dict[int, Passed] = {}
    passed: Passed | None = None
    for position, fact in enumerate(facts):
        if isinstance(fact, HandedOff):
            passed = Passed(fact.source, fact.target, position)
        elif isinstance(fact, ModelReplied):
            if passed is not None and fact.agent == passed.target:  # a message may have begun a run elsewhere first
                found[position] = passed
            passed = None
    return found


async def sent_again(session: Session) -> dict[int, TokenRange]:
    """For the first reply after each handoff, by its position: what was sent again. Replies without recorded usage are left out."""
    facts = session.state.facts
    first = first_replies(facts)
    found: dict[int, TokenRange] = {}
    before: dict[tuple[str, str], int] = {}  # by frame, which names its agent, and model: the input of the request before
    grows: dict[str, bool] = {}  # by frame
    for position, fact in enumerate(facts):
        if not isinstance(fact, ModelReplied) or not fact.usage.input:
            continue
        usage, sender = fact.usage, (fact.frame, fact.model)
        if position in first:
            same = before.get(sender, 0)
            if same and fact.frame not in grows:
                frame = decode_frame(await session.store.content(session.id, fact.frame))
                grows[fact.frame] = isinstance(frame.history, GROWING_POLICIES)
            same = same if grows.get(fact.frame) else 0
            found[position] = TokenRange(max(0, min(same, usage.input) - usage.cached), max(0, usage.input - usage.cached))
        before[sender] = usage.input
    return found
