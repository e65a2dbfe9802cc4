"""What the world still owes the conversation. May know: the state and the graph. Decides: what happens next, and who is asked.

`plan(state, graph, epoch)` is a pure function: the effects to perform now, and the requests that wait for people. Performing an effect
ends in a fact; then the plan is made again. An effect that is no longer planned is not wanted any more, and whoever performs it
stops. Bookkeeping effects need nobody's help: `fact_of` turns them into facts at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from legato.core import messages_to_model
from legato.core.digests import digest_arguments
from legato.core.facts import (
    NO_USAGE,
    STANDING,
    AgentPrompted,
    AnyFact,
    CallLost,
    CallRef,
    CallReturned,
    Decided,
    ModelReplied,
    Standing,
    Usage,
)
from legato.core.groups import AssistantEntry, CallState, Group, Phase, index_of
from legato.core.history_policies import last_turns
from legato.core.pending_requests import Kind, Pending, about_call, about_limit, call_of_request
from legato.core.state import State
from legato.core.workflow_graph import AgentRules, Graph, Limits, ToolRules

LETTERS_PER_TOKEN = 4
"""The usual rule of thumb for English; used for estimates only, never for sums."""


ADMISSIONS_AT_ONCE = 128
"""How many calls of one tool user code looks at beside each other, before they may run."""


class CallModel(Struct, frozen=True, gc=False):
    """Ask the agent's model for a reply. `turn` numbers the replies of the ledger."""

    agent: str
    turn: int
    stop: int = -1
    """Where the conversation was last stopped, or words of it erased: a call that was wanted before that is another one."""


class RunTool(Struct, frozen=True, gc=False):
    """Run an attempt of a call, or go on running it."""

    call: CallRef
    attempt: int


class Admit(Struct, frozen=True, gc=False):
    """Let user code look at a call: validate it, judge it, decide whether it needs approval."""

    call: CallRef


class HandOver(Struct, frozen=True, gc=False):
    """Pass control by this call."""

    call: CallRef


class JudgeInput(Struct, frozen=True, gc=False):
    """Let the agent's input guardrails look at a message."""

    agent: str
    position: int


class JudgeOutput(Struct, frozen=True, gc=False):
    """Check a reply against its type and the agent's output guardrails."""

    position: int


class JudgeTermination(Struct, frozen=True, gc=False):
    """Ask the termination condition, after this reply."""

    position: int


class Summarise(Struct, frozen=True, gc=False):
    """Summarise, for one agent, everything up to this position."""

    agent: str
    upto: int


class Answer(Struct, frozen=True, gc=False):
    """Bookkeeping: answer a call that will not run (any further)."""

    call: CallRef
    attempt: int
    status: str
    words: str


class AdmitStanding(Struct, frozen=True, gc=False):
    """Bookkeeping: a standing approval covers this call."""

    call: CallRef
    digest: str


class DeclareLost(Struct, frozen=True, gc=False):
    """Bookkeeping: the driver that ran this attempt is gone, or the child session that it worked in is `missing`."""

    call: CallRef
    attempt: int
    missing: bool = False


class Prompt(Struct, frozen=True, gc=False):
    """Bookkeeping: tell an autonomous agent to go on."""

    agent: str
    text: str


class GiveUp(Struct, frozen=True, gc=False):
    """Stop the child session that a call waits for, and then answer the call: so nothing can be approved there any more."""

    call: CallRef
    status: Literal["cancelled", "superseded", "stopped"]
    words: str


Work: TypeAlias = CallModel | RunTool | Admit | HandOver | JudgeInput | JudgeOutput | JudgeTermination | Summarise | GiveUp
Bookkeeping: TypeAlias = Answer | AdmitStanding | DeclareLost | Prompt
Effect: TypeAlias = Work | Bookkeeping


class Plan(Struct, frozen=True):
    """What to do now and what is asked of people. With neither, the conversation waits for its user, or is over.

    `not_before`: the effects that are to wait for a time, in milliseconds since the epoch: what failed is tried again then.
    """

    effects: list[Effect]
    requests: list[Pending]
    not_before: dict[Effect, int] = {}

    @property
    def retry_at(self) -> int:
        """When the first of the effects that wait may be performed; 0 if none waits."""
        return min(self.not_before.values(), default=0)


