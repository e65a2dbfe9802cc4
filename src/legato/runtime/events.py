"""What happens, as it happens. May know: facts. Decides: what an observer is told.

Every fact becomes at most a few events, the same whether this process recorded it or another, and whatever comes after it. Pieces of words
(`output` with `delta`) come beside them: see `event_projector.py`. Printing an event gives a line a person can read.
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
)
from legato.core.groups import spoken
from legato.core.handoff_arguments import Arrival
from legato.core.messages import Message, parts_of, text_of
from legato.core.pending_requests import Pending
from legato.core.secret_arguments import masked
from legato.core.state import State
from legato.core.workflow_graph import Graph


class Event(Struct, frozen=True):
    """Something that happened: `.type`, `.data`, and the `.position` of the fact it comes from (-1: none yet).

    `.cursor` is where to go on after it, with `session.follow(after=...)`; empty for pieces of words, which may yet be withdrawn.
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
    """Words for the user: a piece (`delta`) or the whole. `attempt` numbers the calls of the model for this reply."""

    text: str
    author_name: str
    delta: bool = False
    attempt: int = 1

    def __str__(self) -> str:
        return f"{self.author_name}: {self.text}"


class HandoffData(Struct, frozen=True):
    source: str
    target: str
    reason: str = ""
    input: str = ""

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}{f' ({self.reason})' if self.reason else ''}"


class ToolData(Struct, frozen=True):
    call: CallRef
    tool: str
    agent: str
    arguments: str = ""
    output: str = ""
    status: str = ""
    attempt: int = 0

    def __str__(self) -> str:
        told = f" = {self.output[:200]}" if self.output else ""
        return f"{self.tool}({self.arguments}){told}{f' [{self.status}]' if self.status not in ('', 'ok') else ''}"


class RedactedData(Struct, frozen=True):
    """Words were erased: what was shown of the facts at `positions`, or of calls made there, is not to be shown any more."""

    positions: tuple[int, ...]
    reason: str = ""
    by: str = ""

    def __str__(self) -> str:
        return f"the words at {', '.join(map(str, self.positions))}{f': {self.reason}' if self.reason else ''}"


class Waiting(Struct, frozen=True):
    """The conversation waits for its user's next message."""

    agent: str

    def __str__(self) -> str:
        return f"{self.agent} waits for the user"


def events_of(fact: AnyFact, position: int, state: State, graph: Graph) -> Iterator[Event]:
    """The events that one fact is. `state` has the fact applied."""
    match fact:
        case MessageReceived():
            yield Event("said", Message(role="user", parts=parts_of(fact.content), author_name=fact.author, position=position), position)
        case ModelReplied():
            yield from _answered(fact, position)
        case ModelRequestFailed():
            outlook = ", giving up" if fact.final else ""
            yield Event("model_failed", f"{fact.agent}: {fact.error} (attempt {fact.number}{outlook})", position)
        case CallStarted() | CallReturned() | CallLost() | CallPaused():
            yield _tool_event(fact, position, state, graph)
        case HandedOff():
            taken = state.call(fact.call)
            arrival = Arrival(fact.source, fact.target, taken.arguments if taken else "")
            yield Event("handoff_sent", HandoffData(fact.source, fact.target, arrival.reason, arrival.input), position)
        case Decided():
            yield Event("decided", _describe_decision(fact), position)
        case GuardrailJudged():
            yield from _judged(fact, position, state)
        case AgentPrompted():
            yield Event("prompted", f"{fact.agent}: {fact.text}", position)
        case Compacted():
            yield Event("compacted", f"{fact.agent}: up to {fact.upto}", position)
        case Cancelled():
            yield Event("cancelled", fact.words or None, position)
        case Redacted():
            yield _redacted(fact, position, state)


def _describe_decision(fact: Decided) -> str:
    about = f"call {fact.call}" if fact.call else fact.limit or str(fact.standing)
    answer = fact.words or text_of(fact.output)  # what the call is answered with, where no tool returns anything
    return f"{fact.verdict} {fact.kind} of {about}{f': {answer}' if answer else ''}"


def _answered(fact: ModelReplied, position: int) -> Iterator[Event]:
    for loss in fact.losses:
        yield Event("loss", loss, position)
    if fact.finish != "stop":
        yield Event("cut_short", fact.finish, position)
    if not fact.guarded:
        yield from _spoken(fact, position)


def _tool_event(fact: CallStarted | CallReturned | CallLost | CallPaused, position: int, state: State, graph: Graph) -> Event:
    match fact:
        case CallStarted():
            return Event("tool_started", _tool(state, fact.call, graph, attempt=fact.attempt), position)
        case CallReturned():
            data = _tool(state, fact.call, graph, text_of(fact.output), fact.status, fact.attempt)
            return Event("tool_late" if fact.late else "tool_returned", data, position)
        case CallLost():
            return Event("tool_lost", _tool(state, fact.call, graph, status="outcome unknown", attempt=fact.attempt), position)
        case CallPaused():
            return Event("tool_paused", _tool(state, fact.call, graph, status=_why_paused(fact), attempt=fact.attempt), position)


def _judged(fact: GuardrailJudged, position: int, state: State) -> Iterator[Event]:
    judged = state.facts[fact.position]
    if fact.stop:
        yield Event("judged", f"{fact.kind}: {fact.words or 'enough'}", position)
        if fact.kind == "input":
            yield from _said_by(fact.by, fact.words, position)  # the guardrail's words are the answer
    elif fact.kind == "output" and isinstance(judged, ModelReplied) and judged.guarded:
        yield from _spoken(judged, fact.position)


def _redacted(fact: Redacted, position: int, state: State) -> Event:
    from legato.core.redaction import has_words  # seldom needed

    along = [each for each in fact.along if not has_words(state.facts[each])]  # others lost what is never shown
    return Event("redacted", RedactedData(tuple(sorted((*fact.positions, *along))), fact.reason, fact.by), position)


def _spoken(fact: ModelReplied, position: int) -> Iterator[Event]:
    if words := spoken(fact):
        yield from _said_by(fact.agent, words, position)


def _said_by(author: str, words: str, position: int) -> Iterator[Event]:
    yield Event("output", OutputData(words, author), position)
    yield Event("message", Message(role="assistant", parts=parts_of(words), author_name=author, position=position), position)


def _why_paused(fact: CallPaused) -> str:
    """What the agent waits for that works as a tool."""
    if fact.error:
        return "failed, goes on with resume()"
    if fact.retry_at:
        return "waits to try again"
    return "waits for people" if fact.needed == NO_USAGE else "waits for a limit of its caller"


def _tool(state: State, ref: CallRef, graph: Graph, output: str = "", status: str = "", attempt: int = 0) -> ToolData:
    call = state.call(ref)
    fact = state.facts[ref.position]
    agent = fact.agent if isinstance(fact, ModelReplied) else ""
    if call is None:
        return ToolData(ref, "?", agent)
    arguments = masked(call.arguments, graph.secrets(agent, call.call.tool, state.options_of(ref.position)))
    return ToolData(ref, call.call.tool, agent, arguments, output, status, attempt)


def request_event(request: Pending, position: int) -> Event:
    return Event("request_info", request, position)
