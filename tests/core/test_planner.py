"""Plans: effects and pending requests, decided by the state and the graph alone."""

import pytest

from legato.core.digests import digest_arguments
from legato.core.facts import CallLost, CallRef, Cancelled, ChildUsageReported, GuardrailJudged, StandingApproval, TerminationJudged, Usage
from legato.core.limits import Limits
from legato.core.planner import (
    AbandonCall,
    AnswerCall,
    ApplyStandingApproval,
    CheckCall,
    CheckInput,
    CheckOutput,
    CheckTermination,
    ChildSessionStatus,
    DeclareAttemptLost,
    PromptAgent,
    RequestModel,
    RunTool,
    SummariseHistory,
    TakeHandoff,
    derive_status,
    derive_status_and_requests,
    make_plan,
)
from legato.core.workflow_graph import AgentRules, ToolRules
from tests.core.fact_builders import (
    ARGS,
    approval_check,
    call,
    decision,
    fold_facts,
    handoff_call,
    handoff_taken,
    make_graph,
    message,
    opening,
    output,
    pause,
    reply,
    start,
)

ARGS_DIGEST = digest_arguments(ARGS)
START = (opening(), message())


def plan_kinds(facts, *tools, epoch=None, resumable=(), missing=(), cancelled=(), without_child=(), **more):
    children = ChildSessionStatus(frozenset(resumable), frozenset(missing), frozenset(cancelled), frozenset(without_child))
    plan = make_plan(fold_facts(*facts), make_graph(*tools, **more), epoch, children)
    return [type(effect) for effect in plan.effects], [request.kind for request in plan.requests]


def with_reply(*items, **more):
    return (*START, reply("a", 1, *items, **more))


OPEN, CHECKED, ALONE = ToolRules("t"), ToolRules("t", needs_check=True), ToolRules("alone", alone=True)
IDEMPOTENT, DEFERRED = ToolRules("t", idempotent=True), ToolRules("t", deferred=True)

WAITS = (*with_reply(call()), start(2), pause(2))
FAILED = (*with_reply(call()), start(2), pause(2, error="503"))
OVER_BUDGET = (*with_reply(call(), call()), start(2), start(2, 1), pause(2, needed=Usage(90)), pause(2, 1, needed=Usage(90)),
               ChildUsageReported(at=1, call=CallRef(2, 0), agents=(("inner", Usage(20)),)))  # fmt: skip