class ChildStatus(Struct, frozen=True):
    """What the driver knows of the child sessions of unanswered calls, which no ledger but theirs can say.

    `resumable`: the next attempts of calls whose child session can go on. `missing`: calls whose child session is not in the store,
    although an attempt began there. `cancelled`: calls whose child session was cancelled: the next
    attempts of these are resumable too, and answer them.
    """

    resumable: frozenset[RunTool] = frozenset()
    missing: frozenset[CallRef] = frozenset()
    cancelled: frozenset[CallRef] = frozenset()


NO_CHILDREN = ChildStatus()


def owed(state: State, graph: Graph, epoch: int | None = None) -> list[Effect]:
    """The effects of the plan."""
    return plan(state, graph, epoch).effects


def plan(
    state: State,
    graph: Graph,
    epoch: int | None = None,
    children: ChildStatus = NO_CHILDREN,
    about: CallRef | Literal["effects", "everything"] = "everything",
) -> Plan:
    """What is owed in this state. `epoch` is the driver's; attempts of earlier ones are lost.

    `about` leaves out what the caller does not need: with "effects", calls that only wait for an answer, so that a driver does not go
    through them again and again; with a call, all other calls.
    """
    if state.batch:
        lost = _lost_attempts(state.started, epoch, children.missing)
        if lost and epoch is not None:
            return Plan(lost, [])
        now = _plan_batch(_Batch.of(state, graph, children), about)
        if lost:  # without a driver nothing records them, and people can answer what is pending meanwhile
            now = Plan([*lost, *now.effects], now.requests, now.not_before)
    elif state.halt:
        now = Plan([], [])
    else:
        now = _after_batch(state, graph)
    # A message that waits changes nothing but this: it is being judged.
    if state.waiting and (state.halt != "cancelled" or state.waiting[-1].position > state.stop.at):
        judge = JudgeInput(receiver(state, graph), state.waiting[0].position)
        return Plan([*now.effects, judge], now.requests, now.not_before)
    return now


def _lost_attempts(started: list[CallState], epoch: int | None, missing: frozenset[CallRef]) -> list[Effect]:
    """The attempts that nobody performs any more: their driver is gone, or they wait for a child session that is missing.

    Without an epoch, whether the driver of an attempt is gone is not known.
    """
    lost: list[Effect] = []
    for call in started:
        gone = call.ref in missing
        if (running := call.running) is not None and epoch is not None and running.epoch < epoch:
            lost.append(DeclareLost(call.ref, running.number, gone))
        elif gone and call.phase == "paused":
            lost.append(DeclareLost(call.ref, len(call.attempts), gone))
    return lost


def receiver(state: State, graph: Graph) -> str:
    """The agent who would be asked if a message landed now, and whose guardrails look at it."""
    begins = not state.awaits_reply or bool(state.halt) or state.ended
    return graph.start if begins and graph.start_over else in_control(state, graph)


def judges_input(state: State, graph: Graph) -> bool:
    """Whether a message that comes now waits for guardrails; for those who do not know the agent, it does."""
    rules = graph.agents.get(receiver(state, graph))
    return rules is None or rules.judges_input


def in_control(state: State, graph: Graph) -> str:
    """The agent whose turn it is."""
    return graph.start if not state.active or (state.fresh and graph.start_over) else state.active


Status: TypeAlias = Literal["new", "running", "waiting", "pending", "terminated", "cancelled", "failed"]


def status(state: State, graph: Graph) -> Status:
    """The session's status, as the public API names it."""
    return resting(state, graph)[0]


def resting(state: State, graph: Graph, children: ChildStatus = NO_CHILDREN) -> tuple[Status, list[Pending]]:
    """The status, and what is asked of people."""
    if not state.groups and not state.tail and not state.waiting:
        return "new", []
    now = plan(state, graph, children=children)
    if now.effects:
        return "failed" if _gave_up(state, now) else "running", now.requests
    paused = [call.paused for call in state.started if call.paused]
    if now.requests or any(not each.error for each in paused):
        return "pending", now.requests
    return "failed" if paused else _idle(state), []


