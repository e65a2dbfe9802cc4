"""A run as moments, for protocols that are not ours. May know: sessions, facts, events. Decides: in which order all of it is told.

Events tell words as they are said; facts have everything else, and are told in their order. What is told of a run while it goes on, and
what is told of it from the ledger alone, comes from here: the two differ only in pieces of words.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import TypeAlias

from msgspec import Struct

from legato.core.facts import (
    NO_USAGE,
    AnyFact,
    Call,
    CallLost,
    CallRef,
    CallReturned,
    ChildUsageReported,
    Compacted,
    Decided,
    GuardrailJudged,
    HandedOff,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
    Usage,
)
from legato.core.messages import Message, render_content, to_parts
from legato.core.pending_requests import Pending
from legato.core.planner import SessionStatus, derive_status_and_requests
from legato.core.secret_arguments import mask_arguments
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph
from legato.errors import UnknownLedger
from legato.inspection.secret_masks import mask_output
from legato.runtime.driver import IDLE_STATUSES
from legato.runtime.event_cursor import EventCursor
from legato.runtime.event_projector import EventProjector
from legato.runtime.events import Event, OutputData
from legato.runtime.ledger import fold_in_slices
from legato.runtime.session import Session

# -- the moments -------------------------------------------------------------------------------------------------------


class Heard(Struct, frozen=True):
    """A user said something. `key` is the sender's name for it."""

    message: Message
    key: str
    position: int


class Piece(Struct, frozen=True):
    """Some letters of a reply that is being made. They may be withdrawn. `reply`: which one of the ledger's, counted from 0."""

    reply: int
    agent: str
    text: str


class Withdrawn(Struct, frozen=True):
    """The pieces of that reply do not count: nobody said that."""

    reply: int
    agent: str


class Spoke(Struct, frozen=True):
    """An agent said this, and it is recorded. `reply` is -1 where it is no reply of a model, but a guardrail's words."""

    reply: int
    agent: str
    text: str
    position: int


class Called(Struct, frozen=True):
    """An agent wrote a call. Secret arguments are digests. `for_client`: of a tool that the client of the run offered."""

    call: CallRef
    reply: int
    agent: str
    tool: str
    arguments: str
    for_client: bool = False


class Ended(Struct, frozen=True):
    """A call has its output."""

    called: Called
    output: str
    status: str
    position: int


class HandedOver(Struct, frozen=True):
    """Control has passed."""

    source: str
    target: str
    call: CallRef
    position: int


class Noted(Struct, frozen=True):
    """What else people like to know: a model that failed and is asked again, a loss, an erasure. `kind` is the event's type."""

    kind: str
    words: str


class Rested(Struct, frozen=True):
    """Nothing more happens without people. `length`: of how many facts that is true."""

    status: SessionStatus
    pending: tuple[Pending, ...]
    error: str
    length: int


NOT_AT_REST = Rested("running", (), "", 0)
"""Where a run goes on."""

Moment: TypeAlias = Heard | Piece | Withdrawn | Spoke | Called | Ended | HandedOver | Noted | Rested

NOTED = ("loss", "cut_short", "model_failed", "tool_late", "tool_lost", "tool_paused", "judged", "compacted", "cancelled", "redacted")


