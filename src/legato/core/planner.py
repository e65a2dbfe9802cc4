"""The planner: the next effects of a conversation, and the pending requests.

`make_plan(state, graph, epoch)` is a pure function. It returns the effects to perform now, and the requests that wait for people.
Performing an effect ends in a fact; then a new plan is made. If the new plan no longer has an effect that is being performed, the driver
cancels it. Immediate effects need no I/O and no user code: `make_fact` turns them into facts at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from legato.core import texts_for_model
from legato.core.digests import digest_arguments
from legato.core.facts import (
    NO_USAGE,
    SOURCE_STANDING_APPROVAL,
    AgentPrompted,
    AnyFact,
    CallLost,
    CallRef,
    CallReturned,
    Decided,
    ModelReplied,
    StandingApproval,
    Usage,
)
from legato.core.groups import AssistantEntry, CallPhase, CallState, Group, get_call_index
from legato.core.history_policies import find_turns_start
from legato.core.limits import Limits
from legato.core.pending_requests import Pending, RequestKind, make_call_request, make_limit_request, parse_request_call
from legato.core.state import State
from legato.core.workflow_graph import AgentRules, ToolRules, WorkflowGraph

CHARS_PER_TOKEN = 4
"""The usual rule of thumb for English; used for estimates only, never for sums."""

MAX_PARALLEL_CHECKS = 128
"""The number of calls of one tool that user code checks in parallel before they may run."""


class RequestModel(Struct, frozen=True, gc=False):
    """Request a reply from the agent's model. `turn` is the number of replies in the ledger so far."""

    agent: str
    reply_count: int
    interrupted_at: int = -1
    """The position of the last stop or redaction: a request planned before it is another effect than one planned after it."""


class RunTool(Struct, frozen=True, gc=False):
    """Start an attempt of a call, or keep it running."""

    call: CallRef
    attempt: int


class CheckCall(Struct, frozen=True, gc=False):
    """Let user code check a call: validate its arguments, apply guardrails, decide if it needs approval."""

    call: CallRef


class TakeHandoff(Struct, frozen=True, gc=False):
    """Pass control to the target of a handoff call."""

    call: CallRef


class CheckInput(Struct, frozen=True, gc=False):
    """Check a message with the agent's input guardrails."""

    agent: str
    position: int


class CheckOutput(Struct, frozen=True, gc=False):
    """Check a reply against its type and the agent's output guardrails."""

    position: int


class CheckTermination(Struct, frozen=True, gc=False):
    """Evaluate the termination condition after a reply."""

    position: int


class SummariseHistory(Struct, frozen=True, gc=False):
    """Summarise everything up to a position, for one agent."""

    agent: str
    upto: int


class AnswerCall(Struct, frozen=True, gc=False):
    """Answer a call that will not run (any further)."""

    call: CallRef
    attempt: int
    status: str
    text: str


class ApplyStandingApproval(Struct, frozen=True, gc=False):
    """Approve a call that a standing approval covers."""

    call: CallRef
    digest: str


class DeclareAttemptLost(Struct, frozen=True, gc=False):
    """Declare an attempt lost: its driver is gone, or its child session is `missing`."""

    call: CallRef
    attempt: int
    missing: bool = False


class PromptAgent(Struct, frozen=True, gc=False):
    """Prompt an autonomous agent to continue."""

    agent: str
    text: str


class AbandonCall(Struct, frozen=True, gc=False):
    """Stop the child session that a call waits for, then answer the call. After that, nothing in the child session can be approved."""

    call: CallRef
    status: Literal["cancelled", "superseded", "stopped"]
    text: str


ExternalEffect: TypeAlias = (
    RequestModel | RunTool | CheckCall | TakeHandoff | CheckInput | CheckOutput | CheckTermination | SummariseHistory | AbandonCall
)
ImmediateEffect: TypeAlias = AnswerCall | ApplyStandingApproval | DeclareAttemptLost | PromptAgent
Effect: TypeAlias = ExternalEffect | ImmediateEffect


class Plan(Struct, frozen=True):
    """The effects to perform now, and the pending requests. With neither, the conversation waits for its user, or is over.

    `not_before`: the earliest time of each effect that must wait, in milliseconds since the epoch: the retry of a failed one.
    """

    effects: list[Effect]
    requests: list[Pending]
    not_before: dict[Effect, int] = {}

    @property
    def retry_at(self) -> int:
        """The earliest time at which a waiting effect may be performed; 0 if none waits."""
        return min(self.not_before.values(), default=0)