def _gave_up(state: State, now: Plan) -> bool:
    """Whether what is owed is a request that failed, and that is not made again unasked."""
    return state.failed is not None and state.failed.final and isinstance(now.effects[0], CallModel) and not state.waiting


def _idle(state: State) -> Status:
    if state.halt == "cancelled":
        return "cancelled"
    return "terminated" if state.ended else "waiting"


# -- while a batch is open ---------------------------------------------------------------------------------------------


def failure_of(state: State) -> str:
    """Why the session failed, where its status is "failed": the error of its model, or of a child session."""
    if state.failed is not None:
        return state.failed.error
    return next((call.paused.error for call in state.started if call.paused and call.paused.error), "")


def find_request(state: State, graph: Graph, id: str, children: ChildStatus = NO_CHILDREN) -> Pending | None:
    """The pending request of this id. Of one about a call, the cost does not depend on how many others are pending."""
    call = call_of_request(id)
    requests = plan(state, graph, None, children, call or "everything").requests
    return next((each for each in requests if each.id == id), None)


class _Batch(Struct, frozen=True):
    """The calls of the newest reply, and what their plan depends on."""

    state: State
    graph: Graph
    reply: Group
    fact: ModelReplied
    rules: AgentRules
    children: ChildStatus
    superseded: bool
    """A message has come, and messages supersede calls that wait for people."""

    @classmethod
    def of(cls, state: State, graph: Graph, children: ChildStatus) -> _Batch:
        """The open batch of a state."""
        reply = state.reply
        assert reply is not None and reply.fact is not None
        rules = graph.rules_in_run(reply.agent, reply.options)
        return cls(state, graph, reply, reply.fact, rules, children, graph.supersede and bool(state.unseen))

    @property
    def cut(self) -> int:
        """The index of a call that may be incomplete, because the reply was cut off: the last item; -1 if there is none."""
        return len(self.fact.items) - 1 if self.fact.finish != "stop" else -1

    def rules_for(self, call: CallState) -> ToolRules:
        """How the tool of a call is treated; a handoff is one that may need approval."""
        name = call.call.tool
        if (edge := self.rules.edges.get(name)) is not None:
            return ToolRules(name, admission=edge.needs_approval)
        return self.rules.tools.get(name) or ToolRules(name, gone=True)


class _MayRun(Struct, frozen=True):
    """A call that runs, or that nothing but limits keeps from it; or a handoff that may be taken."""

    call: CallState
    tool: ToolRules

    @property
    def effect(self) -> RunTool:
        """The attempt: the open one, or the next."""
        return RunTool(self.call.ref, len(self.call.attempts) if self.call.phase == "running" else self.call.next_attempt)


_Step: TypeAlias = Effect | Pending | _MayRun | None
"""What a call needs next."""


def _plan_batch(batch: _Batch, about: CallRef | Literal["effects", "everything"]) -> Plan:
    calls, later_handoffs = _calls_to_plan(batch, about)
    ends: list[Effect] = []
    tools: list[_Step] = []
    handoffs: list[tuple[CallState, _Step]] = []
    for call in calls:
        if (end := _end_of_call(batch, call)) is not None:
            ends.append(end)
        elif call.call.tool in batch.rules.edges:
            handoffs.append((call, _next_step(batch, call)))
        else:
            tools.append(_next_step(batch, call))
    runs, limit = _calls_to_run(batch, [step for step in tools if isinstance(step, _MayRun)])
    passing = _pass_control(batch, handoffs, later_handoffs)
    requests = {step.id: step for step in (*tools, limit, *passing) if isinstance(step, Pending)}  # of one limit, one for all its calls
    return Plan(
        [*ends, *_effects(tools), *(each.effect for each in runs), *_effects(passing)],
        sorted(requests.values(), key=lambda request: (request.call is None, request.call or CallRef(0, 0))),
        {each.effect: each.call.paused.retry_at for each in runs if each.call.paused is not None and each.call.paused.retry_at},
    )


