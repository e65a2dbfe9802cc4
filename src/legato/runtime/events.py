"""Events, which tell clients what happens in a session, and the events that each fact becomes.

A fact becomes the same few events whichever process recorded it, and whatever follows it. Deltas (`output` with `delta`) are shown between
them: see `event_projector.py`. `str(event)` is a line that people can read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from legato.core.facts import (
    NO_USAGE,
    AgentPrompted,
    AnyFact,
    CallLost,
    CallPaused,
    CallRef,
    CallReturned,
    CallStarted,
    Cancelled,
    Compacted,
    Decided,
    GuardrailJudged,
    HandedOff,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Redacted,
    TerminationJudged,
)
from legato.core.groups import extract_reply_text
from legato.core.handoff_arguments import IncomingHandoff
from legato.core.messages import Message, render_content, to_parts
from legato.core.pending_requests import Pending
from legato.core.secret_arguments import mask_arguments
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph


class Event(Struct, frozen=True):
    """An event of a session: `.type`, `.data`, and the `.position` of the fact that it comes from (-1: none yet).

    `.cursor` is the position behind it, for `session.follow(after=...)`. It is empty for deltas, which may yet be retracted.
    """

    type: str
    data: Any = None
    position: int = -1
    cursor: str = ""

    def __str__(self) -> str:
        return f"{self.type}: {self.data}" if self.data is not None else self.type

    def __repr__(self) -> str:
        return f"<Event {self}>"


class OutputData(Struct, frozen=True):
    """Text for the user: a piece of it (`delta`), or all of it. `attempt` is the 1-based number of the model request."""

    text: str
    author_name: str
    delta: bool = False
    attempt: int = 1

    def __str__(self) -> str:
        return f"{self.author_name}: {self.text}"


class HandoffData(Struct, frozen=True):
    """A handoff from one agent to another, with the reason and the input that it came with."""

    source: str
    target: str
    reason: str = ""
    input: str = ""

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}{f' ({self.reason})' if self.reason else ''}"


class ToolData(Struct, frozen=True):
    """A tool call in a certain state, with secret arguments masked."""

    call: CallRef
    tool: str
    agent: str
    arguments: str = ""
    output: str = ""
    status: str = ""
    attempt: int = 0

    def __str__(self) -> str:
        output = f" = {self.output[:200]}" if self.output else ""
        return f"{self.tool}({self.arguments}){output}{f' [{self.status}]' if self.status not in ('', 'ok') else ''}"


class RedactedData(Struct, frozen=True):
    """An erasure: text of the facts at `positions`, and of calls made there, must not be shown any more."""

    positions: tuple[int, ...]
    reason: str = ""
    by: str = ""

    def __str__(self) -> str:
        return f"the words at {', '.join(map(str, self.positions))}{f': {self.reason}' if self.reason else ''}"


class WaitingData(Struct, frozen=True):
    """An agent that waits for the user's next message."""

    agent: str

    def __str__(self) -> str:
        return f"{self.agent} waits for the user"


def make_events(fact: AnyFact, position: int, state: State, graph: WorkflowGraph) -> Iterator[Event]:
    """Yield the events of one fact. It has been applied to `state`."""
    match fact:
        case MessageReceived():
            yield Event("said", Message(role="user", parts=to_parts(fact.content), author_name=fact.author, position=position), position)
        case ModelReplied():
            yield from _make_reply_events(fact, position)
        case ModelRequestFailed():
            outlook = ", giving up" if fact.final else ""
            yield Event("model_failed", f"{fact.agent}: {fact.error} (attempt {fact.attempt}{outlook})", position)
        case CallStarted() | CallReturned() | CallLost() | CallPaused():
            yield _make_tool_event(fact, position, state, graph)
        case HandedOff():
            call = state.find_call(fact.call)
            handoff = IncomingHandoff(fact.source, fact.target, call.arguments if call else "")
            yield Event("handoff_sent", HandoffData(fact.source, fact.target, handoff.reason, handoff.input), position)
        case Decided():
            yield Event("decided", _describe_decision(fact), position)
        case GuardrailJudged():
            yield from _make_verdict_events(fact, position, state)
        case TerminationJudged(stop=True):
            yield Event("judged", "termination: enough", position)
        case AgentPrompted():
            yield Event("prompted", f"{fact.agent}: {fact.text}", position)
        case Compacted():
            yield Event("compacted", f"{fact.agent}: up to {fact.upto}", position)
        case Cancelled():
            yield Event("cancelled", fact.reason or None, position)
        case Redacted():
            yield _make_redacted_event(fact, position, state)


