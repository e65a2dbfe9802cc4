"""Runs tools.

A tool is run only after its `CallStarted` is durable. What it returns, raises, or fails to do in time is an output for the model; a
sibling is never harmed by it. What ends after its call was answered is late: recorded for people, never sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from legato.core import messages_to_model
from legato.core.child_session_ids import child_session_id
from legato.core.digests import digest_bytes
from legato.core.facts import AnyFact, CallLost, CallPaused, CallRef, CallReturned, Cancelled, Content, Text, Usage
from legato.core.groups import CallState
from legato.core.planner import GiveUp, RunTool, answers_of
from legato.core.state import State
from legato.core.workflow_graph import byte_length
from legato.runtime.claims import Claims, call_and_agent, tool_context
from legato.runtime.clock import now_ms, seconds
from legato.runtime.definition import AgentDefinition, Definition
from legato.runtime.ledger import Ledger, failed_itself
from legato.runtime.outcomes import Outcome, in_background, no_outcome, record_later
from legato.runtime.parent_call import Caller, Reservations, current_caller
from legato.runtime.worker_slot import Slot
from legato.tools import CallerStopped, ChildMissing, ChildPaused, OutcomeUnknown, Tool, tool_content, tool_output

if TYPE_CHECKING:
    from legato.runtime.child_sessions import ChildSessions
    from legato.runtime.instrumentation import Watch

OUTPUT_LETTERS = 64_000
"""What of an output a model is given. The whole of a longer one is kept in the store's contents, for people and tools."""

IDEMPOTENT_ATTEMPTS = 3
"""How often an idempotent tool that cannot know its outcome is started, before the model is told that nobody does."""


