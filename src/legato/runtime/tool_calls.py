"""Tool calls: the claims that are recorded before a call takes effect, and the runs of tools.

A claim (a tool starts, a handoff is taken, a call needs approval) is decided at once, from the state in which it is recorded. If another
writer appended first, it is decided again.

A tool runs only after its `CallStarted` is durable. What the tool returns or raises, or that its time limit was reached, is an output for
the model, and never affects other calls. An outcome that comes after its call was answered is late: it is recorded for people, and not
sent to the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from legato.core import texts_for_model
from legato.core.child_session_ids import make_child_session_id
from legato.core.digests import digest_arguments, digest_bytes
from legato.core.facts import (
    AnyFact,
    ApprovalChecked,
    CallLost,
    CallPaused,
    CallRef,
    CallReturned,
    CallStarted,
    Cancelled,
    Content,
    HandedOff,
    ModelReplied,
    Text,
    Usage,
)
from legato.core.groups import CallState
from legato.core.handoff_arguments import parse_handoff_arguments
from legato.core.limits import measure_utf8_bytes
from legato.core.planner import AbandonCall, CheckCall, RunTool, answer_stopped_calls
from legato.core.state import State
from legato.core.workflow_graph import HandoffEdge
from legato.runtime.clock import elapsed_ms, monotonic, now_ms
from legato.runtime.definition import AgentDefinition, WorkflowDefinition
from legato.runtime.ledger import EffectOutcome, Ledger, is_error_of_store, make_empty_outcome, record_later, run_in_background
from legato.runtime.parent_call import ParentCall, Reservations, current_parent_call
from legato.runtime.worker_slot import WorkerSlot
from legato.tools import (
    BadArguments,
    CallerStopped,
    ChildMissing,
    ChildPaused,
    OutcomeUnknown,
    Tool,
    ToolCall,
    ToolContext,
    tool_content,
    tool_output,
)

if TYPE_CHECKING:
    from legato.runtime.child_sessions import ChildSessions
    from legato.runtime.instrumentation import DriveInstrumentation

MAX_OUTPUT_CHARS = 64_000
"""Characters of an output that a model is given. The complete text of a longer output is in the store's contents, for people and tools."""

MAX_IDEMPOTENT_ATTEMPTS = 3
"""Attempts of an idempotent tool whose outcome stays unknown, before the model is told that it is unknown."""


class Claims:
    """Decisions about calls that need neither people nor user code. A call with invalid arguments is answered with an error instead."""

    def __init__(self, definition: WorkflowDefinition) -> None:
        self._definition = definition
        self._validated_arguments: dict[
            CallRef, tuple[str, dict[str, object]]
        ] = {}  # the arguments of calls that are about to run, and their values

    def claim_start(self, state: State, effect: RunTool, epoch: int) -> AnyFact | None:
        """Return the fact that starts an attempt; None if an attempt is open."""
        call, agent = find_call_and_agent(self._definition, state, effect.call)
        if call.open_attempt:
            return None
        try:
            self._validated_arguments[effect.call] = (call.arguments, agent.tools[call.call.tool].validate(call.arguments))
        except BadArguments as error:
            return make_wrong_arguments_output(call, error)
        digest = digest_arguments(call.arguments) if call.needs_approval else ""
        return CallStarted(at=now_ms(), call=effect.call, attempt=effect.attempt, epoch=epoch, digest=digest)

    def pop_arguments(self, call: CallState, tool: Tool) -> dict[str, object]:
        """Return the values that a started tool runs with. They were made by `claim_start`, unless another driver started the attempt.

        Arguments that were erased since the start are still used: a tool that runs is allowed to finish.
        """
        arguments, values = self._validated_arguments.pop(call.ref, ("", {}))
        is_claimed = arguments and (arguments == call.arguments or call.stop_reason == "erased")
        return values if is_claimed else tool.validate(call.arguments)

    def check_approval(self, state: State, effect: CheckCall) -> AnyFact | None:
        """Return the fact that a call needs approval; None if user code or the schema of a client's tool decides that."""
        call, agent = find_call_and_agent(self._definition, state, effect.call)
        if edge := self._find_edge(agent, call):
            error = self._check_handoff(edge, call)
        elif is_client_call(self._definition, state, call):
            return None
        else:
            error = _check_arguments(agent.tools[call.call.tool], call)
            if error is None and (agent.guardrails_on("tool") or agent.tools[call.call.tool].needs_approval is not True):
                return None
        return error or ApprovalChecked(at=now_ms(), call=call.ref, needed=True, digest=digest_arguments(call.arguments))

    def claim_handoff(self, state: State, ref: CallRef) -> AnyFact:
        """Return the fact of a handoff; of an error if its arguments are invalid."""
        call, agent = find_call_and_agent(self._definition, state, ref)
        edge = self._find_edge(agent, call)
        assert edge is not None
        return self._check_handoff(edge, call) or HandedOff(at=now_ms(), call=ref, source=edge.source, target=edge.target)

    def _find_edge(self, agent: AgentDefinition, call: CallState) -> HandoffEdge | None:
        return self._definition.graph.agents[agent.name].edges.get(call.call.tool)

    def _check_handoff(self, edge: HandoffEdge, call: CallState) -> CallReturned | None:
        parse = self._definition.edges[edge.source, edge.target].parse_input
        try:
            _, input = parse_handoff_arguments(call.arguments)
            if parse is not None:
                parse(input)
        except Exception as error:  # a user's validator may raise anything
            text = tool_output(f"Not handed over: the arguments of {call.call.tool!r} are wrong. {error}")
            return CallReturned(at=now_ms(), call=call.ref, status="error", output=text)
        return None