class ChildSessionStatus(Struct, frozen=True):
    """The driver's knowledge of the child sessions of unanswered calls, which only their own ledgers have.

    `resumable`: the next attempts of calls whose child session can continue. `missing`: paused calls whose child session is not in the
    store any more. `cancelled`: calls whose child session was cancelled; their next attempts are resumable too, and answer them.
    `without_child`: open attempts whose child session was not in the store. It says nothing of a call that has paused since: then there
    was a child session after all.
    """

    resumable: frozenset[RunTool] = frozenset()
    missing: frozenset[CallRef] = frozenset()
    cancelled: frozenset[CallRef] = frozenset()
    without_child: frozenset[RunTool] = frozenset()


NO_CHILDREN = ChildSessionStatus()


def make_plan(
    state: State,
    graph: WorkflowGraph,
    epoch: int | None = None,
    children: ChildSessionStatus = NO_CHILDREN,
    scope: CallRef | Literal["effects", "everything"] = "everything",
) -> Plan:
    """Return the plan for this state. `epoch` is the driver's; attempts of earlier epochs are lost.

    `scope` leaves out calls that the caller does not need: with "effects", those that only wait for a person's answer, so that a driver
    does not go through them again and again; with a call, all other calls.
    """
    if state.batch:
        lost = _find_lost_attempts(state.started_calls, epoch, children)
        if lost and epoch is not None:
            return Plan(lost, [])
        plan = _plan_batch(_Batch.from_state(state, graph, children), scope)
        if lost:  # without a driver they are not recorded, and people can answer pending requests meanwhile
            plan = Plan([*lost, *plan.effects], plan.requests, plan.not_before)
    elif state.stop_reason:
        plan = Plan([], [])
    else:
        plan = _plan_without_batch(state, graph)
    # An unchecked message has only one effect on the plan: it must be checked.
    if state.unchecked_messages and (state.stop_reason != "cancelled" or state.unchecked_messages[-1].position > state.stop.position):
        check = CheckInput(find_receiving_agent(state, graph), state.unchecked_messages[0].position)
        return Plan([*plan.effects, check], plan.requests, plan.not_before)
    return plan


def _find_lost_attempts(started_calls: list[CallState], epoch: int | None, children: ChildSessionStatus) -> list[Effect]:
    """Return the attempts that have no driver any more, or whose child session is missing.

    Without an epoch, it is not known if the driver of an attempt is gone.
    """
    lost: list[Effect] = []
    for call in started_calls:
        if (attempt := call.open_attempt) is not None and epoch is not None and attempt.epoch < epoch:
            child_missing = RunTool(call.ref, attempt.number) in children.without_child
            lost.append(DeclareAttemptLost(call.ref, attempt.number, child_missing))
        elif call.ref in children.missing and call.phase == "paused":
            lost.append(DeclareAttemptLost(call.ref, len(call.attempts), missing=True))
    return lost


def find_receiving_agent(state: State, graph: WorkflowGraph) -> str:
    """Return the agent that would reply to a message that arrived now, and whose guardrails check it."""
    begins_run = not state.awaits_reply or bool(state.stop_reason) or state.is_terminated
    return graph.start if begins_run and graph.restarts_each_run else find_active_agent(state, graph)


def needs_input_check(state: State, graph: WorkflowGraph) -> bool:
    """Return True if a message that arrived now would wait for guardrails, also if the receiving agent is not in the graph."""
    rules = graph.agents.get(find_receiving_agent(state, graph))
    return rules is None or rules.has_input_guardrails


def find_active_agent(state: State, graph: WorkflowGraph) -> str:
    """Return the agent whose turn it is."""
    return graph.start if not state.active_agent or (state.is_new_run and graph.restarts_each_run) else state.active_agent


SessionStatus: TypeAlias = Literal["new", "running", "waiting", "pending", "terminated", "cancelled", "failed"]


def derive_status(state: State, graph: WorkflowGraph) -> SessionStatus:
    """Return the session's status."""
    return derive_status_and_requests(state, graph)[0]


def derive_status_and_requests(
    state: State, graph: WorkflowGraph, children: ChildSessionStatus = NO_CHILDREN
) -> tuple[SessionStatus, list[Pending]]:
    """Return the session's status and its pending requests."""
    if not state.groups and not state.new_messages and not state.unchecked_messages:
        return "new", []
    plan = make_plan(state, graph, children=children)
    if plan.effects:
        return "failed" if _has_given_up(state, plan) else "running", plan.requests
    pauses = [call.pause for call in state.started_calls if call.pause]
    if plan.requests or any(not pause.error for pause in pauses):
        return "pending", plan.requests
    return "failed" if pauses else _derive_idle_status(state), []


