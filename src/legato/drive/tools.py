"""Running tools. May know: tools and user code around them. Decides: what becomes of a call, as facts to propose.

A tool is run only after its `Started` is durable. What it returns, raises, or fails to do in time is an output for the model; a
sibling is never harmed by it. What ends after its call was answered is late: recorded for people, never sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from legato.core import wording
from legato.core.call_limits import byte_length
from legato.core.child_ids import child_session_id
from legato.core.digest import digest_arguments, digest_bytes
from legato.core.facts import (
    Answered,
    AnyFact,
    CallRef,
    Cancelled,
    Content,
    Gated,
    HandedOff,
    Judged,
    Lost,
    Paused,
    Returned,
    Started,
    Text,
    Usage,
)
from legato.core.graph import Edge
from legato.core.groups import CallState
from legato.core.handoff import handoff_arguments
from legato.core.owed import Admit, GiveUp, RunTool, answers_of
from legato.core.state import State
from legato.drive.caller import Caller, Reservations, current_caller
from legato.drive.clients import ClientDefinitions
from legato.drive.clock import now_ms, seconds
from legato.drive.definition import AgentDefinition, Definition, called
from legato.drive.ledger import Ledger, failed_itself
from legato.drive.others import Others, idempotency_key
from legato.drive.outcome import Outcome, in_background, no_outcome, record_later
from legato.drive.slots import Slot
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
from legato.tools.client import arguments_of

if TYPE_CHECKING:
    from legato.drive.watching import Watch

OUTPUT_LETTERS = 64_000
"""What of an output a model is given. The whole of a longer one is kept in the store's contents, for people and tools."""

IDEMPOTENT_ATTEMPTS = 3
"""How often an idempotent tool that cannot know its outcome is started, before the model is told that nobody does."""