def _describe_decision(fact: Decided) -> str:
    subject = f"call {fact.call}" if fact.call else fact.limit or str(fact.standing)
    answer = fact.reason or render_content(fact.output)  # the output of the call, if no tool returns one
    return f"{fact.verdict} {fact.kind} of {subject}{f': {answer}' if answer else ''}"


def _make_reply_events(fact: ModelReplied, position: int) -> Iterator[Event]:
    for loss in fact.losses:
        yield Event("loss", loss, position)
    if fact.finish != "stop":
        yield Event("cut_short", fact.finish, position)
    if not fact.awaits_checks:
        yield from _make_reply_text_events(fact, position)


def _make_tool_event(fact: CallStarted | CallReturned | CallLost | CallPaused, position: int, state: State, graph: WorkflowGraph) -> Event:
    match fact:
        case CallStarted():
            return Event("tool_started", _make_tool_data(state, fact.call, graph, attempt=fact.attempt), position)
        case CallReturned():
            data = _make_tool_data(state, fact.call, graph, render_content(fact.output), fact.status, fact.attempt)
            return Event("tool_late" if fact.late else "tool_returned", data, position)
        case CallLost():
            return Event("tool_lost", _make_tool_data(state, fact.call, graph, status="outcome unknown", attempt=fact.attempt), position)
        case CallPaused():
            return Event(
                "tool_paused", _make_tool_data(state, fact.call, graph, status=_describe_pause(fact), attempt=fact.attempt), position
            )


def _make_verdict_events(fact: GuardrailJudged, position: int, state: State) -> Iterator[Event]:
    checked = state.facts[fact.position]
    if fact.stop:
        yield Event("judged", f"{fact.kind}: {fact.reason}", position)
        if fact.kind == "input":
            yield from _make_output_events(fact.guardrail, fact.reason, position)  # the guardrail's reason is the answer
    elif fact.kind == "output" and isinstance(checked, ModelReplied) and checked.awaits_checks:
        yield from _make_reply_text_events(checked, fact.position)


def _make_redacted_event(fact: Redacted, position: int, state: State) -> Event:
    from legato.core.redaction import has_text  # seldom needed

    derived = [each for each in fact.derived if not has_text(state.facts[each])]  # the other facts lost text that is never shown
    return Event("redacted", RedactedData(tuple(sorted((*fact.positions, *derived))), fact.reason, fact.by), position)


def _make_reply_text_events(fact: ModelReplied, position: int) -> Iterator[Event]:
    if text := extract_reply_text(fact):
        yield from _make_output_events(fact.agent, text, position)


def _make_output_events(author: str, text: str, position: int) -> Iterator[Event]:
    yield Event("output", OutputData(text, author), position)
    yield Event("message", Message(role="assistant", parts=to_parts(text), author_name=author, position=position), position)


def _describe_pause(fact: CallPaused) -> str:
    """Return what a child session waits for, as text."""
    if fact.error:
        return "failed, goes on with resume()"
    if fact.retry_at:
        return "waits to try again"
    return "waits for people" if fact.needed == NO_USAGE else "waits for a limit of its caller"


def _make_tool_data(state: State, ref: CallRef, graph: WorkflowGraph, output: str = "", status: str = "", attempt: int = 0) -> ToolData:
    call = state.find_call(ref)
    fact = state.facts[ref.position]
    agent = fact.agent if isinstance(fact, ModelReplied) else ""
    if call is None:
        return ToolData(ref, "?", agent)
    arguments = mask_arguments(call.arguments, graph.find_secret_arguments(agent, call.call.tool, state.options_of_reply(ref.position)))
    return ToolData(ref, call.call.tool, agent, arguments, output, status, attempt)


def make_request_event(request: Pending, position: int) -> Event:
    """Return the event of a request to people."""
    return Event("request_info", request, position)
