"""The inheritance of a fork, a copy and a moved session, for each kind of fact."""

from typing import get_args, get_type_hints

import pytest

from legato.core.branch_inheritance import INHERITANCE_RULES, find_rule_name
from legato.core.digests import digest_arguments
from legato.core.facts import AnyFact, CallLost, ConversationClaimed, Decided, Origin, StandingApproval
from legato.core.limits import Limits
from legato.core.planner import RunTool, make_plan
from legato.core.workflow_graph import ToolRules
from tests.core.fact_builders import (
    ARGS,
    approval_check,
    call,
    decision,
    fold_facts,
    handoff_call,
    make_graph,
    message,
    opening,
    output,
    reply,
    start,
)

ARGS_DIGEST = digest_arguments(ARGS)
CHECKED, OPEN, DEFERRED = ToolRules("t", needs_check=True), ToolRules("t"), ToolRules("t", deferred=True)
CALLED = (opening(), message(), reply("a", 1, call()))
NEEDS_APPROVAL = (*CALLED, approval_check(2))
LOST = (*CALLED, start(2), CallLost(at=1, call=start(2).call, attempt=1))


def fold_branch(facts, kind="fork"):
    return fold_facts(*facts, opening(origin=Origin("parent", len(facts), kind)))


def list_request_kinds(state, *tools, **more):
    return [request.kind for request in make_plan(state, make_graph(*tools, **more)).requests]


def list_runs(state, *tools, **more):
    return [effect for effect in make_plan(state, make_graph(*tools, **more)).effects if isinstance(effect, RunTool)]


def test_table_names_every_kind_of_fact() -> None:
    kinds = {kind.__name__ for kind in get_args(AnyFact)} - {"Decided"}
    decisions = {f"Decided {kind}" for kind in get_args(get_type_hints(Decided)["kind"])}
    assert set(INHERITANCE_RULES) == kinds | decisions


def test_facts_find_their_row() -> None:
    assert find_rule_name(decision(2, kind="outcome")) == "Decided outcome"
    assert find_rule_name(message()) == "MessageReceived"


@pytest.mark.parametrize("kind", ["fork", "copy"])
@pytest.mark.parametrize("verdict", ["approve", "edit"])
def test_branch_asks_again_for_unused_approval(kind: str, verdict: str) -> None:
    more = {"arguments": '{"x": 2}'} if verdict == "edit" else {}
    state = fold_branch((*NEEDS_APPROVAL, decision(2, verdict=verdict, **more)), kind)
    assert list_request_kinds(state, CHECKED) == ["approval"]
    assert not list_runs(state, CHECKED)
    assert state.batch[0].arguments == ARGS
    assert not state.batch[0].edited


@pytest.mark.parametrize("kind", ["fork", "copy"])
def test_branch_takes_no_approved_handoff(kind: str) -> None:
    facts = (opening(), message(), reply("a", 1, handoff_call("b")), approval_check(2, arguments="{}"), decision(2, digest=digest_arguments("{}")))
    assert fold_branch(facts, kind).batch[0].approved is False


@pytest.mark.parametrize("kind", ["fork", "copy"])
def test_branch_asks_again_for_outcome(kind: str) -> None:
    assert list_request_kinds(fold_branch((*LOST, decision(2, kind="outcome")), kind), OPEN) == ["outcome"]


@pytest.mark.parametrize("kind", ["fork", "copy"])
def test_branch_asks_before_rerunning_approved_idempotent_tool(kind: str) -> None:
    safe = ToolRules("t", needs_check=True, idempotent=True)
    facts = (*NEEDS_APPROVAL, decision(2), start(2, digest=ARGS_DIGEST), CallLost(at=1, call=start(2).call, attempt=1))
    state = fold_branch(facts, kind)
    assert list_request_kinds(state, safe) == ["outcome"]
    state.apply(decision(2, kind="outcome"))
    assert list_runs(state, safe) == [RunTool(start(2).call, 2)]


@pytest.mark.parametrize("kind", ["fork", "copy"])
def test_branch_asks_again_for_granted_limit(kind: str) -> None:
    facts = (opening(), message(), decision(0, kind="limit", limit="turns", digest=""))
    assert list_request_kinds(fold_branch(facts, kind), OPEN, limits=Limits(turns=0)) == ["limit"]


def test_branch_keeps_refused_limit() -> None:
    facts = (opening(), message(), decision(0, kind="limit", limit="turns", verdict="reject", digest=""))
    assert fold_branch(facts).stop_reason == "limit"


@pytest.mark.parametrize("kind", ["fork", "copy"])
def test_branch_has_no_standing_approvals(kind: str) -> None:
    assert not fold_branch((*NEEDS_APPROVAL, decision(2, standing=StandingApproval("a", "t"))), kind).standing_approvals


def test_branch_keeps_supplied_result() -> None:
    state = fold_branch((*CALLED, decision(2, kind="result", verdict="answer", output="42")))
    assert state.last_reply.is_complete


def test_branch_keeps_message_keys_and_drops_decision_keys() -> None:
    state = fold_branch((opening(), message(key="m"), reply("a", 1, call()), approval_check(2), decision(2, key="d")))
    assert state.delivery_keys == {"m": 1}


def test_branch_leaves_the_provider_conversation() -> None:
    facts = (opening(), message(), ConversationClaimed(at=1, agent="a", conversation="c", upto=1), reply("a", 1, "hi", base="c"))
    assert fold_facts(*facts).provider_conversations.ends["c"] == 3
    assert fold_branch(facts).provider_conversations.ends["c"] < 0


def test_branch_owns_no_attempt() -> None:
    state = fold_branch((*CALLED, start(2, epoch=7)))
    assert (state.epoch, state.batch[0].open_attempt.epoch) == (0, 0)


def test_finished_calls_stay_finished() -> None:
    state = fold_branch((*NEEDS_APPROVAL, decision(2), start(2, digest=ARGS_DIGEST), output(2)))
    assert state.last_reply.is_complete


def test_moved_session_keeps_decisions() -> None:
    facts = (*NEEDS_APPROVAL, decision(2, standing=StandingApproval("a", "t"), key="d"))
    state = fold_branch(facts, "move")
    assert list_runs(state, CHECKED)
    assert state.standing_approvals
    assert "d" in state.delivery_keys


def test_moved_session_owns_no_attempt() -> None:
    assert fold_branch((*CALLED, start(2, epoch=7)), "move").batch[0].open_attempt.epoch == 0
