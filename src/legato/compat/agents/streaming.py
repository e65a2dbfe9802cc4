"""A running run as the SDK's events.

Facts become item events, deltas become text deltas. One loop runs either way: streaming observes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from openai.types.responses import ResponseTextDeltaEvent

from legato.compat.agents.agent import Agent
from legato.compat.agents.context import RunContextWrapper
from legato.compat.agents.items import HandoffCallItem, HandoffOutputItem, MessageOutputItem, ReasoningItem, RunItem, ToolCallOutputItem
from legato.compat.agents.ledger_items import groups_of_run, output_item, reply_items
from legato.compat.agents.run_result import RunResult, problem_of, tell_end
from legato.compat.agents.unsupported_errors import mirrors
from legato.compat.agents.workflow_builder import Team, final_call
from legato.compat.gaps import raise_absent
from legato.core.facts import AnyFact, CallRef, CallReturned, Decided, GuardrailJudged, HandedOff, ModelReplied
from legato.core.groups import CallState, Group
from legato.core.state import State
from legato.runtime.events import Event, OutputData
from legato.runtime.session import Session


@dataclass
class RawResponsesStreamEvent:
    """A piece of words, in the provider's form for one."""

    data: Any
    type: str = "raw_response_event"


@dataclass
class RunItemStreamEvent:
    """Something that has happened, recorded."""

    name: str
    item: RunItem
    type: str = "run_item_stream_event"


@dataclass
class AgentUpdatedStreamEvent:
    """Control is with this agent now."""

    new_agent: Agent[Any]
    type: str = "agent_updated_stream_event"


@dataclass
class OutputResetStreamEvent:
    """Ours: the pieces since the last item were of an attempt that broke off. The reply comes again from its beginning."""

    type: str = "output_reset_stream_event"


StreamEvent: TypeAlias = RawResponsesStreamEvent | RunItemStreamEvent | AgentUpdatedStreamEvent | OutputResetStreamEvent

Prepare: TypeAlias = Callable[[], Awaitable[tuple[Team, Session, RunContextWrapper[Any]]]]