class Teller:
    """Makes moments of events. `since`: how many facts are not told any more."""

    def __init__(self, graph: WorkflowGraph, state: State, since: int) -> None:
        self._graph = graph
        self._next = since
        self._replies = sum(isinstance(fact, ModelReplied) for fact in state.facts[:since])
        self._number: dict[int, int] = {}  # replies that were told, by their position
        self._open = {ref: _called(ref, self._replies - 1, state, graph) for ref in _open_at(state, since)}
        self._spoken = ""  # who says the pieces that are shown
        self._asked: list[Pending] = []

    def tell(self, event: Event, state: State) -> Iterator[Moment]:
        """What this event adds. `state` has all facts up to it, and may have more."""
        if event.position >= 0:
            yield from self._facts(state, event.position)
        match event.type, event.data:
            case "output", OutputData(delta=True, text=text, author_name=agent):
                self._spoken = agent
                yield Piece(self._replies, agent, text)
            case "output_reset", _:
                yield from self._withdraw()
            case "message", Message(author_name=agent, text=text):
                reply = self._number.get(event.position, self._replies if isinstance(state.facts[event.position], ModelReplied) else -1)
                if reply < 0:
                    yield from self._withdraw()
                self._spoken = ""
                yield Spoke(reply, agent, text, event.position)
                yield from self._facts(state, event.position + 1)
            case "request_info", Pending() as request:
                self._asked.append(request)
            case "status", status:
                yield from self._facts(state, event.position + 1)
                yield from self._withdraw()
                failed = state.failed_request.error if status == "failed" and state.failed_request else ""
                asked, self._asked = tuple(self._asked), []
                yield Rested(status, asked, failed, event.position + 1)
            case kind, data if kind in NOTED:
                yield Noted(kind, str(data) if data is not None else "")
        if event.position >= 0 and not isinstance(state.facts[event.position], ModelReplied):
            yield from self._facts(state, event.position + 1)  # the calls of a reply come behind its words, which may be yet to come

    def _withdraw(self) -> Iterator[Moment]:
        if self._spoken:
            yield Withdrawn(self._replies, self._spoken)
            self._spoken = ""

    def _facts(self, state: State, upto: int) -> Iterator[Moment]:
        while self._next < upto:
            yield from self._fact(state, self._next)
            self._next += 1

    def _fact(self, state: State, position: int) -> Iterator[Moment]:
        match fact := state.facts[position]:
            case MessageReceived():
                message = Message(role="user", parts=to_parts(fact.content), author_name=fact.author, position=position)
                yield Heard(message, fact.key, position)
            case ModelReplied():
                self._number[position] = self._replies
                for index, item in enumerate(fact.items):
                    if isinstance(item, Call):
                        called = _called(CallRef(position, index), self._replies, state, self._graph)
                        self._open[called.call] = called
                        yield called
                self._replies += 1
        for ref in list(self._open) if isinstance(fact, HandedOff) else _answered_by(fact):
            call = state.find_call(ref)
            if ref in self._open and call is not None and call.output is not None and call.output.position == position:
                called = self._open.pop(ref)
                secrets = self._graph.find_secret_arguments(called.agent, called.tool, state.options_of_reply(ref.position))
                output = render_content(mask_output(call, secrets))
                yield Ended(called, output, call.output.status, position)
        if isinstance(fact, HandedOff):
            yield HandedOver(fact.source, fact.target, fact.call, position)


def _answered_by(fact: AnyFact) -> Iterator[CallRef]:
    """The call that a fact may answer. A handoff answers all that are open."""
    match fact:
        case CallReturned(call=ref) | Decided(call=CallRef() as ref):
            yield ref
        case GuardrailJudged(kind="tool", position=position, index=index):
            yield CallRef(position, index)


def _open_at(state: State, length: int) -> Iterator[CallRef]:
    """The calls that had no output when there were so many facts: only the newest reply can have such."""
    for position in range(length - 1, -1, -1):
        if isinstance(fact := state.facts[position], ModelReplied):
            for index, item in enumerate(fact.items):
                call = state.find_call(CallRef(position, index)) if isinstance(item, Call) else None
                if call is not None and (call.output is None or call.output.position >= length):
                    yield call.ref
            return


def _called(ref: CallRef, reply: int, state: State, graph: WorkflowGraph) -> Called:
    fact = state.facts[ref.position]
    assert isinstance(fact, ModelReplied)
    call = fact.items[ref.index]
    assert isinstance(call, Call)
    options = state.options_of_reply(ref.position)
    arguments = mask_arguments(call.arguments, graph.find_secret_arguments(fact.agent, call.tool, options))
    rules = graph.agents.get(fact.agent)
    theirs = rules.is_client_tool(call.tool, options) if rules is not None else options.offers(call.tool)
    return Called(ref, reply, fact.agent, call.tool, arguments, theirs)