def _has_given_up(state: State, plan: Plan) -> bool:
    """Return True if the plan is a model request that failed and is not retried automatically."""
    return (
        state.failed_request is not None
        and state.failed_request.final
        and isinstance(plan.effects[0], RequestModel)
        and not state.unchecked_messages
    )


def _derive_idle_status(state: State) -> SessionStatus:
    if state.stop_reason == "cancelled":
        return "cancelled"
    return "terminated" if state.is_terminated else "waiting"


def find_failure(state: State) -> str:
    """Return the error of the model or of a child session, if the session's status is "failed"; empty otherwise."""
    if state.failed_request is not None:
        return state.failed_request.error
    return next((call.pause.error for call in state.started_calls if call.pause and call.pause.error), "")


def find_pending_request(state: State, graph: WorkflowGraph, id: str, children: ChildSessionStatus = NO_CHILDREN) -> Pending | None:
    """Return the pending request with this id. For a request about a call, the cost does not depend on the number of pending requests."""
    call = parse_request_call(id)
    requests = make_plan(state, graph, None, children, call or "everything").requests
    return next((request for request in requests if request.id == id), None)


# -- while a batch is open ---------------------------------------------------------------------------------------------


class _Batch(Struct, frozen=True):
    """The calls of the newest reply, and everything that their plan depends on."""

    state: State
    graph: WorkflowGraph
    reply: Group
    fact: ModelReplied
    rules: AgentRules
    children: ChildSessionStatus
    is_superseded: bool
    """A message has arrived, and messages supersede calls that wait for people."""

    @classmethod
    def from_state(cls, state: State, graph: WorkflowGraph, children: ChildSessionStatus) -> _Batch:
        """Return the open batch of a state."""
        reply = state.last_reply
        assert reply is not None and reply.fact is not None
        rules = graph.resolve_rules(reply.agent, reply.options)
        return cls(state, graph, reply, reply.fact, rules, children, graph.supersedes_pending and bool(state.unseen_messages))

    @property
    def cut_index(self) -> int:
        """The index of the item that may be incomplete because the reply was cut off: the last one; -1 if it was not cut off."""
        return len(self.fact.items) - 1 if self.fact.finish != "stop" else -1

    def find_tool_rules(self, call: CallState) -> ToolRules:
        """Return the rules for a call's tool; a handoff is a tool that may need approval."""
        name = call.call.tool
        if (edge := self.rules.edges.get(name)) is not None:
            return ToolRules(name, needs_check=edge.needs_approval)
        return self.rules.tools.get(name) or ToolRules(name, is_removed=True)


class _Runnable(Struct, frozen=True):
    """A call that is running or that only a limit can keep from running; or a handoff that may be taken."""

    call: CallState
    tool: ToolRules

    @property
    def effect(self) -> RunTool:
        """The attempt to run: the open one, or the next."""
        return RunTool(self.call.ref, len(self.call.attempts) if self.call.phase == "running" else self.call.next_attempt)


_CallStep: TypeAlias = Effect | Pending | _Runnable | None
"""The next step of a call; None if it only waits."""


def _plan_batch(batch: _Batch, scope: CallRef | Literal["effects", "everything"]) -> Plan:
    calls, later_handoffs = _select_calls(batch, scope)
    endings: list[Effect] = []
    tool_steps: list[_CallStep] = []
    handoffs: list[tuple[CallState, _CallStep]] = []
    for call in calls:
        if (ending := _find_ending(batch, call)) is not None:
            endings.append(ending)
        elif call.call.tool in batch.rules.edges:
            handoffs.append((call, _find_next_step(batch, call)))
        else:
            tool_steps.append(_find_next_step(batch, call))
    runs, limit = _select_runnable(batch, [step for step in tool_steps if isinstance(step, _Runnable)])
    handoff_steps = _plan_handoffs(batch, handoffs, later_handoffs)
    # By id, because all calls that wait for one limit share its request.
    requests = {step.id: step for step in (*tool_steps, limit, *handoff_steps) if isinstance(step, Pending)}
    return Plan(
        [*endings, *_select_effects(tool_steps), *(each.effect for each in runs), *_select_effects(handoff_steps)],
        sorted(requests.values(), key=lambda request: (request.call is None, request.call or CallRef(0, 0))),
        {each.effect: each.call.pause.retry_at for each in runs if each.call.pause is not None and each.call.pause.retry_at},
    )