class ToolRunner:
    """Performs `RunTool` and `Admit`, and decides what needs no performing."""

    def __init__(
        self,
        definition: Definition,
        ledger: Ledger,
        context: Any,
        others: Others,
        caller: Caller | None = None,
        slot: Slot | None = None,
        clients: ClientDefinitions | None = None,
    ) -> None:
        self._definition = definition
        self._clients = clients or ClientDefinitions(ledger)
        self._ledger = ledger
        self._context = context
        self._others = others
        self._caller = caller  # the call that this session works for, if it is a child session
        self._slot = slot  # which child sessions work in too
        self._reserved: Reservations = {}  # model requests of child sessions that are under way
        self.watch: Watch | None = None
        self._validated: dict[CallRef, tuple[str, dict[str, object]]] = {}  # arguments that are about to run, and their values

    # -- decisions that need no waiting: facts at once ------------------------------------------------------------------

    def start(self, state: State, effect: RunTool, epoch: int) -> AnyFact | None:
        """The claim on an attempt; or, if the arguments are wrong, the answer that says so. None if it runs."""
        call, agent = self._find(state, effect.call)
        if call.running:
            return None
        try:
            self._validated[effect.call] = (call.arguments, agent.tools[call.call.tool].validate(call.arguments))
        except BadArguments as error:
            return _refused(call, error)
        digest = digest_arguments(call.arguments) if call.gate else ""
        return Started(at=now_ms(), call=effect.call, attempt=effect.attempt, epoch=epoch, digest=digest)

    def gate(self, state: State, effect: Admit) -> AnyFact | None:
        """The gate of a call that always needs approval; None if user code has to be asked."""
        call, agent = self._find(state, effect.call)
        if edge := self._edge(agent, call):
            wrong = self._wrong_handoff(edge, call)
            return wrong or Gated(at=now_ms(), call=call.ref, needed=True, digest=digest_arguments(call.arguments))
        if self._is_client_call(state, agent, call):
            return None  # its schema has to be read first
        if wrong := self._wrong(agent, call):
            return wrong
        if agent.guards("tool") or agent.tools[call.call.tool].needs_approval is not True:
            return None
        return Gated(at=now_ms(), call=call.ref, needed=True, digest=digest_arguments(call.arguments))

    def hand_over(self, state: State, ref: CallRef) -> AnyFact:
        """The handoff; or, if its input is wrong, the answer that says so."""
        call, agent = self._find(state, ref)
        edge = self._edge(agent, call)
        assert edge is not None
        if wrong := self._wrong_handoff(edge, call):
            return wrong
        return HandedOff(at=now_ms(), call=ref, source=edge.source, target=edge.target)

    def _wrong(self, agent: AgentDefinition, call: CallState) -> Returned | None:
        try:
            agent.tools[call.call.tool].validate(call.arguments)
        except BadArguments as error:
            return _refused(call, error)
        return None

    def _wrong_handoff(self, edge: Edge, call: CallState) -> Returned | None:
        parse = self._definition.edges[edge.source, edge.target].parse_input
        try:
            _, input = handoff_arguments(call.arguments)
            if parse is not None:
                parse(input)
        except Exception as error:  # a validator of the user's may raise anything
            words = tool_output(f"Not handed over: the arguments of {call.call.tool!r} are wrong. {error}")
            return Returned(at=now_ms(), call=call.ref, status="error", output=words)
        return None

    # -- performing -----------------------------------------------------------------------------------------------------

    async def admit(self, effect: Admit) -> Outcome:
        """Ask guardrails and the approval function about a call. Their verdicts are facts and are not asked for again."""
        state = self._ledger.state
        call, agent = self._find(state, effect.call)
        own = None if self._is_client_call(state, agent, call) else agent.tools[call.call.tool]
        try:
            values = own.validate(call.arguments) if own is not None else await self._client_arguments(state, call)
        except BadArguments as error:
            return Outcome(partial(_unless_moved, call.ref, [_refused(call, error)]))
        told = ToolCall(str(call.ref), call.call.tool, values)
        facts: list[AnyFact] = []
        for guardrail in agent.guards("tool") if not call.guarded else ():
            if words := await guardrail.judge(self._context, told):
                facts.append(self._judged(call.ref, words, guardrail.name))
                return Outcome(partial(_unless_moved, call.ref, facts))
        if agent.guards("tool") and not call.guarded:
            facts.append(self._judged(call.ref, "", ""))
        needed = own.needs_approval if own is not None else False
        if not isinstance(needed, bool):
            needed = bool(await called(needed, self._tool_context(agent.name, call, 1, values), values, told))
        facts.append(Gated(at=now_ms(), call=call.ref, needed=needed, digest=digest_arguments(call.arguments)))
        return Outcome(partial(_unless_moved, call.ref, facts))

    def _is_client_call(self, state: State, agent: AgentDefinition, call: CallState) -> bool:
        """Tell whether the client of the run has this tool, and runs it."""
        rules = self._definition.graph.agents[agent.name]
        return rules.is_client_tool(call.call.tool, state.options_of(call.ref.position))

    async def _client_arguments(self, state: State, call: CallState) -> dict[str, object]:
        """The arguments of a client's tool as its schema has them; `BadArguments` if they do not fit it."""
        definitions = await self._clients.definitions(state.options_of(call.ref.position))
        spec = definitions.tool(call.call.tool)
        assert spec is not None, "the options of a run name the tools that their definitions have"
        return arguments_of(spec).validate(spec.name, call.arguments)

    async def give_up(self, effect: GiveUp) -> Outcome:
        """Stop the conversation that a call waits for, and then answer the call: so nothing can be approved there any more."""
        await self._others.stop(effect.call)
        return Outcome(partial(_superseded, effect.call))

    def _judged(self, ref: CallRef, words: str, by: str) -> Judged:
        return Judged(at=now_ms(), kind="tool", position=ref.position, index=ref.index, stop=bool(words), words=words, by=by)

    def run(self, effect: RunTool) -> Coroutine[Any, Any, Outcome]:
        """Run one attempt to its end, its time limit, or its cancellation."""
        call, agent = self._find(self._ledger.state, effect.call)
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
        words = wording.timed_out(tool.name, tool.timeout, tool.idempotent)
        return Outcome(partial(_in_time, effect, "timeout", words, "", _took(begun)))

    async def _attempted(self, effect: RunTool, agent: AgentDefinition, tool: Tool, call: CallState, begun: float) -> Outcome:
        """Run the body to its end: what it returns or raises is the outcome."""
        output: Content
        try:
            watch = self.watch
            with nullcontext() if watch is None else watch.running(agent.name, tool.name, effect.call, effect.attempt):
                status, (output, contents) = "ok", tool_content(await self._body(agent, tool, call, effect.attempt))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            status, output, contents = "error", "The tool was cancelled from within.", {}
        except ChildPaused as paused:
            return Outcome(partial(_paused, effect, paused, _took(begun)))
        except ChildMissing:
            return Outcome(partial(_lost, effect, True))
        except CallerStopped as stop:
            return await self._with_caller(effect, stop, _took(begun))
        except OutcomeUnknown as unknown:
            if not tool.idempotent or effect.attempt < IDEMPOTENT_ATTEMPTS:
                return Outcome(partial(_lost, effect, False))
            status, output, contents = "error", tool_output(f"Nobody knows whether {tool.name!r} took effect: {unknown}"), {}
        except Exception as error:
            if tool.idempotent and failed_itself(self._ledger.store, error):
                raise  # that the store fails is no outcome: the drive ends, and the next one starts this again
            status, output, contents = "error", tool_output(f"{type(error).__name__}: {error}"), {}
        finally:
            if tool.works_in is not None:
                self._caller_for(effect.call, "", resumes=True).end()
        most = self._definition.graph.limits.output_bytes
        if most is not None and (size := _output_bytes(output, contents)) > most:
            status, output, contents = "error", wording.output_too_large(tool.name, size, int(most)), {}
        full = ""
        if isinstance(output, str) and len(output) > OUTPUT_LETTERS:
            data = output.encode()
            full = digest_bytes(data)
            contents[full] = data
            output = f"{output[:OUTPUT_LETTERS]}\n[cut here: {len(output)} characters in all]"
        return Outcome(partial(_in_time, effect, status, output, full, _took(begun)), contents)

    async def _with_caller(self, effect: RunTool, stop: CallerStopped, took: int) -> Outcome:
        """The stop of this conversation, of which the one that is held for a call knew first; unless its user has spoken since.

        As with every stop, the conversations that other calls wait for are stopped before it.
        """
        stopped: set[CallRef] = set()
        if _quiet_since(self._ledger.state, stop.holders[0]):
            stopped = await self._others.stop_all(stop.words, stop.holders)

        def propose(state: State) -> Iterator[AnyFact]:
            call = state.call(effect.call)
            if call is None or call.output is not None:
                return
            if not _quiet_since(state, stop.holders[0]):
                words = wording.cancelled(call.call.tool, started=True, idempotent=True)
                yield from _in_time(effect, "error", words, "", took, state)
            elif all(each.ref in stopped for each in state.batch if each.paused):  # else it is not over, and is looked at again
                yield Cancelled(at=now_ms(), words=stop.words, holders=stop.holders[1:])
                yield from answers_of(state, self._definition.graph, now_ms())

        return Outcome(propose)

    def _body(self, agent: AgentDefinition, tool: Tool, call: CallState, attempt: int) -> Awaitable[object]:
        arguments, values = self._validated.pop(call.ref, ("", {}))
        if arguments != call.arguments or not arguments:
            values = tool.validate(call.arguments)
        context = self._tool_context(agent.name, call, attempt, values)
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

    def _tool_context(self, agent: str, call: CallState, attempt: int, values: dict[str, object]) -> ToolContext[Any]:
        return ToolContext(
            context=self._context,
            session_id=self._ledger.session,
            agent=agent,
            call=ToolCall(str(call.ref), call.call.tool, values),
            idempotency_key=idempotency_key(self._ledger.state, call.ref),
            attempt=attempt,
        )

    def _find(self, state: State, ref: CallRef) -> tuple[CallState, AgentDefinition]:
        call, reply = state.call(ref), state.facts[ref.position]
        assert call is not None and isinstance(reply, Answered)
        return call, self._definition.agents[reply.agent]

    def _edge(self, agent: AgentDefinition, call: CallState) -> Edge | None:
        return self._definition.graph.agents[agent.name].edges.get(call.call.tool)