def find_call_and_agent(definition: WorkflowDefinition, state: State, ref: CallRef) -> tuple[CallState, AgentDefinition]:
    """Return a call, and the agent that made it."""
    call, reply = state.find_call(ref), state.facts[ref.position]
    assert call is not None and isinstance(reply, ModelReplied)
    return call, definition.agents[reply.agent]


def is_client_call(definition: WorkflowDefinition, state: State, call: CallState) -> bool:
    """Return True if a call is of a tool that the run's client has and runs."""
    reply = state.facts[call.ref.position]
    assert isinstance(reply, ModelReplied)
    return definition.graph.agents[reply.agent].is_client_tool(call.call.tool, state.options_of_reply(call.ref.position))


def make_wrong_arguments_output(call: CallState, error: BadArguments) -> CallReturned:
    """Return the output of a call whose arguments are invalid."""
    return CallReturned(at=now_ms(), call=call.ref, status="error", output=str(error))


def make_tool_context(
    ledger: Ledger, context: Any, agent: str, call: CallState, attempt: int, values: dict[str, object]
) -> ToolContext[Any]:
    """Return the context of a call, for its tool and its approval function."""
    return ToolContext(
        context=context,
        session_id=ledger.session_id,
        agent=agent,
        call=ToolCall(str(call.ref), call.call.tool, values),
        idempotency_key=ledger.state.make_idempotency_key(call.ref),
        attempt=attempt,
    )


def _check_arguments(tool: Tool, call: CallState) -> CallReturned | None:
    try:
        tool.validate(call.arguments)
    except BadArguments as error:
        return make_wrong_arguments_output(call, error)
    return None