def _select_effects(steps: Iterable[_CallStep]) -> list[Effect]:
    return [step for step in steps if step is not None and not isinstance(step, (Pending, _Runnable))]


def _plan_handoffs(batch: _Batch, handoffs: list[tuple[CallState, _CallStep]], later_handoffs: int) -> list[_CallStep]:
    """Return the next steps of a batch's handoffs. When all are decided and no other call is unanswered, the first is taken."""
    undecided: list[_CallStep] = [step for _, step in handoffs if not isinstance(step, _Runnable)]
    only_handoffs_left = len(handoffs) + later_handoffs == batch.reply.unanswered_count
    return [_plan_handoff(batch, handoffs[0][0])] if handoffs and only_handoffs_left and not undecided else undecided


def _select_calls(batch: _Batch, scope: CallRef | Literal["effects", "everything"]) -> tuple[list[CallState], int]:
    """Return the unanswered calls that a plan depends on, in call order, and the number of handoffs that it leaves out.

    Of calls that may start at once, no more are selected than may run in parallel; of handoffs without approval, only the first. So the
    cost of a plan does not depend on the number of calls that wait behind them.
    """
    state = batch.state
    if isinstance(scope, CallRef):
        call = state.find_call(scope)
        return [call] if call is not None and call.output is None else [], 0
    if batch.cut_index >= 0 and (last := batch.reply.find_call(batch.cut_index)) is not None and last.output is None:
        return [call for call in state.batch if call.output is None], 0
    selected: list[CallState] = []
    later_handoffs = 0
    for (phase, name), calls in state.open_calls.by_phase.items():
        if scope == "effects" and not _may_have_effects(batch, phase, name):
            continue
        limit = _count_calls_to_consider(batch, phase, name)
        selected += calls[:limit]
        if limit is not None and name in batch.rules.edges:
            later_handoffs += max(0, len(calls) - limit)
    return sorted(selected, key=get_call_index), later_handoffs


def _count_calls_to_consider(batch: _Batch, phase: CallPhase, name: str) -> int | None:
    """Return the number of calls of one tool in one phase that a plan depends on; None for all of them."""
    if phase not in ("unchecked", "ready"):
        return None
    if (edge := batch.rules.edges.get(name)) is not None:
        all_answered = batch.fact.calls_allowed >= 0
        return None if all_answered or (edge.needs_approval and phase == "unchecked") else 1
    tool = batch.rules.tools.get(name)
    if tool is None or tool.deferred:
        return None
    return MAX_PARALLEL_CHECKS if tool.needs_check and phase == "unchecked" else batch.graph.max_parallel_tools


def _may_have_effects(batch: _Batch, phase: CallPhase, name: str) -> bool:
    """Return True if calls of one tool in one phase may need more than a person's answer."""
    if phase == "needs_approval":
        return batch.is_superseded or StandingApproval(batch.rules.name, name) in batch.state.standing_approvals
    tool = batch.rules.tools.get(name)
    waits_for_result = tool is not None and tool.deferred and (phase == "ready" or (phase == "unchecked" and not tool.needs_check))
    return batch.is_superseded or not waits_for_result


def _find_ending(batch: _Batch, call: CallState) -> AnswerCall | AbandonCall | None:
    """Return the effect that ends a call which will not run (any further); None if the call continues."""
    name, rules = call.call.tool, batch.rules
    if call.stop_reason and call.phase == "stopped":
        return _end_stopped_call(call, rules.tools.get(name))
    if call.ref.index == batch.cut_index:
        return AnswerCall(call.ref, 0, "error", texts_for_model.reply_cut_off(name))
    if call.limit_error:
        return AnswerCall(call.ref, 0, "error", call.limit_error)
    if name in rules.edges:
        max_calls = batch.fact.calls_allowed
        text = texts_for_model.handoff_with_too_many_calls(len(batch.reply.calls), max_calls)
        return AnswerCall(call.ref, 0, "error", text) if max_calls >= 0 else None
    if name not in rules.tools:
        is_unknown = call.phase == "unchecked"
        return AnswerCall(call.ref, 0, "error", texts_for_model.unknown_tool(name, [*rules.tools, *rules.edges])) if is_unknown else None
    if batch.is_superseded and call.phase == "paused" and _find_limit_of_child(batch, call) is None and not _can_resume(batch, call):
        return AbandonCall(call.ref, "superseded", texts_for_model.child_abandoned(name))
    return None


