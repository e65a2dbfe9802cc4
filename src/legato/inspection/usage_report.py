"""Token usage and cost of a session: in total, by agent and by handoff, with bounds on the tokens that were resent because of handoffs.

All figures are the provider's, as recorded with each reply. *Resent because of a handoff* are:

    The input tokens of the first reply after a handoff that an earlier request of this session had sent or produced, and that the provider
    did not read from its cache.

The target agent has other instructions and tools, and these come before the conversation. A provider's cache compares the beginnings of
requests, so it seldom helps here, and the earlier conversation is paid for as if it were new. No provider reports the tokens of each part
of a request, so the figures only give a range (`TokenRange`):

- At most: all input that was not read from the cache. This includes new instructions, messages and outputs.
- At least: the input of an earlier request of the same agent, less what was read from the cache, because this request begins with that one.
  This holds if both had the same model, the same turn context, and a history policy that only appends. Otherwise the bound is 0.

The report says what was paid again, not what could have been saved: if a provider caches nothing, another reply of the same agent would
have been sent all of it again, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from legato.core.facts import AnyFact, HandedOff, ModelReplied, Usage
from legato.core.history_policies import Dialogue, Everything, OwnTools
from legato.core.turn_context import decode_turn_context
from legato.runtime.session import Session

APPEND_ONLY_POLICIES = (Everything, Dialogue, OwnTools)
"""History policies under which each request of an agent begins with its whole previous request."""


class TokenUsage(Struct, frozen=True):
    """Tokens and cost. `cached` is part of `input`, `reasoning` of `output`.

    `dollars` is the cost of the requests whose price is known, None if there are none; `unpriced` counts the tokens of the others.
    """

    input: int
    cached: int
    output: int
    reasoning: int
    dollars: float | None
    unpriced: int = 0


class HandoffPoint(Struct, frozen=True):
    """A handoff and its position in the ledger."""

    source: str
    target: str
    position: int


class TokenRange(Struct, frozen=True):
    """Bounds of a number of tokens.

    >>> TokenRange(700, 1200) + TokenRange(0, 40)
    TokenRange(least=700, most=1240)
    """

    least: int = 0
    most: int = 0

    def __add__(self, other: TokenRange) -> TokenRange:
        return TokenRange(self.least + other.least, self.most + other.most)


class HandoffUsage(Struct, frozen=True):
    """Usage between a handoff and the next one, and how much of it was resent because of the handoff.

    `resent` is None until the target has replied, and if its model reported no usage.
    """

    source: str
    target: str
    position: int
    usage: TokenUsage
    resent: TokenRange | None


class UsageReport(Struct, frozen=True):
    """Usage of a session: in total, by agent, by handoff. `resent` is the sum over the handoffs of which it is known."""

    total: TokenUsage
    agents: dict[str, TokenUsage]
    handoffs: list[HandoffUsage]
    resent: TokenRange


def to_token_usage(usage: Usage) -> TokenUsage:
    """Return recorded usage as people see it."""
    return TokenUsage(usage.input, usage.cached, usage.output, usage.reasoning, usage.dollars, usage.unpriced_tokens)


async def build_usage_report(session: Session) -> UsageReport:
    """Return the usage of a session so far."""
    facts = session.state.facts
    first = find_first_replies(facts)
    resent = await estimate_resent_tokens(session)
    resent_by_handoff = {handoff.position: resent.get(reply) for reply, handoff in first.items()}
    handoffs = [(position, fact) for position, fact in enumerate(facts) if isinstance(fact, HandedOff)]
    return UsageReport(
        to_token_usage(session.usage),
        {agent: to_token_usage(usage) for agent, usage in session.usage_by_agent.items()},
        [
            HandoffUsage(fact.source, fact.target, position, to_token_usage(usage), resent_by_handoff.get(position))
            for (position, fact), (_, _, usage) in zip(handoffs, session.usage_by_handoff, strict=True)
        ],
        sum(resent.values(), TokenRange()),
    )


def find_first_replies(facts: Sequence[AnyFact]) -> dict[int, HandoffPoint]:
    """Return the position of each first reply after a handoff, with the handoff."""
    first: dict[int, HandoffPoint] = {}
    handoff: HandoffPoint | None = None
    for position, fact in enumerate(facts):
        if isinstance(fact, HandedOff):
            handoff = HandoffPoint(fact.source, fact.target, position)
        elif isinstance(fact, ModelReplied):
            if handoff is not None and fact.agent == handoff.target:  # a message may have begun a run with another agent first
                first[position] = handoff
            handoff = None
    return first


async def estimate_resent_tokens(session: Session) -> dict[int, TokenRange]:
    """Return the resent tokens of the first reply after each handoff, by its position. Replies without recorded usage are left out."""
    facts = session.state.facts
    first = find_first_replies(facts)
    resent: dict[int, TokenRange] = {}
    previous_input: dict[tuple[str, str], int] = {}  # input tokens of the previous request, by turn context (of one agent) and model
    is_append_only: dict[str, bool] = {}  # by turn context
    for position, fact in enumerate(facts):
        if not isinstance(fact, ModelReplied) or not fact.usage.input:
            continue
        usage, sender = fact.usage, (fact.context_digest, fact.model)
        if position in first:
            repeated = previous_input.get(sender, 0)
            if repeated and fact.context_digest not in is_append_only:
                turn_context = decode_turn_context(await session.store.content(session.id, fact.context_digest))
                is_append_only[fact.context_digest] = isinstance(turn_context.history, APPEND_ONLY_POLICIES)
            repeated = repeated if is_append_only.get(fact.context_digest) else 0
            resent[position] = TokenRange(max(0, min(repeated, usage.input) - usage.cached), max(0, usage.input - usage.cached))
        previous_input[sender] = usage.input
    return resent
