"""What is owed, decided by the state and the graph alone."""

import pytest

from legato.core.digests import digest_arguments
from legato.core.facts import CallLost, CallRef, Cancelled, ChildUsageReported, GuardrailJudged, Standing, Usage
from legato.core.planner import (
    Admit,
    AdmitStanding,
    Answer,
    CallModel,
    ChildStatus,
    DeclareLost,
    GiveUp,
    HandOver,
    JudgeInput,
    JudgeOutput,
    JudgeTermination,
    Prompt,
    RunTool,
    Summarise,
    plan,
    resting,
    status,
)
from legato.core.workflow_graph import AgentRules, Limits, ToolRules
from tests.core.ledgers import (
    ARGS,
    answered,
    call,
    decided,
    folded,
    gated,
    graph,
    handed_off,
    handoff,
    opened,
    paused,
    returned,
    said,
    started,
)

OK = digest_arguments(ARGS)
START = (opened(), said())


def kinds(facts, *tools, epoch=None, awake=(), missing=(), cancelled=(), **more):
    children = ChildStatus(frozenset(awake), frozenset(missing), frozenset(cancelled))
    now = plan(folded(*facts), graph(*tools, **more), epoch, children)
    return [type(effect) for effect in now.effects], [request.kind for request in now.requests]


def replied(*items, **more):
    return (*START, answered("a", 1, *items, **more))


OPEN, GATE, ALONE = ToolRules("t"), ToolRules("t", admission=True), ToolRules("alone", alone=True)
SAFE, LATER = ToolRules("t", idempotent=True), ToolRules("t", deferred=True)

WAITS = (*replied(call()), started(2), paused(2))
FAILED = (*replied(call()), started(2), paused(2, error="503"))
OVER_BUDGET = (*replied(call(), call()), started(2), started(2, 1), paused(2, needed=Usage(90)), paused(2, 1, needed=Usage(90)),
               ChildUsageReported(at=1, call=CallRef(2, 0), agents=(("inner", Usage(20)),)))  # fmt: skip