def _end_stopped_call(call: CallState, tool: ToolRules | None) -> AnswerCall | AbandonCall:
    """Return the effect that answers a stopped call. The child session that it waits for is stopped first, unless the cancel did that."""
    started, idempotent = bool(call.attempts), tool is not None and tool.idempotent
    status: Literal["cancelled", "stopped"] = "cancelled"
    attempt = call.attempts[-1] if started and call.pause is None and not call.rerun_approved else None
    if call.stop_reason == "limit":
        status, text, attempt = "stopped", texts_for_model.call_stopped(call.call.tool, started), None
    elif call.stop_reason == "erased":
        text = texts_for_model.arguments_redacted(call.call.tool, started, idempotent or call.pause is not None)
    else:
        text = texts_for_model.call_cancelled(call.call.tool, started, idempotent)
    if call.pause is not None and call.stop_reason != "cancelled":
        return AbandonCall(call.ref, status, text)
    return AnswerCall(call.ref, attempt.number if attempt and not attempt.outcome_known else 0, status, text)


def _find_next_step(batch: _Batch, call: CallState) -> _CallStep:
    """Return the next step of a call that has not ended: an effect, a pending request, a run; None while its child session waits."""
    tool, phase = batch.find_tool_rules(call), call.phase
    if phase == "running":
        return _Runnable(call, tool)
    if phase == "unchecked" and tool.needs_check:
        return CheckCall(call.ref)
    if phase == "lost" and (not tool.idempotent or call.attempts[-1].child_missing or call.lacks_approval):
        return _request_decision(batch, "outcome", call, tool)
    if phase == "paused" and not tool.is_removed:
        if (reached := _find_limit_of_child(batch, call)) is not None:
            return _request_allowance(batch.state, reached.limit, batch.rules.name, reached.reason)
        if not _can_resume(batch, call):
            return None
    return _plan_approval(batch, call, tool) if call.lacks_approval else _plan_start(batch, call, tool)


def _plan_approval(batch: _Batch, call: CallState, tool: ToolRules) -> _CallStep:
    if StandingApproval(batch.rules.name, call.call.tool) in batch.state.standing_approvals:
        return ApplyStandingApproval(call.ref, digest_arguments(call.arguments))
    return _request_decision(batch, "approval", call, tool)


def _plan_start(batch: _Batch, call: CallState, tool: ToolRules) -> _CallStep:
    if tool.is_removed:
        text = texts_for_model.unknown_tool(call.call.tool, [*batch.rules.tools, *batch.rules.edges], bool(call.attempts))
        return AnswerCall(call.ref, 0, "error", text)
    if tool.deferred and not call.attempts:
        return _request_decision(batch, "result", call, tool)
    return _Runnable(call, tool)


def _find_limit_of_child(batch: _Batch, call: CallState) -> ReachedLimit | None:
    """Return the limit of this session that a paused child session waits for; None if it waits for none."""
    if call.pause is None or call.pause.needed == NO_USAGE:
        return None
    return find_reached_limit(batch.state, batch.graph.limits, call.pause.needed)


def _can_resume(batch: _Batch, call: CallState) -> bool:
    """Return True if the next attempt of a paused call must start, now or at the time that it waits for.

    When a message supersedes a call, its child session is cancelled first. The call must not resume because of that cancel.
    """
    if call.pause is not None and call.pause.retry_at:
        return True
    resumable = RunTool(call.ref, call.next_attempt) in batch.children.resumable
    return resumable and not (batch.is_superseded and call.ref in batch.children.cancelled)


def _request_decision(batch: _Batch, kind: RequestKind, call: CallState, tool: ToolRules) -> Pending | AnswerCall:
    """Request a decision about a call from a person. If a message superseded the pending calls, answer the call instead."""
    state, graph, agent, name = batch.state, batch.graph, batch.rules.name, call.call.tool
    if batch.is_superseded:
        attempt = call.attempts[-1].number if kind == "outcome" else 0
        if attempt and call.attempts[attempt - 1].outcome_known:  # the outcome came late, before the branch that asks for it again
            attempt = 0
        return AnswerCall(call.ref, attempt, "superseded", texts_for_model.call_superseded(name, kind == "outcome"))
    options = batch.reply.options
    return make_call_request(
        state.session_id,
        state.ledger_id,
        kind,
        call,
        agent,
        secrets=graph.find_secret_arguments(agent, name, options),
        tool_removed=tool.is_removed,
        for_client=(graph.agents.get(agent) or AgentRules(agent)).is_client_tool(name, options),
    )