PLANS = {
    "nothing before the first message": ((opening(),), (), {}, [], []),
    "a reply to a message": (START, (), {}, [RequestModel], []),
    "nothing after a reply without calls": (with_reply("x"), (), {}, [], []),
    "an open tool runs at once": (with_reply(call()), (OPEN,), {}, [RunTool], []),
    "two open tools run beside each other": (with_reply(call(), call()), (OPEN,), {}, [RunTool, RunTool], []),
    "an 'alone' tool waits for its siblings": (with_reply(call(), call("alone")), (OPEN, ALONE), {}, [RunTool], []),
    "siblings wait for an 'alone' tool": (with_reply(call("alone"), call()), (OPEN, ALONE), {}, [RunTool], []),
    "no more than the parallel limit": (with_reply(call(), call(), call()), (OPEN,), {"max_parallel_tools": 2}, [RunTool, RunTool], []),
    "a tool with an approval policy is checked before it runs": (with_reply(call()), (CHECKED,), {}, [CheckCall], []),
    "a call that needs approval waits, while its sibling runs": ((*with_reply(call("g"), call()), approval_check(2)), (ToolRules("g", needs_check=True), OPEN), {}, [RunTool], ["approval"]),
    "a call that needs no approval runs": ((*with_reply(call()), approval_check(2, needed=False)), (CHECKED,), {}, [RunTool], []),
    "an approved call runs": ((*with_reply(call()), approval_check(2), decision(2)), (CHECKED,), {}, [RunTool], []),
    "an unknown tool is answered": (with_reply(call("nope")), (OPEN,), {}, [AnswerCall], []),
    "a call that was cut short is answered": (with_reply(call(), finish="length"), (OPEN,), {}, [AnswerCall], []),
    "a deferred tool asks for its result": (with_reply(call()), (DEFERRED,), {}, [], ["result"]),
    "a handoff is taken": (with_reply(handoff_call("b")), (), {}, [TakeHandoff], []),
    "a handoff waits for its siblings": (with_reply(call(), handoff_call("b")), (OPEN,), {}, [RunTool], []),
    "after a handoff the other agent's model is requested": ((*with_reply(handoff_call("b")), handoff_taken(2, 0, "a", "b")), (), {}, [RequestModel], []),
    "an attempt of this epoch keeps running": ((*with_reply(call()), start(2, epoch=3)), (OPEN,), {"epoch": 3}, [RunTool], []),
    "an attempt of an earlier epoch is declared lost": ((*with_reply(call()), start(2, epoch=2)), (OPEN,), {"epoch": 3}, [DeclareAttemptLost], []),
    "a lost attempt asks for its outcome": ((*with_reply(call()), start(2), CallLost(at=1, call=start(2).call, attempt=1)), (OPEN,), {}, [], ["outcome"]),
    "a lost attempt of an idempotent tool starts again": ((*with_reply(call()), start(2), CallLost(at=1, call=start(2).call, attempt=1)), (IDEMPOTENT,), {}, [RunTool], []),
    "a call that waits for its child session has no request here": (WAITS, (IDEMPOTENT,), {}, [], []),
    "a paused call waits in a later epoch too, and is not lost": (WAITS, (IDEMPOTENT,), {"epoch": 9}, [], []),
    "a paused call resumes when its child session can": (WAITS, (IDEMPOTENT,), {"resumable": [RunTool(CallRef(2, 0), 2)]}, [RunTool], []),
    "a paused call resumes once, not again for an earlier attempt": ((*WAITS, start(2, attempt=2), pause(2, attempt=2)), (IDEMPOTENT,), {"resumable": [RunTool(CallRef(2, 0), 2)]}, [], []),
    "a paused call resumes although the limit of calls is reached, because it is counted already": (WAITS, (IDEMPOTENT,), {"resumable": [RunTool(CallRef(2, 0), 2)], "limits": Limits(tool_calls=1)}, [RunTool], []),
    "a missing child session is declared lost": (WAITS, (IDEMPOTENT,), {"epoch": 1, "missing": [CallRef(2, 0)]}, [DeclareAttemptLost], []),
    "a missing child session needs a driver, to be declared lost": (WAITS, (IDEMPOTENT,), {"missing": [CallRef(2, 0)]}, [DeclareAttemptLost], []),
    "a call whose child session is missing asks for its outcome": ((*WAITS, CallLost(at=1, call=CallRef(2, 0), attempt=1, missing=True)), (IDEMPOTENT,), {}, [], ["outcome"]),
    "a missing child session starts again when a person approves": ((*WAITS, CallLost(at=1, call=CallRef(2, 0), attempt=1, missing=True), decision(2, kind="outcome")), (IDEMPOTENT,), {}, [RunTool], []),
    "a failed child session is not tried again by itself": (FAILED, (IDEMPOTENT,), {}, [], []),
    "a child session over budget asks once": (OVER_BUDGET, (IDEMPOTENT,), {"limits": Limits(tokens=100)}, [], ["limit"]),
    "a child session within its budget goes on": (OVER_BUDGET, (IDEMPOTENT,), {"limits": Limits(tokens=1000), "resumable": [RunTool(CallRef(2, 0), 2), RunTool(CallRef(2, 1), 2)]}, [RunTool, RunTool], []),
    "a refused budget abandons the child session": ((*OVER_BUDGET, decision(0, kind="limit", limit="tokens", verdict="reject", digest="")), (IDEMPOTENT,), {"limits": Limits(tokens=100)}, [AbandonCall, AbandonCall], []),
    "a sibling runs while a call waits for its child session": ((*with_reply(call(), call("o")), start(2), pause(2)), (IDEMPOTENT, ToolRules("o")), {}, [RunTool], []),
    "a handoff waits for a paused call": ((*with_reply(call(), handoff_call("b")), start(2), pause(2)), (IDEMPOTENT,), {}, [], []),
    "a message leaves a paused call waiting": ((*WAITS, message()), (IDEMPOTENT,), {}, [], []),
    "a message abandons a paused call if messages supersede": ((*WAITS, message()), (IDEMPOTENT,), {"supersedes_pending": True}, [AbandonCall], []),
    "a message abandons a call whose child session was cancelled for it": ((*WAITS, message()), (IDEMPOTENT,), {"supersedes_pending": True, "resumable": [RunTool(CallRef(2, 0), 2)], "cancelled": [CallRef(2, 0)]}, [AbandonCall], []),
    "a call resumes whose child session was cancelled": (WAITS, (IDEMPOTENT,), {"resumable": [RunTool(CallRef(2, 0), 2)], "cancelled": [CallRef(2, 0)]}, [RunTool], []),
    "a message does not abandon a call that can resume": ((*WAITS, message()), (IDEMPOTENT,), {"supersedes_pending": True, "resumable": [RunTool(CallRef(2, 0), 2)]}, [RunTool], []),
    "a cancel answers a paused call": ((*WAITS, Cancelled(at=1)), (IDEMPOTENT,), {}, [AnswerCall], []),
    "a refused limit lets a paused call finish": ((*WAITS, decision(0, kind="limit", limit="turns", verdict="reject", digest="")), (IDEMPOTENT,), {"resumable": [RunTool(CallRef(2, 0), 2)]}, [RunTool], []),
    "a paused call is answered if its tool was removed": (WAITS, (), {}, [AnswerCall], []),
    "a cancelled batch is answered": ((*with_reply(call(), call()), start(2, 0), Cancelled(at=1)), (OPEN,), {}, [AnswerCall, AnswerCall], []),
    "a message leaves pending calls pending": ((*with_reply(call()), approval_check(2), message()), (CHECKED,), {}, [], ["approval"]),
    "a message supersedes pending calls if the workflow says so": ((*with_reply(call()), approval_check(2), message()), (CHECKED,), {"supersedes_pending": True}, [AnswerCall], []),
    "termination is checked after a reply": (with_reply("x"), (), {"has_termination_condition": True}, [CheckTermination], []),
    "termination is checked once": ((*with_reply("x"), TerminationJudged(at=1, position=2)), (), {"has_termination_condition": True}, [], []),
    "termination is checked before the next model request": ((*with_reply(call()), start(2), output(2)), (OPEN,), {"has_termination_condition": True}, [CheckTermination], []),
    "nothing after the end of the conversation": ((*with_reply(handoff_call("b")), handoff_taken(2, 0, "a", "b"), TerminationJudged(at=1, position=2, stop=True)), (), {"has_termination_condition": True}, [], []),
    "a message after the end begins a new run": ((*with_reply("x"), TerminationJudged(at=1, position=2, stop=True), message()), (), {"has_termination_condition": True}, [RequestModel], []),
    "a turn limit asks": (START, (), {"limits": Limits(turns=0)}, [], ["limit"]),
    "a handoff limit asks before the handoff": (with_reply(handoff_call("b")), (), {"limits": Limits(handoffs=0)}, [], ["limit"]),
    "a tool limit asks before the tool": (with_reply(call()), (OPEN,), {"limits": Limits(tool_calls=0)}, [], ["limit"]),
    "a raised limit lets the run continue": ((*START, decision(0, kind="limit", limit="turns", digest="")), (), {"limits": Limits(turns=1)}, [RequestModel], []),
    "a refused limit answers the open calls": ((*with_reply(call()), decision(0, kind="limit", limit="tool_calls", verdict="reject", digest="")), (OPEN,), {"limits": Limits(tool_calls=0)}, [AnswerCall], []),
}