def _output_bytes(output: Content, contents: Mapping[str, bytes]) -> int:
    """The size of what a tool returned: its words, and its pictures and files."""
    words = [output] if isinstance(output, str) else [part.text for part in output if isinstance(part, Text)]
    return sum(map(byte_length, words)) + sum(map(len, contents.values()))


def _refused(call: CallState, error: BadArguments) -> Returned:
    return Returned(at=now_ms(), call=call.ref, status="error", output=str(error))


def _in_time(effect: RunTool, status: Any, output: Content, full: str, took: int, state: State) -> Iterator[AnyFact]:
    """An attempt's outcome: the call's output, or, if the call was answered meanwhile, a late one."""
    call = state.call(effect.call)
    if call is None or len(call.attempts) < effect.attempt:
        return
    attempt = call.attempts[effect.attempt - 1]
    late = call.output is not None or effect.attempt != len(call.attempts) or call.redo
    if attempt.known or (late and status not in ("ok", "error")):
        return
    yield Returned(
        at=now_ms(), call=effect.call, attempt=effect.attempt, status=status, output=output, full=full, late=late, took=took
    )


def _paused(effect: RunTool, paused: ChildPaused, took: int, state: State) -> Iterator[AnyFact]:
    """The end of an attempt without an outcome; nothing, if the call was answered or the attempt taken for lost meanwhile."""
    call = state.call(effect.call)
    if call is not None and call.running is not None and call.running.number == effect.attempt:
        yield Paused(
            at=now_ms(),
            call=effect.call,
            attempt=effect.attempt,
            session=paused.session,
            length=paused.length,
            took=took,
            error=paused.error,
            needed=paused.needed,
            retry_at=paused.retry_at,
        )