# -- telling -----------------------------------------------------------------------------------------------------------


async def moments(session: Session, since: int, until: int) -> AsyncGenerator[Moment, None]:
    """What happens after the first `since` facts, as it happens, up to the first rest with `until` facts or more."""
    teller = Teller(session.workflow.definition.graph, session.state, since)
    async with aclosing(session.follow(since - 1)) as events:
        async for event in events:
            for moment in teller.tell(event, session.state):
                if isinstance(moment, Rested) and moment.length >= until:
                    yield moment
                    return
                if not isinstance(moment, Rested):
                    yield moment
    raise UnknownLedger(f"session {session.id!r} was deleted")


async def recorded(session: Session, since: int, upto: int) -> list[Moment]:
    """What happened after the first `since` facts and among the first `upto`, from the ledger alone; last, the rest there, if it is one."""
    graph, state = session.workflow.definition.graph, session.state
    now = upto == state.length
    then = state if now else await fold_in_slices(state.facts[:upto], session.id)
    status, pending = derive_status_and_requests(then, graph) if not now else (session.status, session.pending)
    events: list[Event] = []
    screen = EventProjector(events.append, graph, EventCursor(facts=since))
    screen.show_facts(then, upto)
    if status in IDLE_STATUSES:
        screen.show_idle(then, status, pending if status == "pending" else [])
    teller = Teller(graph, then, since)
    return [moment for event in events for moment in teller.tell(event, then)]


def rest_of(told: Sequence[Moment]) -> Rested:
    """The rest that these moments end with; `NOT_AT_REST` if they end with none."""
    return last if told and isinstance(last := told[-1], Rested) else NOT_AT_REST


def text_missing(text: str, shown: str) -> str:
    """What pieces lack of the words that were recorded; empty if these are others, as where a reply has several parts."""
    return text[len(shown) :] if text.startswith(shown) else ""


async def first_rest(session: Session, after: int) -> int:
    """How many facts there were when the session first rested after what was given to it at this position; 0 if it has not since.

    What was given may be an answer to a question of another conversation, which this one waited for: then the next rest counts. Costs as
    much as opening the session.
    """
    graph, facts = session.workflow.definition.graph, session.state.facts
    state = await fold_in_slices(facts[: after + 1], session.id)
    if is_input(facts[after]) and derive_status_and_requests(state, graph)[0] in IDLE_STATUSES:
        return state.length
    for fact in facts[after + 1 :]:
        state.apply(fact)
        if derive_status_and_requests(state, graph)[0] in IDLE_STATUSES:
            return state.length
    return 0


def is_input(fact: object) -> bool:
    """Whether somebody gave this to the conversation, from outside."""
    return isinstance(fact, MessageReceived) or (isinstance(fact, Decided) and fact.is_from_caller)


def usage_of(state: State, since: int, upto: int) -> Usage:
    """Sum what models used in a range of facts, in this session and in its child sessions."""
    used = Usage()
    reported: dict[CallRef, dict[str, Usage]] = {}  # the totals that each child session last reported
    for fact in state.facts[since:upto]:
        if isinstance(fact, (ModelReplied, ModelRequestFailed, Compacted)):
            used += fact.usage
        elif isinstance(fact, ChildUsageReported):
            before = reported.get(fact.call)
            if before is None:
                before = _report_before(state.facts, since, fact.call)
            for agent, usage in fact.agents:
                used += usage.increase_over(before.get(agent, NO_USAGE))
            reported[fact.call] = dict(fact.agents)
        elif isinstance(fact, CallLost) and fact.missing:
            reported[fact.call] = {}
    return used


def _report_before(facts: Sequence[AnyFact], position: int, call: CallRef) -> dict[str, Usage]:
    """The totals that the child session of a call last reported before a position. A child that was missing counts from nothing."""
    for fact in reversed(facts[call.position : position]):
        if isinstance(fact, ChildUsageReported) and fact.call == call:
            return dict(fact.agents)
        if isinstance(fact, CallLost) and fact.missing and fact.call == call:
            break
    return {}