def _effects(steps: Iterable[_Step]) -> list[Effect]:
    return [step for step in steps if step is not None and not isinstance(step, (Pending, _MayRun))]


def _pass_control(batch: _Batch, handoffs: list[tuple[CallState, _Step]], later: int) -> list[_Step]:
    """What the handoffs of a batch need. When all are decided and nothing else is unanswered, the first is taken."""
    undecided: list[_Step] = [step for _, step in handoffs if not isinstance(step, _MayRun)]
    alone = len(handoffs) + later == batch.reply.unanswered
    return [_hand_over(batch, handoffs[0][0])] if handoffs and alone and not undecided else undecided


def _calls_to_plan(batch: _Batch, about: CallRef | Literal["effects", "everything"]) -> tuple[list[CallState], int]:
    """The unanswered calls that a plan depends on, in call order, and how many handoffs it leaves out.

    Of calls that may start at once, no more are looked at than may run beside each other, and of handoffs without approval only the first:
    so a plan costs the same however many calls wait behind them.
    """
    state = batch.state
    if isinstance(about, CallRef):
        call = state.call(about)
        return [call] if call is not None and call.output is None else [], 0
    if batch.cut >= 0 and (last := batch.reply.call(batch.cut)) is not None and last.output is None:
        return [call for call in state.batch if call.output is None], 0
    found: list[CallState] = []
    later_handoffs = 0
    for (phase, name), waiting in state.open.by_phase.items():
        if about == "effects" and not _has_effects(batch, phase, name):
            continue
        most = _most_to_plan(batch, phase, name)
        found += waiting[:most]
        if most is not None and name in batch.rules.edges:
            later_handoffs += max(0, len(waiting) - most)
    return sorted(found, key=index_of), later_handoffs


def _most_to_plan(batch: _Batch, phase: Phase, name: str) -> int | None:
    """How many calls of one tool in one phase a plan depends on; None: on all of them."""
    if phase not in ("unchecked", "ready"):
        return None
    if (edge := batch.rules.edges.get(name)) is not None:
        all_answered = batch.fact.calls_allowed >= 0
        return None if all_answered or (edge.needs_approval and phase == "unchecked") else 1
    tool = batch.rules.tools.get(name)
    if tool is None or tool.deferred:
        return None
    return ADMISSIONS_AT_ONCE if tool.admission and phase == "unchecked" else batch.graph.parallel_tools


def _has_effects(batch: _Batch, phase: Phase, name: str) -> bool:
    """Whether the calls of one tool in one phase may be owed more than the answer of a person."""
    if phase == "needs_approval":
        return batch.superseded or Standing(batch.rules.name, name) in batch.state.standing
    tool = batch.rules.tools.get(name)
    waits_for_result = tool is not None and tool.deferred and (phase == "ready" or (phase == "unchecked" and not tool.admission))
    return batch.superseded or not waits_for_result


def _end_of_call(batch: _Batch, call: CallState) -> Answer | GiveUp | None:
    """How a call ends that will not run (any further); None if it goes on."""
    name, rules = call.call.tool, batch.rules
    if call.stopped and call.phase == "stopped":
        return _end_stopped_call(call, rules.tools.get(name))
    if call.ref.index == batch.cut:
        return Answer(call.ref, 0, "error", messages_to_model.cut_short(name))
    if call.refused:
        return Answer(call.ref, 0, "error", call.refused)
    if name in rules.edges:
        most = batch.fact.calls_allowed
        words = messages_to_model.handoff_with_too_many_calls(len(batch.reply.calls), most)
        return Answer(call.ref, 0, "error", words) if most >= 0 else None
    if name not in rules.tools:
        unknown = call.phase == "unchecked"
        return Answer(call.ref, 0, "error", messages_to_model.unknown_tool(name, [*rules.tools, *rules.edges])) if unknown else None
    if batch.superseded and call.phase == "paused" and _limit_of_child(batch, call) is None and not _can_go_on(batch, call):
        return GiveUp(call.ref, "superseded", messages_to_model.given_up(name))
    return None


