"""A run's moments, encoded as AG-UI's events.

The protocol's rules for streams are kept here: messages and calls are closed before the run, an agent with control is a subagent until it
hands off, and retracted text is removed by a snapshot without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    Message,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    SubagentErrorEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    UserMessage,
)

from legato.core.facts import Compacted, ModelReplied, ModelRequestFailed, Usage
from legato.core.state import State
from legato.runtime.session import Session
from legato.server.agui.conversation_messages import build_messages
from legato.server.agui.ids import SubagentTracker, is_redacted, make_agent_message_id, make_call_id, make_output_id, make_user_message_id
from legato.server.agui.interrupts import make_interrupt
from legato.server.moments import Called, Ended, HandedOver, Heard, Moment, Noted, Piece, Rested, Spoke, Withdrawn, text_missing
from legato.server.protocol_ids import encode_request_name


class RunEventEncoder:
    """Encodes the events of one run, which starts at `first_position`. `client_messages` are those that the client has."""

    def __init__(self, session: Session, run_id: str, first_position: int, client_messages: Sequence[Message]) -> None:
        self._session = session
        self._graph = session.workflow.definition.graph
        self._run_id = run_id
        self._first_position = first_position
        self._known_ids = {each.id for each in client_messages}
        self._instructions = [each for each in client_messages if each.role in ("system", "developer")]
        self._user_messages = {each.id: each for each in client_messages if isinstance(each, UserMessage)}
        self._subagents = SubagentTracker(self._graph).advance_to(session.state, first_position)
        self._open_subagent_id: str | None = None  # the subagent that is open
        self._closed_subagents: set[str] = set()
        self._open_message_id = ""  # the message that is open
        self._sent_text = ""  # the text of that message so far
        self._last_text = ""

    @property
    def _state(self) -> State:
        return self._session.state

    def make_snapshot(self, length: int, new: Sequence[Message] = ()) -> MessagesSnapshotEvent:
        """Return a snapshot of all messages in the first `length` facts, and of new ones.

        It keeps the client's instructions, and its own version of the user's messages, with images, unless they were redacted.
        """
        messages = [
            self._user_messages.get(each.id, each) if isinstance(each, UserMessage) and not is_redacted(self._state, each.id) else each
            for each in build_messages(self._state, self._graph, length)
        ]
        return MessagesSnapshotEvent(messages=[*self._instructions, *messages, *new])

    # -- moments -----------------------------------------------------------------------------------------------------------

    def encode(self, moment: Moment) -> Iterator[BaseEvent]:
        """Return the events of one moment."""
        match moment:
            case Heard():
                yield from self._encode_user_message(moment)
            case Piece(reply, agent, text):
                yield from self._encode_text(make_agent_message_id(self._state, reply, self._state.length), agent, text)
            case Withdrawn():
                yield from self._encode_retraction()
            case Spoke():
                yield from self._encode_reply(moment)
            case Called():
                yield from self._encode_call(moment)
            case Ended():
                yield from self._encode_output(moment)
            case HandedOver():
                yield from self._encode_handoff(moment)
            case Noted(kind, words):
                yield CustomEvent(name=f"legato.{kind}", value=words)
            case Rested():
                yield from self._encode_end(moment)

    def _encode_user_message(self, moment: Heard) -> Iterator[BaseEvent]:
        """Encode a message that another client sent to this session."""
        id = make_user_message_id(self._state, moment.position, moment.key)
        if id not in self._known_ids:
            self._known_ids.add(id)
            yield TextMessageStartEvent(message_id=id, role="user", name=moment.message.author_name or None)
            yield TextMessageContentEvent(message_id=id, delta=moment.message.text)
            yield TextMessageEndEvent(message_id=id)

    def _switch_subagent(self, agent: str) -> Iterator[BaseEvent]:
        """Open the subagent of this agent, if it is not open."""
        subagent = self._subagents.find_subagent(agent)
        if subagent != self._open_subagent_id:
            yield from self._close_subagent()
            if subagent is not None and subagent not in self._closed_subagents:
                yield self._open_subagent(subagent, agent)

    def _open_subagent(self, id: str, agent: str, handoff: str | None = None) -> BaseEvent:
        self._open_subagent_id = id
        definition = self._session.workflow.definition.agents.get(agent)
        description = (definition and definition.description) or None
        return SubagentStartedEvent(subagent_run_id=id, name=agent, description=description, parent_tool_call_id=handoff)

    def _close_subagent(self) -> Iterator[BaseEvent]:
        if self._open_subagent_id is not None:
            yield SubagentFinishedEvent(subagent_run_id=self._open_subagent_id)
            self._closed_subagents.add(self._open_subagent_id)
            self._open_subagent_id = None

    def _encode_text(self, id: str, agent: str, text: str) -> Iterator[BaseEvent]:
        subagent = self._subagents.find_subagent(agent)
        if not self._open_message_id:
            yield from self._switch_subagent(agent)
            yield TextMessageStartEvent(message_id=id, role="assistant", name=agent, subagent_run_id=subagent)
            self._open_message_id, self._sent_text = id, ""
        yield TextMessageContentEvent(message_id=self._open_message_id, delta=text, subagent_run_id=subagent)
        self._sent_text += text

    def _encode_reply(self, spoke: Spoke) -> Iterator[BaseEvent]:
        missing = text_missing(spoke.text, self._sent_text)
        if missing or not self._open_message_id:
            yield from self._encode_text(make_agent_message_id(self._state, spoke.reply, spoke.position), spoke.agent, missing)
        yield from self._close_message()
        self._last_text = spoke.text

    def _close_message(self) -> Iterator[BaseEvent]:
        if self._open_message_id:
            yield TextMessageEndEvent(message_id=self._open_message_id)
            self._open_message_id, self._sent_text = "", ""

    def _encode_retraction(self) -> Iterator[BaseEvent]:
        yield from self._close_message()
        yield self.make_snapshot(self._state.length)

    def _encode_call(self, called: Called) -> Iterator[BaseEvent]:
        yield from self._switch_subagent(called.agent)
        id, subagent = make_call_id(self._state, called.call), self._subagents.find_subagent(called.agent)
        parent = make_agent_message_id(self._state, called.reply, called.call.position)
        yield ToolCallStartEvent(tool_call_id=id, tool_call_name=called.tool, parent_message_id=parent, subagent_run_id=subagent)
        yield ToolCallArgsEvent(tool_call_id=id, delta=called.arguments, subagent_run_id=subagent)
        yield ToolCallEndEvent(tool_call_id=id, subagent_run_id=subagent)

    def _encode_output(self, ended: Ended) -> Iterator[BaseEvent]:
        called = ended.called
        yield from self._switch_subagent(called.agent)
        yield ToolCallResultEvent(
            message_id=make_output_id(self._state, called.call),
            tool_call_id=make_call_id(self._state, called.call),
            content=ended.output,
            role="tool",
            metadata=None if ended.status == "ok" else {"legato": {"status": ended.status}},
            subagent_run_id=self._subagents.find_subagent(called.agent),
        )

    def _encode_handoff(self, handed: HandedOver) -> Iterator[BaseEvent]:
        yield from self._close_subagent()
        subagent = self._subagents.advance_to(self._state, handed.position + 1).find_subagent(handed.target)
        if subagent is not None:
            yield self._open_subagent(subagent, handed.target, make_call_id(self._state, handed.call))
        yield CustomEvent(name="legato.handoff", value={"source": handed.source, "target": handed.target})

    def encode_empty_run(self) -> Iterator[BaseEvent]:
        """Return the events of a run without input."""
        yield from self._encode_end(Rested("new", (), "", 0))

    # -- the end -----------------------------------------------------------------------------------------------------------

    def _encode_end(self, rest: Rested) -> Iterator[BaseEvent]:
        yield from self._close_message()
        usage = sum_usage_by_model(self._state, self._first_position, rest.length) or None
        if rest.status == "failed":
            if self._open_subagent_id is not None:
                yield SubagentErrorEvent(subagent_run_id=self._open_subagent_id, message=rest.error, code="model_failed")
            yield RunErrorEvent(message=rest.error, code="model_failed", usage=usage)
            return
        outcome: Any = RunFinishedSuccessOutcome()
        if rest.status == "pending":
            for request in rest.pending:
                if request.session == self._session.id and self._subagents.find_subagent(request.agent) is not None:
                    yield from self._switch_subagent(request.agent)
            interrupts = [make_interrupt(self._session, request, self._subagents.find_subagent(request.agent)) for request in rest.pending]
            if self._open_subagent_id is not None:
                interrupt_ids = [
                    encode_request_name(request)
                    for request in rest.pending
                    if self._subagents.find_subagent(request.agent) == self._open_subagent_id
                ]
                suspended = SubagentFinishedSuspendedOutcome(interrupt_ids=interrupt_ids)
                yield SubagentFinishedEvent(subagent_run_id=self._open_subagent_id, outcome=suspended)
                self._open_subagent_id = None
            yield self.make_snapshot(rest.length)
            outcome = RunFinishedInterruptOutcome(interrupts=interrupts)
        elif rest.status == "cancelled":
            outcome = RunFinishedCancelledOutcome()
        yield from self._close_subagent()
        result = self._last_text if rest.status in ("waiting", "terminated") and self._last_text else None
        yield RunFinishedEvent(thread_id=self._session.id, run_id=self._run_id, outcome=outcome, result=result, usage=usage)


def sum_usage_by_model(state: State, start: int, end: int) -> list[TokenUsage]:
    """Sum the usage of each model in a range of facts."""
    usage_by_model: dict[str, Usage] = {}
    for fact in state.facts[start:end]:
        if isinstance(fact, (ModelReplied, ModelRequestFailed, Compacted)) and fact.usage.total:
            model = fact.model if isinstance(fact, ModelReplied) else ""
            usage_by_model[model] = usage_by_model.get(model, Usage()) + fact.usage
    return [
        TokenUsage(
            model=model or None,
            input_tokens=each.input,
            output_tokens=each.output,
            total_tokens=each.total,
            reasoning_tokens=each.reasoning,
            cached_input_tokens=each.cached,
            cache_write_input_tokens=each.written,
        )
        for model, each in usage_by_model.items()
    ]