def _lost(effect: RunTool, missing: bool, state: State) -> Iterator[AnyFact]:
    """The end of an attempt of which not even the tool knows how it ended."""
    call = state.call(effect.call)
    if call is not None and call.running is not None and call.running.number == effect.attempt:
        yield Lost(at=now_ms(), call=effect.call, attempt=effect.attempt, missing=missing)


def _superseded(ref: CallRef, state: State) -> Iterator[AnyFact]:
    call = state.call(ref)
    if call is not None and call.paused and call.stopped == "erased":
        words = wording.arguments_erased(call.call.tool, started=True, idempotent=True)
        yield Returned(at=now_ms(), call=ref, status="cancelled", output=words)
    elif call is not None and call.paused and call.stopped == "limit":
        yield Returned(at=now_ms(), call=ref, status="stopped", output=wording.stopped(call.call.tool, started=True))
    elif call is not None and call.paused:
        yield Returned(at=now_ms(), call=ref, status="superseded", output=wording.given_up(call.call.tool))


def _quiet_since(state: State, length: int) -> bool:
    """Whether the user has said nothing, and nobody stopped anything, since there were so many facts."""
    return max(state.spoken_at, state.halted_at, *(group.position for group in state.waiting)) < length


def _unless_moved(ref: CallRef, facts: list[AnyFact], state: State) -> Iterator[AnyFact]:
    call = state.call(ref)
    if call is not None and call.output is None and call.gate is None and not call.stopped and not state.halt:
        yield from facts


def _took(begun: float) -> int:
    return round((seconds() - begun) * 1000)