def _end_stopped_call(call: CallState, tool: ToolRules | None) -> Answer | GiveUp:
    """The answer to a call that was stopped. What it waits for is stopped first, unless the cancel did that."""
    begun, idempotent = bool(call.attempts), tool is not None and tool.idempotent
    status: Literal["cancelled", "stopped"] = "cancelled"
    attempt = call.attempts[-1] if begun and call.paused is None and not call.redo else None
    if call.stopped == "limit":
        status, words, attempt = "stopped", messages_to_model.stopped(call.call.tool, begun), None
    elif call.stopped == "erased":
        words = messages_to_model.arguments_erased(call.call.tool, begun, idempotent or call.paused is not None)
    else:
        words = messages_to_model.cancelled(call.call.tool, begun, idempotent)
    if call.paused is not None and call.stopped != "cancelled":
        return GiveUp(call.ref, status, words)
    return Answer(call.ref, attempt.number if attempt and not attempt.known else 0, status, words)


def _next_step(batch: _Batch, call: CallState) -> _Step:
    """What a call that has not ended needs next: an effect, a person's answer, to run; or nothing, while its child session waits."""
    tool, phase = batch.rules_for(call), call.phase
    if phase == "running":
        return _MayRun(call, tool)
    if phase == "unchecked" and tool.admission:
        return Admit(call.ref)
    if phase == "lost" and (not tool.idempotent or call.attempts[-1].missing or call.lacks_approval):
        return _ask(batch, "outcome", call, tool)
    if phase == "paused" and not tool.gone:
        if (over := _limit_of_child(batch, call)) is not None:
            return _limit(batch.state, over.limit, batch.rules.name, over.reason)
        if not _can_go_on(batch, call):
            return None
    return _approve(batch, call, tool) if call.lacks_approval else _begin(batch, call, tool)


def _approve(batch: _Batch, call: CallState, tool: ToolRules) -> _Step:
    if Standing(batch.rules.name, call.call.tool) in batch.state.standing:
        return AdmitStanding(call.ref, digest_arguments(call.arguments))
    return _ask(batch, "approval", call, tool)


def _begin(batch: _Batch, call: CallState, tool: ToolRules) -> _Step:
    if tool.gone:
        words = messages_to_model.unknown_tool(call.call.tool, [*batch.rules.tools, *batch.rules.edges], bool(call.attempts))
        return Answer(call.ref, 0, "error", words)
    if tool.deferred and not call.attempts:
        return _ask(batch, "result", call, tool)
    return _MayRun(call, tool)


def _limit_of_child(batch: _Batch, call: CallState) -> LimitReached | None:
    """The limit of this session that a paused child session waits for."""
    if call.paused is None or call.paused.needed == NO_USAGE:
        return None
    return limit_reached(batch.state, batch.graph.limits, call.paused.needed)


def _can_go_on(batch: _Batch, call: CallState) -> bool:
    """Whether the next attempt of a paused call is to start: now, or at the time that it waits for.

    Giving up a call that a message superseded cancels its child session first. That is no reason for the call to go on instead.
    """
    if call.paused is not None and call.paused.retry_at:
        return True
    resumable = RunTool(call.ref, call.next_attempt) in batch.children.resumable
    return resumable and not (batch.superseded and call.ref in batch.children.cancelled)


def _ask(batch: _Batch, kind: Kind, call: CallState, tool: ToolRules) -> Pending | Answer:
    """Ask a person, or, where messages supersede pending calls and one has come, answer the call in their place."""
    state, graph, agent, name = batch.state, batch.graph, batch.rules.name, call.call.tool
    if batch.superseded:
        lost = call.attempts[-1].number if kind == "outcome" else 0
        lost = 0 if lost and call.attempts[lost - 1].known else lost  # how it ended came late, before the branch that asks again
        return Answer(call.ref, lost, "superseded", messages_to_model.superseded(name, kind == "outcome"))
    options = batch.reply.options
    theirs = (graph.agents.get(agent) or AgentRules(agent)).is_client_tool(name, options)
    return about_call(state.session, state.ledger, kind, call, agent, graph.secrets(agent, name, options), tool.gone, theirs)