def _select_runnable(batch: _Batch, runnable: list[_Runnable]) -> tuple[list[_Runnable], Pending | None]:
    """Return the calls that run or start, and the request for the limit that keeps others from starting.

    Calls start in call order, no more than may run in parallel; a tool that is `alone` runs by itself.
    """
    state, limits = batch.state, batch.graph.limits
    runs = [each for each in runnable if each.call.phase == "running"]
    alone = any(each.tool.alone for each in runs)
    call_count = state.run_counters.tool_calls
    for each in [each for each in runnable if each.call.phase != "running"]:
        if alone or len(runs) >= batch.graph.max_parallel_tools or (each.tool.alone and runs):
            break
        resumes = each.call.pause is not None
        # A refused limit has stopped all calls that had not started; a call that is still to run here may finish.
        if not state.stop_reason and not resumes and (limit := _find_exceeded_limit(state, limits, "tool_calls", call_count)):
            reason = f"{state.active_agent} has made {call_count} tool calls, the limit is {limit:g}."
            return runs, _request_allowance(state, "tool_calls", state.active_agent, reason)
        runs.append(each)
        call_count += not resumes
        alone = each.tool.alone
    return runs, None


def _plan_handoff(batch: _Batch, call: CallState) -> TakeHandoff | Pending:
    """Return the effect that takes a handoff, or the request for the limit that prevents it."""
    state, limits, edge = batch.state, batch.graph.limits, batch.rules.edges[call.call.tool]
    times = state.run_counters.handoffs_by_edge.get((edge.source, edge.target), 0)
    if limit := _find_exceeded_limit(state, limits, "handoffs", state.run_counters.handoffs):
        wish = f"{edge.source} wants to hand to {edge.target}."
        reason = f"{state.run_counters.handoffs} handoffs since the user last spoke, the limit is {limit:g}; {wish}"
        return _request_allowance(state, "handoffs", edge.source, reason)
    if limit := _find_exceeded_limit(state, limits, "same_edge", times):
        handoffs = f"{_describe_handoffs(state)}; {edge.source} handed to {edge.target} {times} times"
        return _request_allowance(state, "same_edge", edge.source, f"This looks like a loop. {handoffs}, the limit is {limit:g}.")
    return TakeHandoff(call.ref)


# -- between replies ---------------------------------------------------------------------------------------------------


def _plan_without_batch(state: State, graph: WorkflowGraph) -> Plan:
    reply = state.last_reply
    if reply is not None:
        rules = graph.resolve_rules(reply.agent, reply.options)
        checks = _plan_reply_checks(state, graph, rules, reply)
        if checks is not None:
            return checks
    if not state.awaits_reply:
        return _plan_autonomous_prompt(state, graph)
    if state.is_terminated and not state.unseen_messages:
        return Plan([], [])
    return _plan_model_request(state, graph, find_active_agent(state, graph))


def _plan_reply_checks(state: State, graph: WorkflowGraph, rules: AgentRules, reply: Group) -> Plan | None:
    """Return the plan to check the newest reply with user code, or to ask about a rejected one; None if nothing is left to do."""
    is_newest = state.groups[-1] is reply
    # Every answer of a run is checked: a reply without calls, or the reply at which the termination condition ended the run.
    if is_newest and rules.checks_output and not state.reply_checks.output_checked and (not reply.calls or state.is_terminated):
        return Plan([CheckOutput(reply.position)], [])
    if state.reply_objection and not state.unseen_messages:
        allowed = rules.output_retries + max(1, rules.output_retries) * state.run_counters.allowances.get("output", 0)
        if state.run_counters.output_retries > allowed:
            number = f"{state.run_counters.output_retries} replies were" if state.run_counters.output_retries > 1 else "a reply was"
            reason = f"{rules.name}: {number} not accepted: {state.reply_objection.rstrip('.')}."
            return Plan([], [_request_allowance(state, "output", rules.name, reason)])
        return None
    if graph.has_termination_condition and not state.reply_checks.termination_checked and not reply.rejected:
        return Plan([CheckTermination(reply.position)], [])
    return None