class ToolRunner:
    """The performer of the effects `RunTool` and `AbandonCall`."""

    def __init__(
        self,
        definition: WorkflowDefinition,
        ledger: Ledger,
        context: Any,
        child_sessions: ChildSessions,
        claims: Claims,
        parent_call: ParentCall | None = None,
        slot: WorkerSlot | None = None,
    ) -> None:
        """`parent_call` is the call that a child session works for. Child sessions of this session work in its slot too."""
        self._definition = definition
        self._ledger = ledger
        self._context = context
        self._child_sessions = child_sessions
        self._claims = claims
        self._parent_call = parent_call
        self._slot = slot
        self._reservations: Reservations = {}  # for model requests of child sessions
        self.instrumentation: DriveInstrumentation | None = None

    async def abandon_call(self, effect: AbandonCall) -> EffectOutcome:
        """Cancel the child session that a call waits for, so that nothing can be approved there any more, and then answer the call."""
        await self._child_sessions.stop(effect.call)
        return EffectOutcome((CallReturned(at=now_ms(), call=effect.call, status=effect.status, output=effect.text),))

    def run(self, effect: RunTool) -> Coroutine[Any, Any, EffectOutcome]:
        """Run one attempt to its end, its time limit, or its cancellation."""
        call, agent = find_call_and_agent(self._definition, self._ledger.state, effect.call)
        open_attempt = call.open_attempt
        if open_attempt is None or open_attempt.number != effect.attempt:
            return make_empty_outcome()  # another driver declared it lost before it began
        tool = agent.tools[call.call.tool]
        started_at = monotonic()
        body = self._run_body(effect, agent, tool, call, started_at)
        return body if tool.timeout is None and tool.is_cancellable else self._run_in_task(effect, tool, started_at, body)

    async def _run_in_task(self, effect: RunTool, tool: Tool, started_at: float, body: Coroutine[Any, Any, EffectOutcome]) -> EffectOutcome:
        """Run a tool in a task of its own, which may have to be abandoned."""
        task = asyncio.get_running_loop().create_task(body)
        try:
            await asyncio.wait({task}, timeout=tool.timeout)
        except asyncio.CancelledError:
            if tool.is_cancellable:
                task.cancel()
            self.abandon_task(task, effect.call)
            raise
        if task.done():
            return task.result()
        assert tool.timeout is not None
        # A payment that is interrupted is worse than one that ends late: only idempotent tools are cancelled.
        if tool.idempotent and tool.is_cancellable:
            task.cancel()
        self.abandon_task(task, effect.call)
        text = texts_for_model.call_timed_out(tool.name, tool.timeout, tool.idempotent)
        return EffectOutcome((_make_returned_fact(effect, "timeout", text, started_at),))

    async def _run_body(self, effect: RunTool, agent: AgentDefinition, tool: Tool, call: CallState, started_at: float) -> EffectOutcome:
        """Run the tool to its end. The outcome is what it returns or raises."""
        try:
            observed = self.instrumentation
            with nullcontext() if observed is None else observed.around_tool_run(agent.name, tool.name, effect.call, effect.attempt):
                output, contents = tool_content(await self._start_body(agent, tool, call, effect.attempt))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self._make_output_outcome(effect, tool, "error", "The tool was cancelled from within.", {}, started_at)
        except (Exception, ChildPaused, ChildMissing, CallerStopped, OutcomeUnknown) as error:
            return await self._make_error_outcome(effect, tool, error, started_at)
        finally:
            if tool.open_child_session is not None:
                self._make_parent_call_for(effect.call, "", is_resumed=True).release_budget()
        return self._make_output_outcome(effect, tool, "ok", output, contents, started_at)

    def _make_output_outcome(
        self, effect: RunTool, tool: Tool, status: Literal["ok", "error"], output: Content, contents: dict[str, bytes], started_at: float
    ) -> EffectOutcome:
        """Return the outcome with the output of an attempt. Of a long text a model gets the beginning, and the store has all of it."""
        max_bytes = self._definition.graph.limits.output_bytes
        if max_bytes is not None and (size := _measure_output_bytes(output, contents)) > max_bytes:
            status, output, contents = "error", texts_for_model.output_too_large(tool.name, size, int(max_bytes)), {}
        full_output_digest = ""
        if isinstance(output, str) and len(output) > MAX_OUTPUT_CHARS:
            data = output.encode()
            full_output_digest = digest_bytes(data)
            contents[full_output_digest] = data
            output = f"{output[:MAX_OUTPUT_CHARS]}\n[cut here: {len(output)} characters in all]"
        return EffectOutcome((_make_returned_fact(effect, status, output, started_at, full_output_digest),), contents)

    async def _make_error_outcome(self, effect: RunTool, tool: Tool, error: BaseException, started_at: float) -> EffectOutcome:
        """Return the outcome of an attempt that raised this error."""
        lost = CallLost(at=now_ms(), call=effect.call, attempt=effect.attempt, missing=isinstance(error, ChildMissing))
        match error:
            case ChildPaused():
                return EffectOutcome((_make_paused_fact(effect, error, started_at),))
            case ChildMissing():
                return EffectOutcome((lost,))
            case CallerStopped():
                return await self._stop_with_parent(effect, error, started_at)
            case OutcomeUnknown() if not tool.idempotent or effect.attempt < MAX_IDEMPOTENT_ATTEMPTS:
                return EffectOutcome((lost,))
            case OutcomeUnknown():
                text = f"Nobody knows whether {tool.name!r} took effect: {error}"
            case _ if tool.idempotent and is_error_of_store(self._ledger.store, error):
                raise error  # a failure of the store is no outcome: the drive ends, and the next one starts the tool again
            case _:
                text = f"{type(error).__name__}: {error}"
        return self._make_output_outcome(effect, tool, "error", tool_output(text), {}, started_at)

    async def _stop_with_parent(self, effect: RunTool, stop: CallerStopped, started_at: float) -> EffectOutcome:
        """Return the outcome that stops this session, because its child session was told first that a session above was cancelled.

        If the user has sent a message since, the call is answered instead. As with every stop, other child sessions are stopped first.
        """
        stopped: set[CallRef] = set()
        if _is_unchanged_since(self._ledger.state, stop.parent_lengths[0]):
            stopped = await self._child_sessions.stop_all(stop.reason, stop.parent_lengths)

        def decide(state: State) -> Iterator[AnyFact]:
            call = state.find_call(effect.call)
            if call is None or call.output is not None:
                return
            if not _is_unchanged_since(state, stop.parent_lengths[0]):
                text = texts_for_model.call_cancelled(call.call.tool, started=True, idempotent=True)
                yield from EffectOutcome((_make_returned_fact(effect, "error", text, started_at),)).propose(state)
            elif all(each.ref in stopped for each in state.batch if each.pause):  # else another call waits by now, and this is tried again
                yield Cancelled(at=now_ms(), reason=stop.reason, parent_lengths=stop.parent_lengths[1:])
                yield from answer_stopped_calls(state, self._definition.graph, now_ms())

        return EffectOutcome(decide=decide)

    def _start_body(self, agent: AgentDefinition, tool: Tool, call: CallState, attempt: int) -> Awaitable[object]:
        values = self._claims.pop_arguments(call, tool)
        context = make_tool_context(self._ledger, self._context, agent.name, call, attempt, values)
        current_parent_call.set(
            self._make_parent_call(call, attempt, context.idempotency_key) if tool.open_child_session is not None else None
        )
        if not agent.middleware:
            return tool.run(context, values)

        async def run() -> object:
            return await tool.run(context, values)

        proceed = run
        for middleware in reversed(agent.middleware):
            proceed = partial(middleware.around_tool, context.call, proceed)
        return proceed()

    def _make_parent_call(self, call: CallState, attempt: int, key: str) -> ParentCall:
        is_resumed = attempt > 1 and not call.attempts[attempt - 2].child_missing
        return self._make_parent_call_for(call.ref, make_child_session_id(self._ledger.session_id, key), is_resumed)

    def _make_parent_call_for(self, call: CallRef, child_session_id: str, is_resumed: bool) -> ParentCall:
        limits = self._definition.graph.limits
        return ParentCall(self._ledger, limits, call, child_session_id, is_resumed, self._reservations, self._parent_call, self._slot)

    def has_budget_for(self, call: CallRef, needed: Usage) -> bool:
        """Return True if the limits have room for a model request of a call's child session, beside the requests in flight."""
        return self._make_parent_call_for(call, "", is_resumed=True).has_budget_for(needed)

    def abandon_task(self, task: asyncio.Task[EffectOutcome], call: CallRef) -> None:
        """Wait for a tool in the background. If it ends after all, its late outcome is recorded, and its child session is cancelled."""

        async def finish() -> None:
            await asyncio.wait({task})
            if not task.cancelled() and task.exception() is None:
                record_later(self._ledger, [task.result()])
            await self._child_sessions.cancel_orphan(call)

        run_in_background(finish)