def _calls_to_run(batch: _Batch, able: list[_MayRun]) -> tuple[list[_MayRun], Pending | None]:
    """The calls that run or start, and the limit that keeps others from it: in call order, no more than may run beside each other, tools
    that are `alone` by themselves."""
    state, limits = batch.state, batch.graph.limits
    runs = [each for each in able if each.call.phase == "running"]
    alone = any(each.tool.alone for each in runs)
    started = state.tally.tool_calls
    for each in [each for each in able if each.call.phase != "running"]:
        if alone or len(runs) >= batch.graph.parallel_tools or (each.tool.alone and runs):
            break
        goes_on = each.call.paused is not None
        # A limit that was refused stopped what had not started; what is still to run here comes to its end.
        if not state.halt and not goes_on and (over := _over(state, limits, "tool_calls", started)):
            reason = f"{state.active} has made {started} tool calls, the limit is {over:g}."
            return runs, _limit(state, "tool_calls", state.active, reason)
        runs.append(each)
        started += not goes_on
        alone = each.tool.alone
    return runs, None


def _hand_over(batch: _Batch, call: CallState) -> HandOver | Pending:
    """Take this handoff, unless a limit keeps it."""
    state, limits, edge = batch.state, batch.graph.limits, batch.rules.edges[call.call.tool]
    taken = state.tally.edges.get((edge.source, edge.target), 0)
    if over := _over(state, limits, "handoffs", state.tally.handoffs):
        wish = f"{edge.source} wants to hand to {edge.target}."
        reason = f"{state.tally.handoffs} handoffs since the user last spoke, the limit is {over:g}; {wish}"
        return _limit(state, "handoffs", edge.source, reason)
    if over := _over(state, limits, "same_edge", taken):
        reason = f"This looks like a loop. {_loop_seen(state)}; {edge.source} handed to {edge.target} {taken} times, the limit is {over:g}."
        return _limit(state, "same_edge", edge.source, reason)
    return HandOver(call.ref)


# -- between replies ---------------------------------------------------------------------------------------------------


def _after_batch(state: State, graph: Graph) -> Plan:
    reply = state.reply
    if reply is not None:
        rules = graph.rules_in_run(reply.agent, reply.options)
        judged = _judge(state, graph, rules, reply)
        if judged is not None:
            return judged
    if not state.awaits_reply:
        return _rest(state, graph)
    if state.ended and not state.unseen:
        return Plan([], [])
    return _call_model(state, graph, in_control(state, graph))


def _judge(state: State, graph: Graph, rules: AgentRules, reply: Group) -> Plan | None:
    """What user code has yet to say about the newest reply."""
    newest = state.groups[-1] is reply
    # Whatever leaves as the run's answer is judged: a reply without calls, or one that the termination condition ended the run at.
    if newest and rules.judges_output and not state.judgements.output and (not reply.calls or state.ended):
        return Plan([JudgeOutput(reply.position)], [])
    if state.feedback and not state.unseen:
        allowed = rules.output_retries + max(1, rules.output_retries) * state.tally.allowances.get("output", 0)
        if state.tally.output_retries > allowed:
            number = f"{state.tally.output_retries} replies were" if state.tally.output_retries > 1 else "a reply was"
            told = f"{rules.name}: {number} not accepted: {state.feedback.rstrip('.')}."
            return Plan([], [_limit(state, "output", rules.name, told)])
        return None
    if graph.judges_termination and not state.judgements.termination and not reply.rejected:
        return Plan([JudgeTermination(reply.position)], [])
    return None


