"""What one agent may see. May know: the state, policies, frames. Decides: the projection, in conversational order.

Conversational order is not ledger order: a message that landed after a reply's `upto` follows that reply's whole batch.
The state keeps groups in that order already, so the view of an agent that sees everything is one join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from legato.core.facts import ModelReplied
from legato.core.groups import Entry, Group, UserEntry, message_of
from legato.core.history_policies import (
    Custom,
    Dialogue,
    Everything,
    HistorySpec,
    Last,
    OwnTools,
    SinceHandoff,
    Summarised,
    arrival,
    last_turns,
)
from legato.core.messages import Message
from legato.core.messages_to_model import summary
from legato.core.state import State
from legato.core.turn_context import Frame
from legato.errors import IllegalRequest


class Request(Struct, frozen=True):
    """What a model is asked: a frame, the groups that the agent sees, and where in the ledger that was."""

    session: str
    frame: Frame
    frame_digest: str
    groups: tuple[Group, ...]
    upto: int
    turn: int
    """How many replies the ledger held before this call."""
    agent_turn: int
    """How many of them were this agent's."""
    summary: str = ""
    contents: Mapping[str, bytes] = {}
    """The bytes of pictures and files in the groups, by digest."""
    since: int = 0
    """Where the ledger last got a name of its own: what providers keep for it began after that."""
    conversations: Mapping[str, int] = {}
    """Providers' conversations, and the position of the reply that each ends with; negative where nobody knows."""
    conversation: str = ""
    """The provider's conversation that this request goes to."""
    attempt: int = 1
    """The how manieth attempt to get this reply."""

    @property
    def agent(self) -> str:
        return self.frame.agent

    @property
    def entries(self) -> Iterator[Entry]:
        """Everything the model is sent besides instructions and tools, flat and in order."""
        for text in self.frame.messages:
            yield UserEntry(text, "", True)
        if self.summary:
            yield UserEntry(summary(self.summary), "", True)
        for group in self.groups:
            yield from group.entries

    @property
    def messages(self) -> list[Message]:
        """The same as messages, for people and scripted models."""
        return [message_of(entry) for entry in self.entries]

    def __repr__(self) -> str:
        return f"<request of {self.agent!r} in {self.session!r}: {len(self.groups)} groups up to {self.upto}>"


def admitted(state: State, agent: str, start: int = 0) -> list[Group]:
    """The groups from an index on that any policy may choose from for this agent: no withheld messages, no rejected replies of others."""
    groups = [*state.groups, *state.tail][start:]
    if state.withheld:
        groups = [group for group in groups if not group.blocked]
    if state.rejections:
        groups = [group for group in groups if group.agent == agent or not (group.rejected or group.kind == "feedback")]
    return groups


def visible(state: State, spec: HistorySpec, agent: str, kept: tuple[tuple[int, int], ...] | None = None) -> list[Group]:
    """The groups that this policy lets this agent see now."""
    groups = admitted(state, agent)
    match spec:
        case Everything():
            return groups
        case Dialogue():
            return _words_of(groups)
        case SinceHandoff():
            # The reply that handed over may be a rejected one, which this agent does not see.
            return admitted(state, agent, arrival([*state.groups, *state.tail], agent))
        case Last(turns=turns):
            return groups[last_turns(groups, turns) :]
        case OwnTools():
            return _words_of(groups, except_of=agent)
        case Summarised():
            upto = state.summaries[agent].upto if agent in state.summaries else -1
            return [group for group in groups if group.position > upto]
        case Custom():
            return [group for low, high in kept or () for group in groups[low : high + 1]]


def _words_of(groups: list[Group], except_of: str = "") -> list[Group]:
    """The groups without tool traffic; those of one agent whole, if it is named."""
    kept = [group if except_of and group.agent == except_of else group.words() for group in groups]
    return [group for group in kept if group is not None]


def request_for(state: State, frame: Frame, frame_digest: str, groups: list[Group], agent: str) -> Request:
    """The request that asks this agent's model now. `IllegalRequest` if a call in it has no output."""
    for group in groups[-1:]:
        if not group.complete:
            raise IllegalRequest(
                f"a reply of {group.agent!r} at position {group.position} has calls without outputs",
                do="this is a bug in Legato: please report it with session.to_string()",
            )
    compacted = state.summaries.get(agent) if type(frame.history) is Summarised else None
    return Request(
        session=state.session,
        frame=frame,
        frame_digest=frame_digest,
        groups=tuple(groups),
        upto=state.length - 1,
        turn=state.replies,
        agent_turn=state.replies_of.get(agent, 0),
        summary=compacted.summary if compacted else "",
        since=state.names[-1][0] if state.names else 0,
        conversations=dict(state.provider.ends) if state.provider.ends else {},
    )


def request_seen(state: State, frame: Frame, answered: ModelReplied) -> Request:
    """The request that led to this reply, rebuilt. `state` is the fold of the facts up to the reply's `upto`."""
    groups = visible(state, frame.history, answered.agent, answered.kept)
    return request_for(state, frame, answered.frame, groups, answered.agent)