class ToolRunner:
    """Performs `RunTool` and `GiveUp`."""

    def __init__(
        self,
        definition: Definition,
        ledger: Ledger,
        context: Any,
        others: ChildSessions,
        claims: Claims,
        caller: Caller | None = None,
        slot: Slot | None = None,
    ) -> None:
        self._definition = definition
        self._ledger = ledger
        self._context = context
        self._others = others
        self._claims = claims
        self._caller = caller  # the call that this session works for, if it is a child session
        self._slot = slot  # which child sessions work in too
        self._reserved: Reservations = {}  # model requests of child sessions that are under way
        self.watch: Watch | None = None

    async def give_up(self, effect: GiveUp) -> Outcome:
        """Stop the child session that a call waits for, and then answer the call: so nothing can be approved there any more."""
        await self._others.stop(effect.call)
        return Outcome((CallReturned(at=now_ms(), call=effect.call, status=effect.status, output=effect.words),))

    def run(self, effect: RunTool) -> Coroutine[Any, Any, Outcome]:
        """Run one attempt to its end, its time limit, or its cancellation."""
        call, agent = call_and_agent(self._definition, self._ledger.state, effect.call)
        running = call.running
        if running is None or running.number != effect.attempt:
            return no_outcome()  # another driver took it for lost before it began
        tool = agent.tools[call.call.tool]
        begun = seconds()
        doing = self._attempted(effect, agent, tool, call, begun)
        return doing if tool.timeout is None and tool.can_stop else self._in_a_task(effect, tool, begun, doing)

    async def _in_a_task(self, effect: RunTool, tool: Tool, begun: float, doing: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Run a body of which one may have to let go."""
        body = asyncio.get_running_loop().create_task(doing)
        try:
            await asyncio.wait({body}, timeout=tool.timeout)
        except asyncio.CancelledError:
            if tool.can_stop:
                body.cancel()
            self.leave(body, effect.call)
            raise
        if body.done():
            return body.result()
        assert tool.timeout is not None
        # A payment cut off in the middle is worse than one that ends late: only what may be repeated is stopped.
        if tool.idempotent and tool.can_stop:
            body.cancel()
        self.leave(body, effect.call)
        words = messages_to_model.timed_out(tool.name, tool.timeout, tool.idempotent)
        return Outcome((_returned(effect, "timeout", words, begun),))

    async def _attempted(self, effect: RunTool, agent: AgentDefinition, tool: Tool, call: CallState, begun: float) -> Outcome:
        """Run the body to its end: what it returns or raises is the outcome."""
        try:
            watch = self.watch
            with nullcontext() if watch is None else watch.running(agent.name, tool.name, effect.call, effect.attempt):
                output, contents = tool_content(await self._body(agent, tool, call, effect.attempt))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self._output(effect, tool, "error", "The tool was cancelled from within.", {}, begun)
        except (Exception, ChildPaused, ChildMissing, CallerStopped, OutcomeUnknown) as error:
            return await self._raised(effect, tool, error, begun)
        finally:
            if tool.works_in is not None:
                self._caller_for(effect.call, "", resumes=True).end()
        return self._output(effect, tool, "ok", output, contents, begun)

    def _output(
        self, effect: RunTool, tool: Tool, status: Literal["ok", "error"], output: Content, contents: dict[str, bytes], begun: float
    ) -> Outcome:
        """The output of an attempt, within the limit: a model is given the beginning of a long text, and the store keeps the whole."""
        most = self._definition.graph.limits.output_bytes
        if most is not None and (size := _output_bytes(output, contents)) > most:
            status, output, contents = "error", messages_to_model.output_too_large(tool.name, size, int(most)), {}
        full = ""
        if isinstance(output, str) and len(output) > OUTPUT_LETTERS:
            data = output.encode()
            full = digest_bytes(data)
            contents[full] = data
            output = f"{output[:OUTPUT_LETTERS]}\n[cut here: {len(output)} characters in all]"
        return Outcome((_returned(effect, status, output, begun, full),), contents)

    async def _raised(self, effect: RunTool, tool: Tool, error: BaseException, begun: float) -> Outcome:
        """The outcome of an attempt whose body raised this."""
        lost = CallLost(at=now_ms(), call=effect.call, attempt=effect.attempt, missing=isinstance(error, ChildMissing))
        match error:
            case ChildPaused():
                return Outcome((_paused(effect, error, begun),))
            case ChildMissing():
                return Outcome((lost,))
            case CallerStopped():
                return await self._with_caller(effect, error, begun)
            case OutcomeUnknown() if not tool.idempotent or effect.attempt < IDEMPOTENT_ATTEMPTS:
                return Outcome((lost,))
            case OutcomeUnknown():
                words = f"Nobody knows whether {tool.name!r} took effect: {error}"
            case _ if tool.idempotent and failed_itself(self._ledger.store, error):
                raise error  # that the store fails is no outcome: the drive ends, and the next one starts this again
            case _:
                words = f"{type(error).__name__}: {error}"
        return self._output(effect, tool, "error", tool_output(words), {}, begun)

    async def _with_caller(self, effect: RunTool, stop: CallerStopped, begun: float) -> Outcome:
        """The stop of this conversation, of which the one that is held for a call knew first; unless its user has spoken since.

        As with every stop, the conversations that other calls wait for are stopped before it.
        """
        stopped: set[CallRef] = set()
        if _quiet_since(self._ledger.state, stop.holders[0]):
            stopped = await self._others.stop_all(stop.words, stop.holders)

        def decide(state: State) -> Iterator[AnyFact]:
            call = state.call(effect.call)
            if call is None or call.output is not None:
                return
            if not _quiet_since(state, stop.holders[0]):
                words = messages_to_model.cancelled(call.call.tool, started=True, idempotent=True)
                yield from Outcome((_returned(effect, "error", words, begun),)).propose(state)
            elif all(each.ref in stopped for each in state.batch if each.paused):  # else it is not over, and is looked at again
                yield Cancelled(at=now_ms(), words=stop.words, holders=stop.holders[1:])
                yield from answers_of(state, self._definition.graph, now_ms())

        return Outcome(decide=decide)

    def _body(self, agent: AgentDefinition, tool: Tool, call: CallState, attempt: int) -> Awaitable[object]:
        values = self._claims.values(call, tool)
        context = tool_context(self._ledger, self._context, agent.name, call, attempt, values)
        current_caller.set(self._caller_of(call, attempt, context.idempotency_key) if tool.works_in is not None else None)
        if not agent.middleware:
            return tool.run(context, values)

        async def run() -> object:
            return await tool.run(context, values)

        proceed = run
        for middleware in reversed(agent.middleware):
            proceed = partial(middleware.around_tool, context.call, proceed)
        return proceed()

    def _caller_of(self, call: CallState, attempt: int, key: str) -> Caller:
        resumes = attempt > 1 and not call.attempts[attempt - 2].missing
        return self._caller_for(call.ref, child_session_id(self._ledger.session, key), resumes)

    def _caller_for(self, call: CallRef, child: str, resumes: bool) -> Caller:
        return Caller(self._ledger, self._definition.graph.limits, call, child, resumes, self._reserved, self._caller, self._slot)

    def has_room(self, call: CallRef, needed: Usage) -> bool:
        """Whether a model request of the child session of a call would be within the limits, beside those that are under way."""
        return self._caller_for(call, "", resumes=True).allows(needed)

    def leave(self, running: asyncio.Task[Outcome], call: CallRef) -> None:
        """Wait no longer for a tool. If it ends after all, what it did is kept for people. A conversation that it held is over then."""

        async def late() -> None:
            await asyncio.wait({running})
            if not running.cancelled() and running.exception() is None:
                record_later(self._ledger, [running.result()])
            await self._others.let_go(call)

        in_background(late)


def _returned(effect: RunTool, status: Literal["ok", "error", "timeout"], output: Content, begun: float, full: str = "") -> CallReturned:
    """The output of an attempt that began at this time."""
    return CallReturned(at=now_ms(), call=effect.call, attempt=effect.attempt, status=status, output=output, full=full, took=_took(begun))


def _paused(effect: RunTool, paused: ChildPaused, begun: float) -> CallPaused:
    """The end of an attempt whose child session cannot go on."""
    return CallPaused(
        at=now_ms(),
        call=effect.call,
        attempt=effect.attempt,
        session=paused.session,
        length=paused.length,
        took=_took(begun),
        error=paused.error,
        needed=paused.needed,
        retry_at=paused.retry_at,
    )


def _output_bytes(output: Content, contents: Mapping[str, bytes]) -> int:
    """The size of what a tool returned: its words, and its pictures and files."""
    words = [output] if isinstance(output, str) else [part.text for part in output if isinstance(part, Text)]
    return sum(map(byte_length, words)) + sum(map(len, contents.values()))


def _quiet_since(state: State, length: int) -> bool:
    """Whether the user has said nothing, and nobody stopped anything, since there were so many facts."""
    return max(state.spoken_at, state.stop.at, *(group.position for group in state.waiting)) < length


def _took(begun: float) -> int:
    return round((seconds() - begun) * 1000)