def _plan_autonomous_prompt(state: State, graph: WorkflowGraph) -> Plan:
    """Return the plan while nothing waits for a reply: prompt an autonomous agent, or wait for the user."""
    rules = graph.agents.get(state.active_agent)
    if state.last_reply is None or state.unseen_messages or state.is_terminated:
        return Plan([], [])
    if rules is None or not rules.autonomous or state.run_counters.prompts >= rules.prompt_limit:
        return Plan([], [])
    if limit := _find_limit_before_request(state, graph, rules.name):
        return Plan([], [limit])
    return Plan([PromptAgent(rules.name, rules.prompt)], [])


def _plan_model_request(state: State, graph: WorkflowGraph, agent: str) -> Plan:
    rules = graph.agents.get(agent) or AgentRules(agent)
    if rules.has_input_guardrails:
        # Control may have passed to this agent after a message arrived: its guardrails check the message before the agent sees it.
        checks: list[Effect] = [CheckInput(agent, group.position) for group in state.unseen_messages if group.checked_by != agent]
        if checks:
            return Plan(checks[:1], [])
    if limit := _find_limit_before_request(state, graph, agent):
        return Plan([], [limit])
    if rules.summarise_above and not _has_handoff_policy(state, graph, agent):
        upto = _find_summary_end(state, rules)
        if upto is not None and not any(group.position <= upto for group in state.unchecked_messages):
            return Plan([SummariseHistory(agent, upto)], [])
    request = RequestModel(agent, state.reply_count, state.interrupted_at)
    failed = state.failed_request
    return Plan([request], [], {request: failed.retry_at} if failed is not None and failed.retry_at and not failed.final else {})


def _has_handoff_policy(state: State, graph: WorkflowGraph, agent: str) -> bool:
    """Return True if the handoff that gave control to the agent has its own history policy, which then replaces the agent's."""
    handoff = state.incoming_handoff if state.active_agent == agent else None
    source = graph.agents.get(handoff.source) if handoff else None
    return any(edge.target == agent and edge.history is not None for edge in source.edges.values()) if source else False


def _find_summary_end(state: State, rules: AgentRules) -> int | None:
    """Return the position up to which this agent's view must be summarised; None if it is not too large."""
    since = state.summaries[rules.name].upto if rules.name in state.summaries else -1
    groups = [group for group in [*state.groups, *state.new_messages] if group.position > since and not group.withheld]
    characters = sum(_count_chars(group) for group in groups)
    if characters <= rules.summarise_above * CHARS_PER_TOKEN:
        return None
    cut = find_turns_start(groups, rules.keep_turns)
    # A message can have a lower position than the reply that it follows: never cut so that either would be lost or seen twice.
    upto = max((group.position for group in groups[:cut]), default=-1)
    return upto if upto >= 0 and all(group.position > upto for group in groups[cut:]) else None


def _count_chars(group: Group) -> int:
    return sum(len(str(entry.items if isinstance(entry, AssistantEntry) else entry.content)) for entry in group.entries)


# -- limits ------------------------------------------------------------------------------------------------------------


def _find_exceeded_limit(state: State, limits: Limits, name: str, amount: float) -> float:
    """Return the limit with its allowances, if the amount has reached it; 0 if it has not. The amount is without what comes next."""
    limit = getattr(limits, name)
    if limit is None:
        return 0
    allowed = limit * (1 + state.run_counters.allowances.get(name, 0))
    return float(max(allowed, 1e-9)) if amount >= allowed else 0


def _find_limit_before_request(state: State, graph: WorkflowGraph, agent: str) -> Pending | None:
    # The rounds of this session only: a child session counts its own.
    rounds = state.run_counters.tool_rounds
    if limit := _find_exceeded_limit(state, graph.limits, "tool_rounds", rounds):
        return _request_allowance(
            state, "tool_rounds", agent, f"{agent} called tools in {rounds} replies in a row, the limit is {limit:g}."
        )
    reached = find_reached_limit(state, graph.limits, estimate_next_request(state))
    return _request_allowance(state, reached.limit, agent, reached.reason) if reached else None


class ReachedLimit(Struct, frozen=True):
    """A limit that the next model request would exceed, and a sentence that says so."""

    limit: str
    reason: str