def _rest(state: State, graph: Graph) -> Plan:
    """Nothing waits for a reply: prompt an autonomous agent, or wait for the user."""
    rules = graph.agents.get(state.active)
    if state.reply is None or state.unseen or state.ended:
        return Plan([], [])
    if rules is None or not rules.autonomous or state.tally.prompts >= rules.prompt_limit:
        return Plan([], [])
    if over := _limits_before_model(state, graph, rules.name):
        return Plan([], [over])
    return Plan([Prompt(rules.name, rules.prompt)], [])


def _call_model(state: State, graph: Graph, agent: str) -> Plan:
    rules = graph.agents.get(agent) or AgentRules(agent)
    if rules.judges_input:
        # Control may have come here since a message landed: this agent's guardrails look at it before the agent sees it.
        unjudged: list[Effect] = [JudgeInput(agent, group.position) for group in state.unseen if group.judged != agent]
        if unjudged:
            return Plan(unjudged[:1], [])
    if over := _limits_before_model(state, graph, agent):
        return Plan([], [over])
    if rules.summarise_above and not _policy_of_edge(state, graph, agent):
        upto = _summary_due(state, rules)
        if upto is not None and not any(group.position <= upto for group in state.waiting):
            return Plan([Summarise(agent, upto)], [])
    request = CallModel(agent, state.replies, state.overtaken_at)
    failed = state.failed
    return Plan([request], [], {request: failed.retry_at} if failed is not None and failed.retry_at and not failed.final else {})


def _policy_of_edge(state: State, graph: Graph, agent: str) -> bool:
    """Whether the handoff that brought control has a history policy of its own, which is then in force."""
    arrived = state.arrived if state.active == agent else None
    source = graph.agents.get(arrived.source) if arrived else None
    return any(edge.target == agent and edge.history is not None for edge in source.edges.values()) if source else False


def _summary_due(state: State, rules: AgentRules) -> int | None:
    """Up to where this agent's view is to be summarised, if it has grown too large."""
    since = state.summaries[rules.name].upto if rules.name in state.summaries else -1
    groups = [group for group in [*state.groups, *state.tail] if group.position > since and not group.blocked]
    letters = sum(_letters(group) for group in groups)
    if letters <= rules.summarise_above * LETTERS_PER_TOKEN:
        return None
    cut = last_turns(groups, rules.keep_turns)
    # A queued message can precede, by position, the reply it follows: never cut so that either would be lost or seen twice.
    upto = max((group.position for group in groups[:cut]), default=-1)
    return upto if upto >= 0 and all(group.position > upto for group in groups[cut:]) else None


def _letters(group: Group) -> int:
    return sum(len(str(entry.items if isinstance(entry, AssistantEntry) else entry.content)) for entry in group.entries)


# -- limits ------------------------------------------------------------------------------------------------------------


def _over(state: State, limits: Limits, name: str, used: float) -> float:
    """The limit, if `used` has reached it (and allowances are used up); 0 if there is still room."""
    limit = getattr(limits, name)
    if limit is None:
        return 0
    allowed = limit * (1 + state.tally.allowances.get(name, 0))
    return float(max(allowed, 1e-9)) if used >= allowed else 0


def _limits_before_model(state: State, graph: Graph, agent: str) -> Pending | None:
    # Of this session alone: a child session counts its own rounds.
    rounds = state.tally.tool_rounds
    if over := _over(state, graph.limits, "tool_rounds", rounds):
        return _limit(state, "tool_rounds", agent, f"{agent} called tools in {rounds} replies in a row, the limit is {over:g}.")
    reached = limit_reached(state, graph.limits, next_request_usage(state))
    return _limit(state, reached.limit, agent, reached.reason) if reached else None


class LimitReached(Struct, frozen=True):
    """A limit that the next model request would exceed, and the sentence that says so."""

    limit: str
    reason: str