def _make_returned_fact(
    effect: RunTool, status: Literal["ok", "error", "timeout"], output: Content, started_at: float, full_output_digest: str = ""
) -> CallReturned:
    """Return the fact with the output of an attempt that began at this time."""
    return CallReturned(
        at=now_ms(),
        call=effect.call,
        attempt=effect.attempt,
        status=status,
        output=output,
        full_output_digest=full_output_digest,
        duration_ms=elapsed_ms(started_at),
    )


def _make_paused_fact(effect: RunTool, pause: ChildPaused, started_at: float) -> CallPaused:
    """Return the fact that ends an attempt whose child session cannot continue."""
    return CallPaused(
        at=now_ms(),
        call=effect.call,
        attempt=effect.attempt,
        session=pause.session,
        length=pause.length,
        duration_ms=elapsed_ms(started_at),
        error=pause.error,
        needed=pause.needed,
        retry_at=pause.retry_at,
    )


def _measure_output_bytes(output: Content, contents: Mapping[str, bytes]) -> int:
    """Return the size of a tool's output: of its text, and of its pictures and files."""
    texts = [output] if isinstance(output, str) else [part.text for part in output if isinstance(part, Text)]
    return sum(map(measure_utf8_bytes, texts)) + sum(map(len, contents.values()))


def _is_unchanged_since(state: State, length: int) -> bool:
    """Return True if the user has sent no message, and nothing was stopped, since the ledger had this length."""
    return max(state.last_unseen_position, state.stop.position, *(group.position for group in state.unchecked_messages)) < length
