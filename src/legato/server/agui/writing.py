"""Moments as AG-UI's events. May know: moments, and the protocol. Decides: which events a run is.

What the protocol asks of a stream is kept here: messages and calls are closed before the run is, an agent that took control is a subagent
until it passes control on, and words that do not count are taken back by a snapshot that lacks them.
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
from legato.server.agui.asking import interrupt_of
from legato.server.agui.names import Control, call_id, is_erased, output_id, said_id, spoken_id
from legato.server.agui.snapshot import messages_before
from legato.server.naming import bound
from legato.server.telling import Called, Ended, HandedOver, Heard, Moment, Noted, Piece, Rested, Spoke, Withdrawn, text_missing


class Writer:
    """One run. `since`: how many facts there were before it. `has`: the messages that the client has."""

    def __init__(self, session: Session, run: str, since: int, has: Sequence[Message]) -> None:
        self._session = session
        self._graph = session.workflow.definition.graph
        self._run = run
        self._since = since
        self._known = {each.id for each in has}
        self._instructions = [each for each in has if each.role in ("system", "developer")]
        self._users = {each.id: each for each in has if isinstance(each, UserMessage)}
        self._control = Control(self._graph).upto(session.state, since)
        self._subagent: str | None = None  # who is open
        self._closed: set[str] = set()
        self._message = ""  # the message that is open
        self._shown = ""  # and what of it was told
        self._text = ""

    @property
    def _state(self) -> State:
        return self._session.state

    def snapshot(self, length: int, new: Sequence[Message] = ()) -> MessagesSnapshotEvent:
        """All messages among the first `length` facts, and some that were said since.

        What the client has beside them stays. So does a message of its user as the client has it, with its pictures, unless it was erased.
        """
        messages = [
            self._users.get(each.id, each) if isinstance(each, UserMessage) and not is_erased(self._state, each.id) else each
            for each in messages_before(self._state, self._graph, length)
        ]
        return MessagesSnapshotEvent(messages=[*self._instructions, *messages, *new])

    # -- what happens ------------------------------------------------------------------------------------------------------

    def told(self, moment: Moment) -> Iterator[BaseEvent]:
        """The events of one moment."""
        match moment:
            case Heard():
                yield from self._heard(moment)
            case Piece(reply, agent, text):
                yield from self._said(spoken_id(self._state, reply, self._state.length), agent, text)
            case Withdrawn():
                yield from self._withdrawn()
            case Spoke():
                yield from self._spoke(moment)
            case Called():
                yield from self._called(moment)
            case Ended():
                yield from self._ended(moment)
            case HandedOver():
                yield from self._handed_over(moment)
            case Noted(kind, words):
                yield CustomEvent(name=f"legato.{kind}", value=words)
            case Rested():
                yield from self._rested(moment)

    def _heard(self, heard: Heard) -> Iterator[BaseEvent]:
        """Somebody else said something in this conversation."""
        id = said_id(self._state, heard.position, heard.key)
        if id not in self._known:
            self._known.add(id)
            yield TextMessageStartEvent(message_id=id, role="user", name=heard.message.author_name or None)
            yield TextMessageContentEvent(message_id=id, delta=heard.message.text)
            yield TextMessageEndEvent(message_id=id)

    def _as(self, agent: str) -> Iterator[BaseEvent]:
        """Have the subagent open that this agent is."""
        wanted = self._control.of(agent)
        if wanted != self._subagent:
            yield from self._close_subagent()
            if wanted is not None and wanted not in self._closed:
                yield self._open_subagent(wanted, agent)

    def _open_subagent(self, id: str, agent: str, handoff: str | None = None) -> BaseEvent:
        self._subagent = id
        about = self._session.workflow.definition.agents.get(agent)
        description = (about and about.description) or None
        return SubagentStartedEvent(subagent_run_id=id, name=agent, description=description, parent_tool_call_id=handoff)

    def _close_subagent(self) -> Iterator[BaseEvent]:
        if self._subagent is not None:
            yield SubagentFinishedEvent(subagent_run_id=self._subagent)
            self._closed.add(self._subagent)
            self._subagent = None

    def _said(self, id: str, agent: str, text: str) -> Iterator[BaseEvent]:
        subagent = self._control.of(agent)
        if not self._message:
            yield from self._as(agent)
            yield TextMessageStartEvent(message_id=id, role="assistant", name=agent, subagent_run_id=subagent)
            self._message, self._shown = id, ""
        yield TextMessageContentEvent(message_id=self._message, delta=text, subagent_run_id=subagent)
        self._shown += text

    def _spoke(self, spoke: Spoke) -> Iterator[BaseEvent]:
        missing = text_missing(spoke.text, self._shown)
        if missing or not self._message:
            yield from self._said(spoken_id(self._state, spoke.reply, spoke.position), spoke.agent, missing)
        yield from self._close_message()
        self._text = spoke.text

    def _close_message(self) -> Iterator[BaseEvent]:
        if self._message:
            yield TextMessageEndEvent(message_id=self._message)
            self._message, self._shown = "", ""

    def _withdrawn(self) -> Iterator[BaseEvent]:
        yield from self._close_message()
        yield self.snapshot(self._state.length)

    def _called(self, called: Called) -> Iterator[BaseEvent]:
        yield from self._as(called.agent)
        id, subagent = call_id(self._state, called.call), self._control.of(called.agent)
        parent = spoken_id(self._state, called.reply, called.call.position)
        yield ToolCallStartEvent(tool_call_id=id, tool_call_name=called.tool, parent_message_id=parent, subagent_run_id=subagent)
        yield ToolCallArgsEvent(tool_call_id=id, delta=called.arguments, subagent_run_id=subagent)
        yield ToolCallEndEvent(tool_call_id=id, subagent_run_id=subagent)

    def _ended(self, ended: Ended) -> Iterator[BaseEvent]:
        called = ended.called
        yield from self._as(called.agent)
        yield ToolCallResultEvent(
            message_id=output_id(self._state, called.call),
            tool_call_id=call_id(self._state, called.call),
            content=ended.output,
            role="tool",
            metadata=None if ended.status == "ok" else {"legato": {"status": ended.status}},
            subagent_run_id=self._control.of(called.agent),
        )

    def _handed_over(self, handed: HandedOver) -> Iterator[BaseEvent]:
        yield from self._close_subagent()
        wanted = self._control.upto(self._state, handed.position + 1).of(handed.target)
        if wanted is not None:
            yield self._open_subagent(wanted, handed.target, call_id(self._state, handed.call))
        yield CustomEvent(name="legato.handoff", value={"source": handed.source, "target": handed.target})

    def nothing(self) -> Iterator[BaseEvent]:
        """The events of a run in which nothing was said and nothing happened."""
        yield from self._rested(Rested("new", (), "", 0))

    # -- how it ends -------------------------------------------------------------------------------------------------------

    def _rested(self, rest: Rested) -> Iterator[BaseEvent]:
        yield from self._close_message()
        usage = usage_by_model(self._state, self._since, rest.length) or None
        if rest.status == "failed":
            if self._subagent is not None:
                yield SubagentErrorEvent(subagent_run_id=self._subagent, message=rest.error, code="model_failed")
            yield RunErrorEvent(message=rest.error, code="model_failed", usage=usage)
            return
        outcome: Any = RunFinishedSuccessOutcome()
        if rest.status == "pending":
            for request in rest.pending:
                if request.session == self._session.id and self._control.of(request.agent) is not None:
                    yield from self._as(request.agent)
            interrupts = [interrupt_of(self._session, request, self._control.of(request.agent)) for request in rest.pending]
            if self._subagent is not None:
                raised = [bound(request) for request in rest.pending if self._control.of(request.agent) == self._subagent]
                suspended = SubagentFinishedSuspendedOutcome(interrupt_ids=raised)
                yield SubagentFinishedEvent(subagent_run_id=self._subagent, outcome=suspended)
                self._subagent = None
            yield self.snapshot(rest.length)
            outcome = RunFinishedInterruptOutcome(interrupts=interrupts)
        elif rest.status == "cancelled":
            outcome = RunFinishedCancelledOutcome()
        yield from self._close_subagent()
        result = self._text if rest.status in ("waiting", "terminated") and self._text else None
        yield RunFinishedEvent(thread_id=self._session.id, run_id=self._run, outcome=outcome, result=result, usage=usage)


def usage_by_model(state: State, since: int, upto: int) -> list[TokenUsage]:
    """What each model used in between."""
    used: dict[str, Usage] = {}
    for fact in state.facts[since:upto]:
        if isinstance(fact, (ModelReplied, ModelRequestFailed, Compacted)) and fact.usage.total:
            model = fact.model if isinstance(fact, ModelReplied) else ""
            used[model] = used.get(model, Usage()) + fact.usage
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
        for model, each in used.items()
    ]