OWED = {
    "nothing, when nobody has spoken": ((opened(),), (), {}, [], []),
    "a reply to a message": (START, (), {}, [CallModel], []),
    "nothing after a reply without calls": (replied("x"), (), {}, [], []),
    "an open tool runs at once": (replied(call()), (OPEN,), {}, [RunTool], []),
    "two open tools run beside each other": (replied(call(), call()), (OPEN,), {}, [RunTool, RunTool], []),
    "an 'alone' tool waits for its siblings": (replied(call(), call("alone")), (OPEN, ALONE), {}, [RunTool], []),
    "siblings wait for an 'alone' tool": (replied(call("alone"), call()), (OPEN, ALONE), {}, [RunTool], []),
    "no more than the parallel limit": (replied(call(), call(), call()), (OPEN,), {"parallel_tools": 2}, [RunTool, RunTool], []),
    "a gate is judged before a call runs": (replied(call()), (GATE,), {}, [Admit], []),
    "a gated call asks, while its open sibling runs": ((*replied(call("g"), call()), gated(2)), (ToolRules("g", admission=True), OPEN), {}, [RunTool], ["approval"]),
    "a call that was judged open runs": ((*replied(call()), gated(2, needed=False)), (GATE,), {}, [RunTool], []),
    "an approved call runs": ((*replied(call()), gated(2), decided(2)), (GATE,), {}, [RunTool], []),
    "an unknown tool is answered": (replied(call("nope")), (OPEN,), {}, [Answer], []),
    "a call that was cut short is answered": (replied(call(), finish="length"), (OPEN,), {}, [Answer], []),
    "a deferred tool asks for its result": (replied(call()), (LATER,), {}, [], ["result"]),
    "a handoff is taken": (replied(handoff("b")), (), {}, [HandOver], []),
    "a handoff waits for its siblings": (replied(call(), handoff("b")), (OPEN,), {}, [RunTool], []),
    "after a handoff the other agent is asked": ((*replied(handoff("b")), handed_off(2, 0, "a", "b")), (), {}, [CallModel], []),
    "an attempt of this epoch goes on": ((*replied(call()), started(2, epoch=3)), (OPEN,), {"epoch": 3}, [RunTool], []),
    "an attempt of an earlier epoch is declared lost": ((*replied(call()), started(2, epoch=2)), (OPEN,), {"epoch": 3}, [DeclareLost], []),
    "a lost attempt asks for its outcome": ((*replied(call()), started(2), CallLost(at=1, call=started(2).call, attempt=1)), (OPEN,), {}, [], ["outcome"]),
    "a lost attempt of an idempotent tool starts again": ((*replied(call()), started(2), CallLost(at=1, call=started(2).call, attempt=1)), (SAFE,), {}, [RunTool], []),
    "a call that waits for another conversation asks nobody here": (WAITS, (SAFE,), {}, [], []),
    "it waits in a later epoch too, and is not lost": (WAITS, (SAFE,), {"epoch": 9}, [], []),
    "it goes on when that conversation can": (WAITS, (SAFE,), {"awake": [RunTool(CallRef(2, 0), 2)]}, [RunTool], []),
    "it goes on once, and not for having gone on before": ((*WAITS, started(2, attempt=2), paused(2, attempt=2)), (SAFE,), {"awake": [RunTool(CallRef(2, 0), 2)]}, [], []),
    "it goes on although the limit of calls is reached, as it is no other call": (WAITS, (SAFE,), {"awake": [RunTool(CallRef(2, 0), 2)], "limits": Limits(tool_calls=1)}, [RunTool], []),
    "a missing child session is declared lost": (WAITS, (SAFE,), {"epoch": 1, "missing": [CallRef(2, 0)]}, [DeclareLost], []),
    "a missing child session needs a driver, to be declared lost": (WAITS, (SAFE,), {"missing": [CallRef(2, 0)]}, [DeclareLost], []),
    "a call whose child session is missing asks for its outcome": ((*WAITS, CallLost(at=1, call=CallRef(2, 0), attempt=1, missing=True)), (SAFE,), {}, [], ["outcome"]),
    "it starts again when a person says so": ((*WAITS, CallLost(at=1, call=CallRef(2, 0), attempt=1, missing=True), decided(2, kind="outcome")), (SAFE,), {}, [RunTool], []),
    "a failed child session is not tried again by itself": (FAILED, (SAFE,), {}, [], []),
    "a child session over budget asks once": (OVER_BUDGET, (SAFE,), {"limits": Limits(tokens=100)}, [], ["limit"]),
    "a child session within its budget goes on": (OVER_BUDGET, (SAFE,), {"limits": Limits(tokens=1000), "awake": [RunTool(CallRef(2, 0), 2), RunTool(CallRef(2, 1), 2)]}, [RunTool, RunTool], []),
    "a budget that was refused gives the child session up": ((*OVER_BUDGET, decided(0, kind="limit", limit="tokens", verdict="reject", digest="")), (SAFE,), {"limits": Limits(tokens=100)}, [GiveUp, GiveUp], []),
    "its sibling runs while it waits": ((*replied(call(), call("o")), started(2), paused(2)), (SAFE, ToolRules("o")), {}, [RunTool], []),
    "a handoff waits for it": ((*replied(call(), handoff("b")), started(2), paused(2)), (SAFE,), {}, [], []),
    "a message leaves it waiting": ((*WAITS, said()), (SAFE,), {}, [], []),
    "a message gives it up where messages supersede": ((*WAITS, said()), (SAFE,), {"supersede": True}, [GiveUp], []),
    "a message gives up what was cancelled for it": ((*WAITS, said()), (SAFE,), {"supersede": True, "awake": [RunTool(CallRef(2, 0), 2)], "cancelled": [CallRef(2, 0)]}, [GiveUp], []),
    "a call goes on whose child session was cancelled": (WAITS, (SAFE,), {"awake": [RunTool(CallRef(2, 0), 2)], "cancelled": [CallRef(2, 0)]}, [RunTool], []),
    "a message does not give up what can go on": ((*WAITS, said()), (SAFE,), {"supersede": True, "awake": [RunTool(CallRef(2, 0), 2)]}, [RunTool], []),
    "a cancel answers it": ((*WAITS, Cancelled(at=1)), (SAFE,), {}, [Answer], []),
    "a limit that was refused lets it come to its end": ((*WAITS, decided(0, kind="limit", limit="turns", verdict="reject", digest="")), (SAFE,), {"awake": [RunTool(CallRef(2, 0), 2)]}, [RunTool], []),
    "it is answered if its tool is gone": (WAITS, (), {}, [Answer], []),
    "a cancelled batch is answered": ((*replied(call(), call()), started(2, 0), Cancelled(at=1)), (OPEN,), {}, [Answer, Answer], []),
    "a message leaves pending calls pending": ((*replied(call()), gated(2), said()), (GATE,), {}, [], ["approval"]),
    "a message supersedes pending calls where the workflow says so": ((*replied(call()), gated(2), said()), (GATE,), {"supersede": True}, [Answer], []),
    "termination is judged after a reply": (replied("x"), (), {"judges_termination": True}, [JudgeTermination], []),
    "termination is judged once": ((*replied("x"), GuardrailJudged(at=1, kind="termination", position=2)), (), {"judges_termination": True}, [], []),
    "termination is judged before the next call of a model": ((*replied(call()), started(2), returned(2)), (OPEN,), {"judges_termination": True}, [JudgeTermination], []),
    "after the end nothing is owed": ((*replied(handoff("b")), handed_off(2, 0, "a", "b"), GuardrailJudged(at=1, kind="termination", position=2, stop=True)), (), {"judges_termination": True}, [], []),
    "a message after the end begins a new run": ((*replied("x"), GuardrailJudged(at=1, kind="termination", position=2, stop=True), said()), (), {"judges_termination": True}, [CallModel], []),
    "a turn limit asks": (START, (), {"limits": Limits(turns=0)}, [], ["limit"]),
    "a handoff limit asks before the handoff": (replied(handoff("b")), (), {"limits": Limits(handoffs=0)}, [], ["limit"]),
    "a tool limit asks before the tool": (replied(call()), (OPEN,), {"limits": Limits(tool_calls=0)}, [], ["limit"]),
    "a limit that was raised lets go on": ((*START, decided(0, kind="limit", limit="turns", digest="")), (), {"limits": Limits(turns=1)}, [CallModel], []),
    "a limit that was refused answers what is open": ((*replied(call()), decided(0, kind="limit", limit="tool_calls", verdict="reject", digest="")), (OPEN,), {"limits": Limits(tool_calls=0)}, [Answer], []),
}


