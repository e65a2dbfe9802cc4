"""What the world still owes the conversation. May know: the state and the graph. Decides: what happens next, and who is asked.

`plan(state, graph, epoch)` is a pure function: the effects to perform now, and the requests that wait for people. Performing an effect
ends in a fact; then the plan is made again. An effect that is no longer planned is not wanted any more, and whoever performs it
stops. Bookkeeping effects need nobody's help: `fact_of` turns them into facts at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from legato.core import wording
from legato.core.digest import digest_arguments
from legato.core.facts import NO_USAGE, STANDING, AnyFact, CallRef, Decided, Lost, Paused, Prompted, Returned, Standing, Usage
from legato.core.graph import AgentRules, Edge, Graph, Limits, ToolRules
from legato.core.groups import AssistantEntry, CallState, Group, Stage
from legato.core.history import last_turns
from legato.core.requests import Kind, Pending, about_call, about_limit, call_of_request
from legato.core.state import State

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
    """Stop the conversation that a call waits for: a message has superseded the call, or its arguments were erased."""

    call: CallRef


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
        if epoch is not None and (lost := _lost_attempts(state.started, epoch, children.missing)):
            return Plan(lost, [])
        now = _batch(state, graph, children, about)
    elif state.halt:
        now = Plan([], [])
    else:
        now = _after_batch(state, graph)
    # A message that waits changes nothing but this: it is being judged.
    if state.waiting and (state.halt != "cancelled" or state.waiting[-1].position > state.halted_at):
        now.effects.append(JudgeInput(receiver(state, graph), state.waiting[0].position))
    return now


def _lost_attempts(started: list[CallState], epoch: int, missing: frozenset[CallRef]) -> list[Effect]:
    """The attempts that nobody performs any more: their driver is gone, or they wait for a child session that is missing."""
    lost: list[Effect] = []
    for call in started:
        gone = call.ref in missing
        if (running := call.running) is not None and running.epoch < epoch:
            lost.append(DeclareLost(call.ref, running.number, gone))
        elif gone and call.paused and not call.stopped:
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
        broken = state.failed is not None and state.failed.final and isinstance(now.effects[0], CallModel) and not state.waiting
        return "failed" if broken else "running", now.requests
    paused = [call.paused for call in state.started if call.paused]
    if now.requests or any(not each.error for each in paused):
        return "pending", now.requests
    if paused:
        return "failed", []
    if state.halt == "cancelled":
        return "cancelled", []
    return "terminated" if state.ended else "waiting", []


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


def _batch(
    state: State, graph: Graph, children: ChildStatus, about: CallRef | Literal["effects", "everything"] = "everything"
) -> Plan:
    assert state.reply is not None and state.reply.fact is not None
    rules = graph.rules_in_run(state.reply.agent, state.reply.options)
    effects: list[Effect] = []
    requests: list[Pending] = []
    ready: list[tuple[CallState, ToolRules]] = []
    handoffs: list[tuple[CallState, Edge]] = []
    limits_asked: set[str] = set()
    cut = len(state.reply.fact.items) - 1 if state.reply.fact.finish != "stop" else -1  # nobody knows whether its last call is whole
    most_calls = state.reply.fact.calls_allowed  # -1, if the reply does not exceed it
    superseded = graph.supersede and bool(state.unseen)
    calls, later_handoffs = _calls_to_plan(state, graph, rules, cut, about)
    for call in calls:
        tool, edge = rules.tools.get(call.call.tool), rules.edges.get(call.call.tool)
        if call.stopped in ("erased", "limit") and call.paused:
            effects.append(GiveUp(call.ref))
        elif call.stopped and not (call.stopped == "erased" and call.running):  # what is running has its arguments
            effects.append(_stopped(call, tool))
        elif call.ref.index == cut:
            effects.append(Answer(call.ref, 0, "error", wording.cut_short(call.call.tool)))
        elif call.refused:
            effects.append(Answer(call.ref, 0, "error", call.refused))
        elif edge is not None and most_calls >= 0:
            effects.append(Answer(call.ref, 0, "error", wording.handoff_with_too_many_calls(len(state.reply.calls), most_calls)))
        elif edge is not None:
            handoffs.append((call, edge))
        elif tool is None and call.gate is None and not call.attempts:
            effects.append(Answer(call.ref, 0, "error", wording.unknown_tool(call.call.tool, [*rules.tools, *rules.edges])))
        elif call.paused and tool is not None and (over := _limit_of_child(state, graph.limits, call.paused)):
            if over.limit not in limits_asked:  # one answer is for all calls that wait for it
                limits_asked.add(over.limit)
                requests.append(_limit(state, over.limit, state.reply.agent, over.reason))
        elif call.paused and tool is not None and not call.paused.retry_at and not _can_go_on(call, children, superseded):
            if superseded:
                effects.append(GiveUp(call.ref))
        else:
            ready.append((call, tool or ToolRules(call.call.tool, gone=True)))
    free = [(call, tool) for call, tool in ready if not _settle(state, graph, rules, call, tool, effects, requests)]
    _run(state, graph, free, effects, requests)
    if handoffs:
        alone = len(handoffs) + later_handoffs == state.reply.unanswered
        _hand_over(state, graph, rules, handoffs, alone, effects, requests)
    if len(requests) > 1:
        requests.sort(key=lambda request: (request.call is None, request.call or CallRef(0, 0)))
    return Plan(effects, requests, _retries_of_children(ready, effects))


def _calls_to_plan(
    state: State, graph: Graph, rules: AgentRules, cut: int, about: CallRef | Literal["effects", "everything"]
) -> tuple[list[CallState], int]:
    """The unanswered calls that a plan depends on, in call order, and how many handoffs it leaves out.

    Of calls that may start at once, no more are looked at than may run beside each other, and of handoffs without approval only the first:
    so a plan costs the same however many calls wait behind them. `cut` is the index of a call that is answered because it is incomplete.
    """
    assert state.reply is not None
    if isinstance(about, CallRef):
        found = state.call(about)
        return [found] if found is not None and found.output is None else [], 0
    last = state.reply.call(cut)
    if last is not None and last.output is None:
        return [call for call in state.batch if call.output is None], 0
    indexes: list[int] = []
    later_handoffs = 0
    for (stage, name), waiting in state.open.indexes.items():
        most = _most_to_plan(stage, graph, rules.tools.get(name), rules.edges.get(name))
        if name in rules.edges and state.reply.fact is not None and state.reply.fact.calls_allowed >= 0:
            most = None  # they are all answered
        if about == "effects" and most is None and not _has_effects(state, graph, rules, stage, name):
            continue
        indexes += waiting[:most]
        if name in rules.edges and most is not None:
            later_handoffs += max(0, len(waiting) - most)
    return state.calls_at(indexes), later_handoffs


def _most_to_plan(stage: Stage, graph: Graph, tool: ToolRules | None, edge: Edge | None) -> int | None:
    """How many calls of one tool at one stage a plan depends on; None: on all of them."""
    if stage not in ("new", "free"):
        return None
    if edge is not None:
        return None if edge.needs_approval and stage == "new" else 1
    if tool is None or tool.deferred:
        return None
    return ADMISSIONS_AT_ONCE if tool.admission and stage == "new" else graph.parallel_tools


def _has_effects(state: State, graph: Graph, rules: AgentRules, stage: Stage, name: str) -> bool:
    """Whether the calls of one tool at one stage may be owed more than the answer of a person."""
    tool = rules.tools.get(name)
    deferred = tool is not None and tool.deferred and stage in ("new", "free") and not (tool.admission and stage == "new")
    if stage != "asked" and not deferred:
        return True
    return (graph.supersede and bool(state.unseen)) or (stage == "asked" and Standing(rules.name, name) in state.standing)


def _retries_of_children(ready: list[tuple[CallState, ToolRules]], effects: list[Effect]) -> dict[Effect, int]:
    """The next attempts of calls whose child session waits until its model is requested again."""
    times: dict[Effect, int] = {}
    planned = set(effects)
    for call, _ in ready:
        if call.paused and call.paused.retry_at and (attempt := RunTool(call.ref, len(call.attempts) + 1)) in planned:
            times[attempt] = call.paused.retry_at
    return times


def _can_go_on(call: CallState, children: ChildStatus, superseded: bool) -> bool:
    """Tell whether the next attempt of a paused call is to start.

    Giving up a call that a message superseded cancels its child session first. That is no reason for the call to go on instead.
    """
    return RunTool(call.ref, len(call.attempts) + 1) in children.resumable and not (superseded and call.ref in children.cancelled)


def _stopped(call: CallState, tool: ToolRules | None) -> Answer:
    if call.stopped == "limit":
        return Answer(call.ref, 0, "stopped", wording.stopped(call.call.tool, bool(call.attempts)))
    attempt = call.running or call.lost
    told = wording.arguments_erased if call.stopped == "erased" else wording.cancelled
    words = told(call.call.tool, bool(call.attempts), tool is not None and tool.idempotent)
    return Answer(call.ref, attempt.number if attempt else 0, "cancelled", words)


def _settle(
    state: State, graph: Graph, rules: AgentRules, call: CallState, tool: ToolRules, effects: list[Effect], requests: list[Pending]
) -> bool:
    """Deal with a call that is not to be run now: True if it waits for user code or a person, False if it may run."""
    if call.attempts:
        if call.running:
            return False
        if call.lost and (not tool.idempotent or call.lost.missing or (call.gate and not call.approved)):
            _ask(state, graph, "outcome", call, rules.name, tool.gone, effects, requests)
            return True
    elif call.gate is None and tool.admission:
        effects.append(Admit(call.ref))
        return True
    if call.gate and not call.approved:
        if Standing(rules.name, call.call.tool) in state.standing:
            effects.append(AdmitStanding(call.ref, digest_arguments(call.arguments)))
        else:
            _ask(state, graph, "approval", call, rules.name, tool.gone, effects, requests)
        return True
    if tool.gone:
        words = wording.unknown_tool(call.call.tool, [*rules.tools, *rules.edges], bool(call.attempts))
        effects.append(Answer(call.ref, call.attempts[-1].number if call.lost else 0, "error", words))
        return True
    if tool.deferred and not call.attempts:
        _ask(state, graph, "result", call, rules.name, tool.gone, effects, requests)
        return True
    return False


def _ask(
    state: State, graph: Graph, kind: Kind, call: CallState, agent: str, gone: bool, effects: list[Effect], requests: list[Pending]
) -> None:
    """Ask a person, or, where messages supersede pending calls and one has come, answer the call in their place."""
    if graph.supersede and state.unseen:
        lost = call.attempts[-1].number if kind == "outcome" else 0
        effects.append(Answer(call.ref, lost, "superseded", wording.superseded(call.call.tool, kind == "outcome")))
    else:
        assert state.reply is not None
        options = state.reply.options
        secrets = graph.secrets(agent, call.call.tool, options)
        theirs = (graph.agents.get(agent) or AgentRules(agent)).is_client_tool(call.call.tool, options)
        requests.append(about_call(state.session, state.ledger, kind, call, agent, secrets, gone, theirs))


def _run(
    state: State, graph: Graph, ready: list[tuple[CallState, ToolRules]], effects: list[Effect], requests: list[Pending]
) -> None:
    """Start what may start: in call order, within the parallel limit, 'alone' tools by themselves, within the allowance."""
    waiting: list[tuple[CallState, ToolRules]] = []
    running, alone = 0, False
    for call, tool in ready:
        if call.running:
            effects.append(RunTool(call.ref, len(call.attempts)))
            running, alone = running + 1, alone or tool.alone
        else:
            waiting.append((call, tool))
    started = state.tally.tool_calls
    for call, tool in waiting:
        if running >= graph.parallel_tools or alone or (tool.alone and running):
            break
        # A limit that was refused stopped what had not started; what is still to run here comes to its end.
        if not state.halt and not call.paused and (over := _over(state, graph.limits, "tool_calls", started)):
            told = f"{state.active} has made {started} tool calls, the limit is {over:g}."
            requests.append(_limit(state, "tool_calls", state.active, told))
            break
        effects.append(RunTool(call.ref, len(call.attempts) + 1))
        started += call.paused is None
        running, alone = running + 1, tool.alone


def _hand_over(
    state: State,
    graph: Graph,
    rules: AgentRules,
    handoffs: list[tuple[CallState, Edge]],
    alone: bool,
    effects: list[Effect],
    requests: list[Pending],
) -> None:
    """Take the first handoff that is not rejected, once all are decided and the rest of the batch is answered."""
    undecided = False
    for call, edge in handoffs:
        gate = ToolRules(edge.tool, admission=edge.needs_approval)
        undecided = _settle(state, graph, rules, call, gate, effects, requests) or undecided
    if undecided or not alone:
        return
    call, edge = handoffs[0]
    taken = state.tally.edges.get((edge.source, edge.target), 0)
    if over := _over(state, graph.limits, "handoffs", state.tally.handoffs):
        wish = f"{edge.source} wants to hand to {edge.target}."
        told = f"{state.tally.handoffs} handoffs since the user last spoke, the limit is {over:g}; {wish}"
        requests.append(_limit(state, "handoffs", edge.source, told))
    elif over := _over(state, graph.limits, "same_edge", taken):
        told = f"This looks like a loop. {_loop_seen(state)}; {edge.source} handed to {edge.target} {taken} times, the limit is {over:g}."
        requests.append(_limit(state, "same_edge", edge.source, told))
    else:
        effects.append(HandOver(call.ref))


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
    if newest and rules.judges_output and not state.output_checked and (not reply.calls or state.ended):
        return Plan([JudgeOutput(reply.position)], [])
    if state.feedback and not state.unseen:
        allowed = rules.output_retries + max(1, rules.output_retries) * state.tally.allowances.get("output", 0)
        if state.tally.output_retries > allowed:
            number = f"{state.tally.output_retries} replies were" if state.tally.output_retries > 1 else "a reply was"
            told = f"{rules.name}: {number} not accepted: {state.feedback.rstrip('.')}."
            return Plan([], [_limit(state, "output", rules.name, told)])
        return None
    if graph.judges_termination and not state.termination_judged and not reply.rejected:
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


def _limit_of_child(state: State, limits: Limits, paused: Paused) -> LimitReached | None:
    """The limit of this session that a paused child session waits for."""
    return limit_reached(state, limits, paused.needed) if paused.needed != NO_USAGE else None


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
            return Returned(at=at, call=call, attempt=attempt, status=status, output=words)  # type: ignore[arg-type]
        case AdmitStanding(call=call, digest=digest):
            return Decided(at=at, kind="approval", verdict="approve", call=call, digest=digest, source=STANDING)
        case DeclareLost(call=call, attempt=attempt, missing=missing):
            return Lost(at=at, call=call, attempt=attempt, missing=missing)
        case Prompt(agent=agent, text=text):
            return Prompted(at=at, agent=agent, text=text)