@pytest.mark.parametrize(("facts", "tools", "more", "effects", "requests"), PLANS.values(), ids=PLANS)
def test_plan_has_expected_effects(facts, tools, more, effects, requests):
    assert plan_kinds(facts, *tools, **more) == (effects, requests)


def test_standing_approval_covers_the_next_call():
    """A standing approval is applied by a decision of its own."""
    facts = (
        *with_reply(call()), approval_check(2), decision(2, standing=StandingApproval("a", "t")), start(2, digest=ARGS_DIGEST), output(2),
        reply("a", 6, call()), approval_check(7),
    )  # fmt: skip
    assert plan_kinds(facts, CHECKED) == ([ApplyStandingApproval], [])


def make_graph_with_rules(**more):
    base = make_graph(OPEN)
    rules = AgentRules("a", base.agents["a"].tools, base.agents["a"].edges, **more)
    return type(base)("w", {**base.agents, "a": rules}, "a", Limits())


def plan_effects(facts, definition):
    return [type(effect) for effect in make_plan(fold_facts(*facts), definition).effects]


def test_autonomous_agent_is_prompted_until_its_limit():
    assert plan_effects(with_reply("x"), make_graph_with_rules(autonomous=True, prompt="go on", prompt_limit=1)) == [PromptAgent]
    assert plan_effects(with_reply("x"), make_graph_with_rules(autonomous=True, prompt="go on", prompt_limit=0)) == []


