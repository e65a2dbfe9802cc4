"""The driver of a session, which performs the effects of the plan and records their outcomes.

The plan (core/planner.py) decides which effects are performed; the driver decides when. One pass of its loop

1. records outcomes, and the facts that follow from them without people or user code, in one append;
2. makes the plan, starts planned effects that are not in progress, and stops effects in progress that are no longer planned;
3. waits for a change: an effect ends, or another writer appends.

There is no other loop: streaming observes this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from legato.core.facts import NO_USAGE, AnyFact, Usage
from legato.core.planner import (
    NO_CHILDREN,
    AbandonCall,
    AnswerCall,
    ApplyStandingApproval,
    CheckCall,
    CheckInput,
    CheckOutput,
    CheckTermination,
    ChildSessionStatus,
    DeclareAttemptLost,
    Effect,
    ExternalEffect,
    ImmediateEffect,
    Plan,
    PromptAgent,
    RequestModel,
    RunTool,
    SummariseHistory,
    TakeHandoff,
    derive_status,
    derive_status_and_requests,
    estimate_next_request,
    find_active_agent,
    make_fact,
    make_plan,
)
from legato.core.state import State
from legato.core.workflow_graph import WorkflowGraph
from legato.errors import DefinitionChanged, DrivenElsewhere
from legato.runtime.checks import CheckRunner
from legato.runtime.clock import now_ms
from legato.runtime.definition import WorkflowDefinition
from legato.runtime.deltas import DeltaPublisher
from legato.runtime.event_cursor import EventCursor
from legato.runtime.event_projector import EventProjector
from legato.runtime.events import Event
from legato.runtime.ledger import EffectOutcome, Ledger, attribute_errors, is_error_of_store, record_each, record_later
from legato.runtime.model_requests import ModelRequester, seconds_until_retry
from legato.runtime.parent_call import ParentCall
from legato.runtime.tool_calls import Claims, ToolRunner
from legato.runtime.turn_contexts import RunDefinitionsCache, TurnContexts
from legato.runtime.worker_slot import WorkerSlot

if TYPE_CHECKING:
    from legato.runtime.child_sessions import ChildSessions
    from legato.runtime.instrumentation import DriveInstrumentation

LEASE_POLL_INTERVAL_S = 0.05
"""The interval in which a driver that waits for the lease requests it again."""

FOLLOW_POLL_INTERVAL_S = 1.0
"""The interval in which a driver that only follows reads again, also if nothing was appended: child sessions have other ledgers."""

IDLE_STATUSES = ("pending", "waiting", "terminated", "cancelled", "failed")
"""The statuses of a session that continues only with new input, or when it is resumed."""

DriverRole: TypeAlias = Literal["either", "lead", "follow"]
"""The behaviour of a driver: it takes the lease, or follows while another has it ("either"); it takes the lease or raises `DrivenElsewhere`
("lead"); or it never takes the lease ("follow")."""


class Driver:
    """A driver of one session, which works until nothing more can be done without people."""

    def __init__(
        self,
        definition: WorkflowDefinition,
        ledger: Ledger,
        context: Any,
        child_sessions: ChildSessions,
        on_event: Callable[[Event], None] | None,
        stream: bool,
        length_before: int,
        role: DriverRole = "either",
        parent_call: ParentCall | None = None,
        slot: WorkerSlot | None = None,
    ) -> None:
        """Make a driver for one run. `parent_call` is the call that a child session works for.

        `length_before` is the number of facts before the run. A final failure before that is retried, a later one ends the run. So the
        ledger alone says what was given up, whichever process recorded it.

        With a `slot`, the driver ends where it would only wait for a retry or for a slot of its model, and the worker drives the session
        again later. Without a slot it waits.
        """
        self._definition = definition
        self._ledger = ledger
        self._child_sessions = child_sessions
        self._child_status = NO_CHILDREN  # of the child sessions that calls wait for
        self._attempts_without_child: frozenset[RunTool] = frozenset()  # open attempts without a child session, when this driver began
        self._parent_call = parent_call
        self._slot = slot
        self._retry_timer: asyncio.TimerHandle | None = None  # wakes the driver at the time of the next retry
        self._reported_usage: tuple[int, dict[str, Usage]] = (0, {})  # the usage that was last reported to the parent
        self._length_before = length_before
        self._projector = EventProjector(on_event, definition.graph, EventCursor(facts=length_before)) if on_event else None
        self._stream = stream
        self._delta_publisher = DeltaPublisher(ledger)
        self._role = role
        self._epoch = 0
        self._newest_plan: tuple[State, int, Plan] | None = None  # the state and length that the plan is of, and the plan
        self._tasks: dict[ExternalEffect, asyncio.Task[EffectOutcome]] = {}
        self._cancelled_tasks: set[asyncio.Task[EffectOutcome]] = set()  # tasks that this driver has cancelled
        self._announced_length = 0  # the length that the store has announced, if it is news
        self._is_draining = False
        self._is_recording = False
        self._wake = asyncio.Event()  # set when an effect has ended, or another writer has appended
        self._error: BaseException | None = None  # of user code; raised when the other effects have been recorded
        self._instrumentation: DriveInstrumentation | None = None
        self._observed_facts = length_before  # the number of facts that the instrumentation has seen
        self._is_leading = False
        run_definitions = RunDefinitionsCache(ledger)
        turn_contexts = TurnContexts(definition, ledger, context, run_definitions)
        self._model_requester = ModelRequester(definition, ledger, turn_contexts, parent_call)
        self._claims = Claims(definition)
        self._tool_runner = ToolRunner(definition, ledger, context, child_sessions, self._claims, parent_call, slot)
        self._check_runner = CheckRunner(definition, ledger, context, run_definitions)

    def drain(self) -> None:
        """Start nothing new, and finish and record what is in progress."""
        self._is_draining = True
        self._wake.set()

    async def drive(self) -> None:
        """Take the lease and drive until the session is idle, or follow the driver that has it, as the role says (`DriverRole`)."""
        try:
            await self._drive_with_instrumentation()
        finally:
            self._ledger.put_in_cache()

    async def _drive_with_instrumentation(self) -> None:
        if self._definition.instrumentation is None:
            await self._drive()
            return
        instrumentation = self._definition.instrumentation.start_drive(self._definition, self._ledger.session_id)
        self._instrumentation = self._model_requester.instrumentation = self._tool_runner.instrumentation = instrumentation
        failure: BaseException | None = None
        try:
            await self._drive()
        except BaseException as error:
            failure = error
            raise
        finally:
            status, requests = derive_status_and_requests(self._ledger.state, self._definition.graph, self._child_status)
            instrumentation.on_end(status, self._child_sessions.merge_requests(requests) if status == "pending" else (), failure)

    async def _drive(self) -> None:
        store, session_id = self._ledger.store, self._ledger.session_id
        while not self._is_draining:
            lease = await attribute_errors(store, store.lease(session_id)) if self._role != "follow" else None
            idle_length: int | None = None
            try:
                await self._ledger.refresh()
                self._show_new_facts()
                if lease is not None:
                    self._epoch, self._newest_plan, self._is_leading = lease.epoch, None, True
                    await self._lead()
                    if not self._has_lost_lease(self._ledger.state):
                        idle_length = self._find_idle_length()
                        if idle_length is not None and self._ledger.state.has_paused_calls:
                            await self._child_sessions.mark_idle()
                        break
            finally:
                self._is_leading = False
                if lease is not None:
                    await attribute_errors(store, store.release(lease, idle_at=idle_length))
            status = derive_status(self._ledger.state, self._definition.graph)
            if status in IDLE_STATUSES and not await self._check_child_sessions():
                break
            if status == "new" and self._role == "follow":
                break  # there is no message yet, and so nothing to follow
            if self._role == "lead" and lease is None:
                raise DrivenElsewhere(f"another driver drives session {session_id!r}", do="nothing was changed; try again later")
            interval = FOLLOW_POLL_INTERVAL_S if self._role == "follow" else LEASE_POLL_INTERVAL_S
            await attribute_errors(store, store.wait(session_id, self._ledger.confirmed_length, interval))
        await self._report_usage()  # also usage that another driver recorded, if it was stopped before it reported that
        self._show_idle()

    def _find_idle_length(self) -> int | None:
        """Return the ledger's length if nothing more can be done without people; None if the driver only drains."""
        state = self._ledger.state
        # A driver that may only lead belongs to an engine, which decides itself whether a failed model is requested again.
        has_given_up = self._has_given_up(state) and self._role != "lead"
        effects = [effect for effect in self._get_plan(state).effects if not (has_given_up and isinstance(effect, RequestModel))]
        return None if effects else state.length

    def _has_given_up(self, state: State) -> bool:
        """Return True if the planned model request has failed finally since the run began."""
        return state.failed_request is not None and state.failed_request.final and self._is_from_this_run(state.failed_request)

    def _is_from_this_run(self, fact: AnyFact) -> bool:
        """Return True if a fact was recorded since the run began."""
        facts = self._ledger.state.facts
        return any(facts[position] is fact for position in range(len(facts) - 1, self._length_before - 1, -1))

    def _has_lost_lease(self, state: State) -> bool:
        """Return True if the lease was lost: the holder of a newer lease has started a call. Effects in progress here are finished."""
        return state.epoch > self._epoch

    def _is_winding_down(self, state: State) -> bool:
        """Return True if nothing more may be started, and effects in progress are only finished and recorded."""
        is_refused = self._slot is not None and self._slot.refused_model != ""
        return self._is_draining or self._error is not None or is_refused or self._has_lost_lease(state)

    async def _check_child_sessions(self) -> bool:
        """Read the child sessions that calls wait for. Return True if their status gives this driver something to do."""
        has_paused_calls = self._ledger.state.has_paused_calls
        if not has_paused_calls and not self._attempts_without_child and self._child_status == NO_CHILDREN:
            return False
        status, resumable = NO_CHILDREN, frozenset[RunTool]()
        if has_paused_calls:
            status = await self._child_sessions.read_status()
            # Without budget, a child session would stop again: it may be reserved for other child sessions, here or in a session above.
            resumable = frozenset(filter(self._has_budget_for, status.resumable | self._find_retryable_attempts()))
        without_child = frozenset(filter(self._is_open_attempt, self._attempts_without_child))
        status = ChildSessionStatus(resumable, status.missing, status.cancelled, without_child)
        if status != self._child_status:
            self._child_status, self._newest_plan = status, None
        effects = self._get_plan(self._ledger.state).effects if status != NO_CHILDREN else []
        return any(each in resumable or isinstance(each, DeclareAttemptLost) for each in effects)

    def _find_retryable_attempts(self) -> frozenset[RunTool]:
        """Return the next attempts of calls whose child session had failed before the run began."""
        failed = [call for call in self._ledger.state.started_calls if call.pause and call.pause.error and not call.stop_reason]
        retryable = [call for call in failed if call.pause and not self._is_from_this_run(call.pause)]
        return frozenset(RunTool(call.ref, call.next_attempt) for call in retryable)

    def _is_open_attempt(self, attempt: RunTool) -> bool:
        """Return True if this is the open attempt of its call."""
        call = self._ledger.state.find_call(attempt.call)
        return call is not None and call.open_attempt is not None and call.open_attempt.number == attempt.attempt

    def _has_budget_for(self, next_attempt: RunTool) -> bool:
        """Return True if the budgets have room for the next model request of a call's child session."""
        call = self._ledger.state.find_call(next_attempt.call)
        if call is None or call.pause is None or call.pause.needed == NO_USAGE:
            return True
        return self._tool_runner.has_budget_for(call.ref, call.pause.needed)

    async def _lead(self) -> None:
        check_agent_exists(self._ledger.state, self._definition.graph)
        await self._child_sessions.cancel_orphans()  # the process that cancelled this session may have died before that
        self._attempts_without_child = await self._child_sessions.find_attempts_without_child()
        await self._report_usage()
        await self._check_child_sessions()
        self._wake.clear()
        self._announced_length = 0
        stop_watching = self._ledger.store.watch(self._ledger.session_id, self._ledger.confirmed_length, self._on_store_growth)
        self._ledger.listeners.append(self._on_ledger_change)
        outcomes: list[EffectOutcome] = []
        try:
            while True:
                await self._record_outcomes(outcomes)
                outcomes = []
                # No other task ran since the append, so the plan is of what is recorded.
                is_busy = self._reconcile()
                if await self._check_child_sessions() and not self._is_winding_down(self._ledger.state):
                    continue
                if not is_busy and not self._wake.is_set():  # it may have been set while child sessions were read
                    break
                await self._wait_for_change()
                outcomes = self._collect_outcomes()
            if self._error is not None:
                raise self._error
        finally:
            stop_watching()
            self._ledger.listeners.remove(self._on_ledger_change)
            await self._stop_all([*outcomes, *self._collect_outcomes()])

    async def _wait_for_change(self) -> None:
        """Wait until something happens in this session or in a child session."""
        unsubscribe = self._child_sessions.subscribe(self._on_child_growth) if self._ledger.state.has_paused_calls else None
        try:
            await self._wake.wait()
        finally:
            if unsubscribe is not None:
                unsubscribe()
        if self._announced_length > self._ledger.confirmed_length:
            await self._ledger.refresh()
        self._announced_length = 0
        self._wake.clear()

    async def _stop_all(self, outcomes: list[EffectOutcome]) -> None:
        """Stop all effects in progress. Outcomes that this drive did not record are recorded in the background."""
        self._set_retry_timer(None)
        if outcomes:
            record_later(self._ledger, outcomes)
        for effect, task in list(self._tasks.items()):
            self._stop(effect, task)
        if self._tasks:
            await asyncio.wait(self._tasks.values())  # not `gather`, whose errors keep the driver and its ledger alive
            for task in self._tasks.values():
                _ = task.cancelled() or task.exception()  # marks the error as retrieved
            self._tasks.clear()
        self._delta_publisher.end_reply()

    def _on_store_growth(self, length: int) -> None:
        """Note that the store has more facts. While this driver appends, they may be its own, which it is about to know."""
        if length > self._ledger.confirmed_length:
            self._announced_length = length
            if not self._is_recording:
                self._wake.set()

    def _on_ledger_change(self) -> None:
        """Wake the driver: another task has appended to the ledger object, or refreshed it."""
        if not self._is_recording:
            self._wake.set()

    def _on_child_growth(self, length: int) -> None:
        """Wake the driver: a child session has grown."""
        self._wake.set()

    async def _record_outcomes(self, outcomes: list[EffectOutcome]) -> None:
        contents = {digest: data for outcome in outcomes for digest, data in outcome.contents.items()}

        def propose(state: State) -> Iterator[AnyFact]:
            for outcome in outcomes:
                yield from outcome.propose(state)
            if not self._is_winding_down(state):
                yield from self._propose_follow_ups(state)

        self._is_recording = True
        try:
            await self._ledger.append(propose, contents)
        except Exception as error:
            if is_error_of_store(self._ledger.store, error):
                raise
            # User code failed, or returned what cannot be recorded. Other outcomes are recorded, and effects in progress are finished.
            self._error = self._error or error
            await record_each(self._ledger, outcomes)
        finally:
            self._is_recording = False
        if self._announced_length > self._ledger.confirmed_length:
            self._wake.set()  # another writer has appended right after this append
        await self._report_usage()
        self._show_new_facts()

    async def _report_usage(self) -> None:
        """Report the usage of a child session to its parent, if it has changed."""
        if self._parent_call is None:
            return
        totals = self._ledger.state.usage_totals
        if self._reported_usage != (totals.turns, totals.by_agent):
            self._reported_usage = totals.turns, dict(totals.by_agent)
            await self._parent_call.report_usage(totals)

    def _propose_follow_ups(self, state: State) -> Iterator[AnyFact]:
        """Yield the facts that follow from the state without people or user code: answers, claims on tools, handoffs."""
        while facts := self._make_immediate_facts(state, self._get_plan(state)):
            yield from facts

    def _get_plan(self, state: State) -> Plan:
        """Return the plan for a state. A state changes only by facts, so the newest plan stays valid until there is one more."""
        newest = self._newest_plan
        if newest is None or newest[0] is not state or newest[1] != state.length:
            plan = make_plan(state, self._definition.graph, self._epoch, self._child_status, "effects")
            self._newest_plan = newest = (state, state.length, plan)
        return newest[2]

    def _make_immediate_facts(self, state: State, plan: Plan) -> list[AnyFact]:
        due = [effect for effect in plan.effects if not (plan.not_before and seconds_until_retry(plan.not_before.get(effect, 0)))]
        return [fact for effect in due if (fact := self._make_immediate_fact(state, effect)) is not None]

    def _make_immediate_fact(self, state: State, effect: Effect) -> AnyFact | None:
        """Return the fact that is recorded before an effect is performed, or in place of performing it; None if there is none."""
        match effect:
            case RunTool():
                return self._claims.claim_start(state, effect, self._epoch)
            case TakeHandoff():
                return self._claims.claim_handoff(state, effect.call)
            case CheckCall():
                return self._claims.check_approval(state, effect)
            case AnswerCall() | ApplyStandingApproval() | DeclareAttemptLost() | PromptAgent():
                return make_fact(effect, now_ms())
            case RequestModel() | CheckInput() | CheckOutput() | CheckTermination() | SummariseHistory() | AbandonCall():
                return None

    def _is_wanted(self, state: State, effect: ExternalEffect) -> bool:
        return effect in self._get_plan(state).effects

    def _reconcile(self) -> bool:
        """Start planned effects, and stop effects that are not planned. Return False if none is in progress and no retry is awaited."""
        state = self._ledger.state
        plan = self._get_plan(state)
        planned: list[ExternalEffect] = [effect for effect in plan.effects if not isinstance(effect, ImmediateEffect)]
        if self._tasks:
            self._stop_unwanted(state, set(planned))
        self._set_retry_timer(None)
        if self._is_winding_down(state):
            return bool(self._tasks)
        waits = []  # the seconds until effects that may not be performed yet
        for effect in planned:
            if effect in self._tasks:
                continue
            if plan.not_before and (wait := seconds_until_retry(plan.not_before.get(effect, 0))):
                waits.append(wait)
            else:
                self._start(state, effect)
        if waits and self._slot is None:
            self._set_retry_timer(min(waits))
        return bool(self._tasks) or self._retry_timer is not None

    def _stop_unwanted(self, state: State, planned: set[ExternalEffect]) -> None:
        for effect, task in list(self._tasks.items()):
            if effect not in planned and not _can_still_answer(state, effect):
                self._stop(effect, task)

    def _start(self, state: State, effect: ExternalEffect) -> None:
        """Start to perform an effect, unless it is a model request that may not be made now."""
        on_end = None
        if type(effect) is RequestModel:
            if state.unchecked_messages or self._has_given_up(state):
                return  # the model may have to see a message that is being checked
            needed = estimate_next_request(state) if self._parent_call is not None else NO_USAGE
            if self._parent_call is not None and not self._parent_call.has_budget_for(needed):
                return  # the parent's plan requests more budget from people, and then continues this session
            if self._slot is not None:
                on_end = self._slot.admit(self._definition.agents[effect.agent].model, state.next_request_attempt)
                if on_end is None:
                    return
            if self._parent_call is not None:
                self._parent_call.reserve_budget(needed)
        task = self._tasks[effect] = asyncio.get_running_loop().create_task(self._perform_and_wake(effect))
        if on_end is not None:
            task.add_done_callback(on_end)

    def _set_retry_timer(self, wait: float | None) -> None:
        """Wake the driver after so many seconds, and not at a time that was set before. None: set no timer."""
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None
        if wait is not None:
            self._retry_timer = asyncio.get_running_loop().call_later(wait, self._wake.set)

    def _stop(self, effect: ExternalEffect, task: asyncio.Task[EffectOutcome]) -> None:
        """Stop an effect that is no longer planned. The driver does not wait for a tool to stop."""
        task.cancel()
        if isinstance(effect, RunTool):
            del self._tasks[effect]
            self._tool_runner.abandon_task(task, effect.call)
            return
        self._cancelled_tasks.add(task)
        task.add_done_callback(lambda _: self._wake.set())  # a task that never began does not wake the driver itself
        if isinstance(effect, RequestModel):
            self._delta_publisher.retract()
            if self._projector is not None:
                self._projector.retract_deltas()

    async def _perform_and_wake(self, effect: ExternalEffect) -> EffectOutcome:
        try:
            return await self._perform(effect)
        finally:
            self._wake.set()

    def _perform(self, effect: ExternalEffect) -> Coroutine[Any, Any, EffectOutcome]:
        match effect:
            case RequestModel():
                self._delta_publisher.begin_reply(self._epoch)
                return self._model_requester.perform(effect, self._on_text, self._is_wanted)
            case RunTool():
                return self._tool_runner.run(effect)
            case CheckCall():
                return self._check_runner.check_call(effect)
            case AbandonCall():
                return self._tool_runner.abandon_call(effect)
            case CheckInput():
                return self._check_runner.check_input(effect)
            case CheckOutput():
                return self._check_runner.check_output(effect)
            case CheckTermination():
                return self._check_runner.check_termination(effect)
            case SummariseHistory():
                return self._check_runner.summarise_history(effect)
            case TakeHandoff():
                raise AssertionError("a handoff is recorded, not performed")

    def _collect_outcomes(self) -> list[EffectOutcome]:
        """Return the outcomes of effects that have ended. An error of user code ends the drive when the other effects have ended."""
        ended = [(effect, task) for effect, task in self._tasks.items() if task.done()]
        outcomes = []
        for effect, task in ended:
            del self._tasks[effect]
            if task.cancelled():
                if task not in self._cancelled_tasks:
                    self._error = self._error or RuntimeError(f"{effect} was cancelled, and not by its driver")
                self._cancelled_tasks.discard(task)
                continue
            error = task.exception()
            if error is None:
                outcomes.append(task.result())
            else:
                self._error = self._error or error
        return outcomes

    # -- showing --------------------------------------------------------------------------------------------------------

    def _on_text(self, agent: str, attempt: int, text: str) -> None:
        if not text or self._definition.graph.agents[agent].checks_output:
            return  # text that has to be checked is shown when it was accepted
        self._delta_publisher.publish(agent, attempt, text)
        if self._projector is not None and self._stream:
            self._projector.show_delta(agent, attempt, text)

    def _show_new_facts(self) -> None:
        state, instrumentation = self._ledger.state, self._instrumentation
        if self._projector is not None:
            self._projector.show_facts(state, state.length)
        while instrumentation is not None and self._observed_facts < state.length:
            instrumentation.on_fact(state.facts[self._observed_facts], self._observed_facts, state, self._is_leading)
            self._observed_facts += 1

    def _show_idle(self) -> None:
        """Show the status of the idle session, and its requests."""
        if self._projector is not None:
            state = self._ledger.state
            status, requests = derive_status_and_requests(state, self._definition.graph, self._child_status)
            self._projector.show_idle(state, status, self._child_sessions.merge_requests(requests) if status == "pending" else [])


def _can_still_answer(state: State, effect: ExternalEffect) -> bool:
    """Return True if an effect is a tool run that was declared lost, and whose outcome would still answer its call."""
    if not isinstance(effect, RunTool):
        return False
    call = state.find_call(effect.call)
    return call is not None and call.output is None


def check_agent_exists(state: State, graph: WorkflowGraph) -> None:
    """Raise `DefinitionChanged` if the workflow does not have the agent that the ledger continues with."""
    agent = state.last_reply.agent if state.batch and state.last_reply else find_active_agent(state, graph)
    if agent not in graph.agents:
        raise DefinitionChanged(
            f"session {state.session_id!r} is with agent {agent!r}, which workflow {graph.name!r} does not have",
            expected=f"an agent named {agent!r}",
            found=f"agents {', '.join(graph.agents)}",
            do=f"build the workflow with an agent of that name, or fork the session before {agent!r} took over; nothing was changed",
        )