def next_request_usage(state: State) -> Usage:
    """An estimate of the next model request, in this session or in a child session that waits for a limit: at least what is already
    there to be sent, and what the last request cost."""
    for call in state.started:
        if call.paused and call.paused.needed != NO_USAGE:
            return call.paused.needed
    tokens = max(state.spent.letters // LETTERS_PER_TOKEN, state.spent.last.total, 1)
    return Usage(input=tokens, cost=state.spent.last.cost)


def limit_reached(state: State, limits: Limits, needed: Usage, turns: int = 0, working_ms: int = 0) -> LimitReached | None:
    """The limit that a model request of this size would exceed, if any. Child sessions count as part of the session.

    `turns` and `working_ms` are what is not recorded yet: requests of child sessions that are under way, and the time they have taken.
    """
    turns += state.tally.turns
    if over := _over(state, limits, "turns", turns):
        return LimitReached("turns", f"{turns} turns since the user last spoke, the limit is {over:g}. {_loop_seen(state)}")
    seconds = (state.tally.active_ms + working_ms) / 1000
    if over := _over(state, limits, "seconds", seconds):
        return LimitReached("seconds", f"{seconds:.1f} s of work since the user last spoke, the limit is {over:g}.")
    used = state.spent.total
    if limits.tokens is not None and (over := _over(state, limits, "tokens", used.total + needed.total)):
        reason = f"{used.total} tokens used, the next call takes about {needed.total} more, the budget is {over:g}."
        return LimitReached("tokens", reason)
    return _cost_reached(state, limits, used.dollars or 0.0, needed.dollars or 0.0) if limits.cost is not None else None


def _cost_reached(state: State, limits: Limits, spent: float, needed: float) -> LimitReached | None:
    if over := _over(state, limits, "cost", spent + needed):
        reason = f"${spent:.4f} spent, the next call costs about ${needed:.4f} more, the budget is ${over:.4f}."
        return LimitReached("cost", reason)
    unpriced = [agent for agent, usage in state.spent.of.items() if usage.unpriced_tokens]
    if unpriced and not state.tally.allowances.get("cost"):
        reason = (
            f"${spent:.4f} spent, and the price of what {', '.join(unpriced)} used is not known, so Limits(cost=...) cannot be kept: "
            "pass prices=... to the model, or approve to go on and count only what is known."
        )
        return LimitReached("cost", reason)
    return None


def seconds_left(state: State, limits: Limits, working_ms: int = 0) -> float | None:
    """The seconds of work that are left before their limit is reached; None if there is no limit. `working_ms` is as in `limit_reached`."""
    if limits.seconds is None:
        return None
    allowed = limits.seconds * (1 + state.tally.allowances.get("seconds", 0))
    return max(0.0, allowed - (state.tally.active_ms + working_ms) / 1000)


def _limit(state: State, name: str, agent: str, told: str) -> Pending:
    return about_limit(state.session, state.ledger, name, state.tally.number, state.tally.allowances.get(name, 0), agent, told.rstrip())


def _loop_seen(state: State) -> str:
    """The handoffs since the user last spoke, as a person would tell them."""
    if not state.tally.edges:
        return ""
    told = ", ".join(f"{source} -> {target} {times}x" for (source, target), times in state.tally.edges.items())
    return f"Handoffs: {told}"


# -- bookkeeping -------------------------------------------------------------------------------------------------------


def answers_of(state: State, graph: Graph, at: int) -> Iterator[AnyFact]:
    """The answers to the calls that a stop ends, for the same append: a message that came in between would end the stop first."""
    if state.halt:
        answers = [effect for effect in plan(state, graph).effects if isinstance(effect, Answer)]
        yield from (fact_of(effect, at) for effect in answers)


def fact_of(effect: Bookkeeping, at: int) -> AnyFact:
    """The fact that a bookkeeping effect is."""
    match effect:
        case Answer(call=call, attempt=attempt, status=status, words=words):
            return CallReturned(at=at, call=call, attempt=attempt, status=status, output=words)  # type: ignore[arg-type]
        case AdmitStanding(call=call, digest=digest):
            return Decided(at=at, kind="approval", verdict="approve", call=call, digest=digest, source=STANDING)
        case DeclareLost(call=call, attempt=attempt, missing=missing):
            return CallLost(at=at, call=call, attempt=attempt, missing=missing)
        case Prompt(agent=agent, text=text):
            return AgentPrompted(at=at, agent=agent, text=text)
