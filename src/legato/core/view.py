"""Views: the part of the conversation that one agent sees, and the model requests made from it.

A view is in conversational order, which is not ledger order: a message recorded after a reply's `upto` follows that reply's whole batch.
The state keeps its groups in that order, so a view of everything needs no sorting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from legato.core.facts import ModelReplied
from legato.core.groups import Entry, Group, UserEntry, to_message
from legato.core.history_policies import (
    Custom,
    Dialogue,
    Everything,
    HistoryPolicy,
    LastTurns,
    OwnTools,
    SinceHandoff,
    Summarised,
    find_handoff_index,
    find_turns_start,
)
from legato.core.messages import Message
from legato.core.state import State
from legato.core.texts_for_model import conversation_summary
from legato.core.turn_context import TurnContext
from legato.errors import IllegalRequest


class ModelRequest(Struct, frozen=True):
    """A request to a model: a turn context, the groups that the agent sees, and the position in the ledger."""

    session_id: str
    turn_context: TurnContext
    context_digest: str
    groups: tuple[Group, ...]
    upto: int
    reply_count: int
    """The number of replies in the ledger before this request."""
    agent_reply_count: int
    """The number of this agent's replies among them."""
    summary: str = ""
    contents: Mapping[str, bytes] = {}
    """The bytes of the images and files in the groups, by digest."""
    ledger_start: int = 0
    """The position where the ledger got its present id. Everything that providers store for this ledger is from after it."""
    conversation_ends: Mapping[str, int] = {}
    """Conversations that providers store, with the position of the reply that each ends with; negative if that is unknown."""
    conversation: str = ""
    """The provider's conversation that this request goes to."""
    attempt: int = 1
    """The attempt number, from 1."""

    @property
    def agent(self) -> str:
        return self.turn_context.agent

    @property
    def entries(self) -> Iterator[Entry]:
        """Everything that is sent besides instructions and tools, flat and in order."""
        for text in self.turn_context.messages:
            yield UserEntry(text, "", True)
        if self.summary:
            yield UserEntry(conversation_summary(self.summary), "", True)
        for group in self.groups:
            yield from group.entries

    @property
    def messages(self) -> list[Message]:
        """The entries as messages, for people and scripted models."""
        return [to_message(entry) for entry in self.entries]

    def __repr__(self) -> str:
        return f"<request of {self.agent!r} in {self.session_id!r}: {len(self.groups)} groups up to {self.upto}>"


def list_eligible_groups(state: State, agent: str, start: int = 0) -> list[Group]:
    """Return the groups that a policy may choose from for this agent, from an index on.

    Withheld messages and rejected replies of other agents are not among them.
    """
    groups = [*state.groups, *state.new_messages][start:]
    if state.withheld_message_count:
        groups = [group for group in groups if not group.withheld]
    if state.rejected_reply_count:
        groups = [group for group in groups if group.agent == agent or not (group.rejected or group.kind == "feedback")]
    return groups


def select_groups(state: State, policy: HistoryPolicy, agent: str, kept_groups: tuple[tuple[int, int], ...] | None = None) -> list[Group]:
    """Return the groups that an agent sees now under this policy. `kept_groups` is the recorded choice of a `Custom` policy."""
    groups = list_eligible_groups(state, agent)
    match policy:
        case Everything():
            return groups
        case Dialogue():
            return _strip_tool_traffic(groups)
        case SinceHandoff():
            # The reply that handed over may be a rejected one, which this agent does not see.
            return list_eligible_groups(state, agent, find_handoff_index([*state.groups, *state.new_messages], agent))
        case LastTurns(turns=turns):
            return groups[find_turns_start(groups, turns) :]
        case OwnTools():
            return _strip_tool_traffic(groups, except_agent=agent)
        case Summarised():
            upto = state.summaries[agent].upto if agent in state.summaries else -1
            return [group for group in groups if group.position > upto]
        case Custom():
            return [group for low, high in kept_groups or () for group in groups[low : high + 1]]


def _strip_tool_traffic(groups: list[Group], except_agent: str = "") -> list[Group]:
    """Return the groups without tool traffic, except those of one agent, which stay whole."""
    stripped = [group if except_agent and group.agent == except_agent else group.without_tool_traffic() for group in groups]
    return [group for group in stripped if group is not None]


def build_request(state: State, turn_context: TurnContext, context_digest: str, groups: list[Group], agent: str) -> ModelRequest:
    """Return the request to this agent's model. `IllegalRequest` if a call in it has no output."""
    for group in groups[-1:]:
        if not group.is_complete:
            raise IllegalRequest(
                f"a reply of {group.agent!r} at position {group.position} has calls without outputs",
                do="this is a bug in Legato: please report it with session.to_string()",
            )
    summary = state.summaries.get(agent) if type(turn_context.history) is Summarised else None
    return ModelRequest(
        session_id=state.session_id,
        turn_context=turn_context,
        context_digest=context_digest,
        groups=tuple(groups),
        upto=state.length - 1,
        reply_count=state.reply_count,
        agent_reply_count=state.reply_count_by_agent.get(agent, 0),
        summary=summary.summary if summary else "",
        ledger_start=state.ledger_ids[-1][0] if state.ledger_ids else 0,
        conversation_ends=dict(state.provider_conversations.ends) if state.provider_conversations.ends else {},
    )


def build_past_request(state: State, turn_context: TurnContext, reply: ModelReplied) -> ModelRequest:
    """Return the request that led to a reply. `state` is the fold of the facts up to the reply's `upto`."""
    groups = select_groups(state, turn_context.history, reply.agent, reply.kept_groups)
    return build_request(state, turn_context, reply.context_digest, groups, reply.agent)