def estimate_next_request(state: State) -> Usage:
    """Estimate the usage of the next model request, in this session or in a child session that waits for a limit.

    The estimate is at least the text of the conversation so far, and at least the usage of the last request.
    """
    for call in state.started_calls:
        if call.pause and call.pause.needed != NO_USAGE:
            return call.pause.needed
    tokens = max(state.usage_totals.characters // CHARS_PER_TOKEN, state.usage_totals.last_request.total, 1)
    return Usage(input=tokens, cost=state.usage_totals.last_request.cost)


def find_reached_limit(state: State, limits: Limits, needed: Usage, turns: int = 0, working_ms: int = 0) -> ReachedLimit | None:
    """Return the limit that a model request of this size would exceed; None if there is none. Child sessions count too.

    `turns` and `working_ms` are not recorded yet: the requests of child sessions that are in progress, and the time they have taken.
    """
    turns += state.run_counters.turns
    if limit := _find_exceeded_limit(state, limits, "turns", turns):
        return ReachedLimit("turns", f"{turns} turns since the user last spoke, the limit is {limit:g}. {_describe_handoffs(state)}")
    seconds = (state.run_counters.work_ms + working_ms) / 1000
    if limit := _find_exceeded_limit(state, limits, "seconds", seconds):
        return ReachedLimit("seconds", f"{seconds:.1f} s of work since the user last spoke, the limit is {limit:g}.")
    usage = state.usage_totals.total
    if limits.tokens is not None and (limit := _find_exceeded_limit(state, limits, "tokens", usage.total + needed.total)):
        reason = f"{usage.total} tokens used, the next call takes about {needed.total} more, the budget is {limit:g}."
        return ReachedLimit("tokens", reason)
    return _find_reached_cost_limit(state, limits, usage.dollars or 0.0, needed.dollars or 0.0) if limits.cost is not None else None


def _find_reached_cost_limit(state: State, limits: Limits, spent: float, needed: float) -> ReachedLimit | None:
    if limit := _find_exceeded_limit(state, limits, "cost", spent + needed):
        reason = f"${spent:.4f} spent, the next call costs about ${needed:.4f} more, the budget is ${limit:.4f}."
        return ReachedLimit("cost", reason)
    unpriced = [agent for agent, usage in state.usage_totals.by_agent.items() if usage.unpriced_tokens]
    if unpriced and not state.run_counters.allowances.get("cost"):
        reason = (
            f"${spent:.4f} spent, and the price of what {', '.join(unpriced)} used is not known, so Limits(cost=...) cannot be kept: "
            "pass prices=... to the model, or approve to go on and count only what is known."
        )
        return ReachedLimit("cost", reason)
    return None


def compute_seconds_left(state: State, limits: Limits, working_ms: int = 0) -> float | None:
    """Return the seconds of work left before the limit; None if there is no limit. `working_ms` is as in `find_reached_limit`."""
    if limits.seconds is None:
        return None
    allowed = limits.seconds * (1 + state.run_counters.allowances.get("seconds", 0))
    return max(0.0, allowed - (state.run_counters.work_ms + working_ms) / 1000)


def _request_allowance(state: State, name: str, agent: str, reason: str) -> Pending:
    counters = state.run_counters
    return make_limit_request(
        state.session_id, state.ledger_id, name, counters.message_count, counters.allowances.get(name, 0), agent, reason.rstrip()
    )


def _describe_handoffs(state: State) -> str:
    """Return a list of the handoffs since the user's last message, for a prompt."""
    if not state.run_counters.handoffs_by_edge:
        return ""
    handoffs = (f"{source} -> {target} {times}x" for (source, target), times in state.run_counters.handoffs_by_edge.items())
    return f"Handoffs: {', '.join(handoffs)}"


# -- immediate effects -------------------------------------------------------------------------------------------------


def answer_stopped_calls(state: State, graph: WorkflowGraph, at: int) -> Iterator[AnyFact]:
    """Yield the outputs of the calls that a stop ends, for the same append as the stop.

    A message recorded between the two would end the stop first.
    """
    if state.stop_reason:
        answers = [effect for effect in make_plan(state, graph).effects if isinstance(effect, AnswerCall)]
        yield from (make_fact(effect, at) for effect in answers)


def make_fact(effect: ImmediateEffect, at: int) -> AnyFact:
    """Return the fact that an immediate effect amounts to."""
    match effect:
        case AnswerCall(call=call, attempt=attempt, status=status, text=text):
            return CallReturned(at=at, call=call, attempt=attempt, status=status, output=text)  # type: ignore[arg-type]
        case ApplyStandingApproval(call=call, digest=digest):
            return Decided(at=at, kind="approval", verdict="approve", call=call, digest=digest, source=SOURCE_STANDING_APPROVAL)
        case DeclareAttemptLost(call=call, attempt=attempt, missing=missing):
            return CallLost(at=at, call=call, attempt=attempt, missing=missing)
        case PromptAgent(agent=agent, text=text):
            return AgentPrompted(at=at, agent=agent, text=text)