def test_input_and_output_checks_surround_a_reply():
    assert plan_effects(START, make_graph_with_rules(has_input_guardrails=True)) == [CheckInput]
    assert plan_effects(with_reply("x"), make_graph_with_rules(checks_output=True)) == [CheckOutput]


def test_rejected_reply_is_retried_within_a_limit():
    facts = (*with_reply("x"), GuardrailJudged(at=1, kind="output", position=2, stop=True, reason="no"))
    assert plan_effects(facts, make_graph_with_rules(checks_output=True, output_retries=1)) == [RequestModel]
    assert make_plan(fold_facts(*facts), make_graph_with_rules(checks_output=True, output_retries=0)).requests[0].limit == "output"


def test_large_conversation_is_summarised_except_last_turns():
    facts = (opening(), message("long " * 100), reply("a", 1, "reply"), message("now"))
    due = make_plan(fold_facts(*facts), make_graph_with_rules(summarise_above=50, keep_turns=1)).effects
    assert due == [SummariseHistory("a", 2)]


STATUSES = {
    "new": (),
    "running": START,
    "waiting": with_reply("x"),
    "pending": (*with_reply(call()), approval_check(2)),
    "cancelled": (*START, Cancelled(at=1)),
}


@pytest.mark.parametrize(("name", "facts"), STATUSES.items(), ids=STATUSES)
def test_status_follows_from_the_facts(name, facts):
    assert derive_status(fold_facts(*facts), make_graph(CHECKED)) == name


def test_lost_attempt_without_child_is_declared_missing():
    begun = (*with_reply(call()), start(2, epoch=1))
    plan = make_plan(fold_facts(*begun), make_graph(IDEMPOTENT), 2, ChildSessionStatus(without_child=frozenset({RunTool(CallRef(2, 0), 1)})))
    assert plan.effects == [DeclareAttemptLost(CallRef(2, 0), 1, missing=True)]


def test_paused_attempt_is_never_declared_missing():
    """The child session was not there when the driver began. It is there now, because its call waits for it."""
    without_child = {RunTool(CallRef(2, 0), 1)}
    assert plan_kinds(WAITS, IDEMPOTENT, epoch=2, without_child=without_child) == plan_kinds(WAITS, IDEMPOTENT, epoch=2)


def test_session_is_pending_while_a_child_waits():
    """The session is pending until the child session can continue; then it is running."""
    state = fold_facts(*WAITS)
    assert derive_status(state, make_graph(IDEMPOTENT)) == "pending"
    assert derive_status_and_requests(state, make_graph(IDEMPOTENT), ChildSessionStatus(frozenset({RunTool(CallRef(2, 0), 2)}))) == ("running", [])


def test_limit_request_names_the_handoff_loop():
    facts = (
        *with_reply(handoff_call("b")), handoff_taken(2, 0, "a", "b"),
        reply("b", 3, handoff_call("a")), handoff_taken(4, 0, "b", "a"),
        reply("a", 5, handoff_call("b")),
    )  # fmt: skip
    [request] = make_plan(fold_facts(*facts), make_graph(limits=Limits(same_edge=1))).requests
    assert "a -> b 1x, b -> a 1x" in request.prompt