@pytest.mark.parametrize(("facts", "tools", "more", "effects", "requests"), OWED.values(), ids=OWED)
def test_owed(facts, tools, more, effects, requests):
    assert kinds(facts, *tools, **more) == (effects, requests)


def test_a_standing_approval_admits_the_next_call_by_a_decision_of_its_own():
    facts = (
        *replied(call()), gated(2), decided(2, standing=Standing("a", "t")), started(2, digest=OK), returned(2),
        answered("a", 6, call()), gated(7),
    )  # fmt: skip
    assert kinds(facts, GATE) == ([AdmitStanding], [])


def with_rules(**more):
    base = graph(OPEN)
    rules = AgentRules("a", base.agents["a"].tools, base.agents["a"].edges, **more)
    return type(base)("w", {**base.agents, "a": rules}, "a", Limits())


def effects(facts, definition):
    return [type(effect) for effect in plan(folded(*facts), definition).effects]


def test_an_autonomous_agent_is_prompted_until_its_limit_then_the_user_is_asked():
    assert effects(replied("x"), with_rules(autonomous=True, prompt="go on", prompt_limit=1)) == [Prompt]
    assert effects(replied("x"), with_rules(autonomous=True, prompt="go on", prompt_limit=0)) == []


def test_input_is_judged_before_and_output_after_a_reply():
    assert effects(START, with_rules(judges_input=True)) == [JudgeInput]
    assert effects(replied("x"), with_rules(judges_output=True)) == [JudgeOutput]


def test_a_reply_that_was_not_accepted_is_asked_for_again_a_bounded_number_of_times():
    facts = (*replied("x"), GuardrailJudged(at=1, kind="output", position=2, stop=True, words="no"))
    assert effects(facts, with_rules(judges_output=True, output_retries=1)) == [CallModel]
    assert plan(folded(*facts), with_rules(judges_output=True, output_retries=0)).requests[0].limit == "output"


def test_a_conversation_that_has_grown_too_large_is_summarised_but_for_the_last_turns():
    facts = (opened(), said("long " * 100), answered("a", 1, "reply"), said("now"))
    due = plan(folded(*facts), with_rules(summarise_above=50, keep_turns=1)).effects
    assert due == [Summarise("a", 2)]


STATUSES = {
    "new": (),
    "running": START,
    "waiting": replied("x"),
    "pending": (*replied(call()), gated(2)),
    "cancelled": (*START, Cancelled(at=1)),
}


@pytest.mark.parametrize(("name", "facts"), STATUSES.items(), ids=STATUSES)
def test_status(name, facts):
    assert status(folded(*facts), graph(GATE)) == name


def test_a_session_in_which_a_call_waits_for_another_conversation_is_pending_until_that_can_go_on():
    state = folded(*WAITS)
    assert status(state, graph(SAFE)) == "pending"
    assert resting(state, graph(SAFE), ChildStatus(frozenset({RunTool(CallRef(2, 0), 2)}))) == ("running", [])


def test_a_limit_says_which_loop_it_saw():
    facts = (
        *replied(handoff("b")), handed_off(2, 0, "a", "b"),
        answered("b", 3, handoff("a")), handed_off(4, 0, "b", "a"),
        answered("a", 5, handoff("b")),
    )  # fmt: skip
    [request] = plan(folded(*facts), graph(limits=Limits(same_edge=1))).requests
    assert "a -> b 1x, b -> a 1x" in request.prompt