@mirrors("RunResultStreaming")
class RunResultStreaming(RunResult):
    """A run that is under way: `async for event in result.stream_events()`, then everything that a result has.

    The run goes on whether or not anybody looks; an exception comes out of `stream_events()`.
    """

    def __init__(self, starting: Agent[Any], prepare: Prepare) -> None:
        self._starting = starting
        self._prepare = prepare
        self._queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        self._problem: BaseException | None = None
        self._leave = False
        self.is_complete = False
        self._task = asyncio.get_running_loop().create_task(self._drive())

    def __getattr__(self, name: str) -> Any:
        if name in ("_team", "_session", "context_wrapper"):
            raise AttributeError(f"the run has not begun: look at it after `async for event in result.stream_events()` ({name})")
        return raise_absent(self, name)

    @property
    def interruptions(self) -> list[Any]:
        """The calls that wait for a person; none before the run has ended."""
        return super().interruptions if self.is_complete and "_session" in self.__dict__ else []

    @property
    def final_output(self) -> Any:
        """The last agent's output; None before the run has ended."""
        return super().final_output if self.is_complete and "_session" in self.__dict__ else None

    @property
    def current_agent(self) -> Agent[Any]:
        """The agent that has control."""
        return super().last_agent if "_session" in self.__dict__ and self._session.state.facts else self._starting

    @property
    def current_turn(self) -> int:
        """The number of replies in this run so far."""
        return len([group for group in groups_of_run(self._state) if group.fact is not None]) if "_session" in self.__dict__ else 0

    @property
    def run_loop_task(self) -> asyncio.Task[None]:
        """The task that drives the run."""
        return self._task

    @property
    def run_loop_exception(self) -> BaseException | None:
        """The exception that ended the run, if any."""
        return self._problem

    def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Stop driving. What runs is finished and recorded; `to_state()` goes on from there."""
        self._leave = True
        self._queue.put_nowait(None)

    async def stream_events(self) -> AsyncIterator[StreamEvent]:
        """Yield the events of the run as they happen."""
        while not self._queue.empty() or not self.is_complete:
            event = await self._queue.get()
            if event is None:
                break
            yield event
        if self._problem is not None:
            raise self._problem

    def __repr__(self) -> str:
        return super().__repr__() if self.is_complete and "_session" in self.__dict__ else "<RunResultStreaming under way>"

    async def _drive(self) -> None:
        try:
            self._queue.put_nowait(AgentUpdatedStreamEvent(self._starting))
            self._team, self._session, self.context_wrapper = await self._prepare()
            since = (await self._session.refresh()).state.length
            teller = _EventTranslator(self._team, self._session)
            async with aclosing(self._session.resume(stream=True).__aiter__()) as events:  # type: ignore[type-var]
                async for event in events:
                    for told in teller.tell(event):
                        self._queue.put_nowait(told)
                    if self._leave:
                        break
            for told in teller.rest():
                self._queue.put_nowait(told)
            self._problem = problem_of(self) if not self._leave else None
            if self._problem is None:
                await tell_end(self._team, self._session, self.context_wrapper, since)
        except BaseException as error:
            self._problem = error
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self.is_complete = True
            self._queue.put_nowait(None)


class _EventTranslator:
    """Tells facts as they are recorded. It knows up to where it has told, as every observer does."""

    def __init__(self, team: Team, session: Session) -> None:
        self._team = team
        self._session = session
        self._graph = team.workflow.definition.graph
        self._told = session.state.length
        self._pieces = 0

    def tell(self, event: Event) -> Iterator[StreamEvent]:
        if event.type == "output" and isinstance(event.data, OutputData):
            self._pieces += 1
            yield RawResponsesStreamEvent(
                ResponseTextDeltaEvent(
                    content_index=0,
                    delta=event.data.text,
                    item_id="",
                    logprobs=[],
                    output_index=0,
                    sequence_number=self._pieces,
                    type="response.output_text.delta",
                )
            )
        elif event.type == "output_reset":
            yield OutputResetStreamEvent()
        yield from self._facts(event.position + 1)

    def rest(self) -> Iterator[StreamEvent]:
        yield from self._facts(self._session.state.length)

    def _facts(self, end: int) -> Iterator[StreamEvent]:
        state = self._session.state
        while self._told < min(end, state.length):
            fact = state.facts[self._told]
            if self._is_held(fact, self._told, state):
                return
            self._told += 1
            yield from self._of(fact, self._told - 1, state)

    def _is_held(self, fact: AnyFact, position: int, state: State) -> bool:
        """Return True if a fact has the run's output and guardrails have yet to judge it."""
        reply = state.last_reply
        if reply is None or not reply.awaits_checks:
            return False
        if not reply.calls:
            return position == reply.position
        final = final_call(state, self._team.agents)
        return final is not None and final.output is not None and final.output.position == position

    def _of(self, fact: AnyFact, position: int, state: State) -> Iterator[StreamEvent]:
        find = self._team.find
        match fact:
            case ModelReplied():
                group = _group(state, position)
                if group is not None and not group.rejected:
                    for item in reply_items(group, self._graph, find):
                        yield RunItemStreamEvent(_name(item), item)
            case HandedOff(call=ref):
                yield from self._outputs(state, ref, every=True)
                yield AgentUpdatedStreamEvent(find(fact.target))
            case CallReturned(call=ref, late=False):
                yield from self._outputs(state, ref)
            case Decided(call=ref, verdict="reject" | "answer") if ref is not None:
                yield from self._outputs(state, ref)
            case GuardrailJudged(kind="tool", stop=True):
                yield from self._outputs(state, CallRef(fact.position, fact.index))
            case _:
                return

    def _outputs(self, state: State, ref: CallRef, every: bool = False) -> Iterator[StreamEvent]:
        """The output of a call; of a handoff, those of all that it answered."""
        group = _group(state, ref.position)
        if group is None or group.rejected:
            return
        here = state.find_call(ref)
        for call in group.calls if every else [here]:
            if call is not None and call.output is not None and (call is here or _together(call, here)):
                item = output_item(group, call, self._graph, self._team.find)
                yield RunItemStreamEvent(_name(item), item)


def _together(call: CallState, other: CallState | None) -> bool:
    return other is not None and other.output is not None and call.output is not None and call.output.position == other.output.position


def _group(state: State, position: int) -> Group | None:
    return next((group for group in reversed(state.groups) if group.position == position), None)


def _name(item: RunItem) -> str:
    match item:
        case MessageOutputItem():
            return "message_output_created"
        case HandoffCallItem():
            return "handoff_requested"
        case HandoffOutputItem():
            return "handoff_occured"  # as the SDK spells it
        case ToolCallOutputItem():
            return "tool_output"
        case ReasoningItem():
            return "reasoning_item_created"
        case _:
            return "tool_called"
