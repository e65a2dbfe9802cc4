"""What a fork, a copy and a moved session inherit, kind of fact by kind of fact."""

from typing import get_args, get_type_hints

import pytest

from legato.core.branch_inheritance import INHERITED, kind_of
from legato.core.digests import digest_arguments
from legato.core.facts import AnyFact, CallLost, ConversationClaimed, Decided, Origin, Standing
from legato.core.planner import RunTool, plan
from legato.core.workflow_graph import Limits, ToolRules
from tests.core.ledgers import ARGS, answered, call, decided, folded, gated, graph, handoff, opened, returned, said, started

OK = digest_arguments(ARGS)
GATE, OPEN, LATER = ToolRules("t", admission=True), ToolRules("t"), ToolRules("t", deferred=True)
CALLED = (opened(), said(), answered("a", 1, call()))
GATED = (*CALLED, gated(2))
LOST = (*CALLED, started(2), CallLost(at=1, call=started(2).call, attempt=1))


def branch(facts, kind="fork"):
    return folded(*facts, opened(origin=Origin("parent", len(facts), kind)))


def asked(state, *tools, **more):
    return [request.kind for request in plan(state, graph(*tools, **more)).requests]


def runs(state, *tools, **more):
    return [effect for effect in plan(state, graph(*tools, **more)).effects if isinstance(effect, RunTool)]


def test_table_names_every_kind_of_fact() -> None:
    kinds = {kind.__name__ for kind in get_args(AnyFact)} - {"Decided"}
    decisions = {f"Decided {kind}" for kind in get_args(get_type_hints(Decided)["kind"])}
    assert set(INHERITED) == kinds | decisions


def test_facts_find_their_row() -> None:
    assert kind_of(decided(2, kind="outcome")) == "Decided outcome"
    assert kind_of(said()) == "MessageReceived"


@pytest.mark.parametrize("kind", ["fork", "copy"])
@pytest.mark.parametrize("verdict", ["approve", "edit"])
def test_branch_asks_again_for_unused_approval(kind: str, verdict: str) -> None:
    more = {"arguments": '{"x": 2}'} if verdict == "edit" else {}
    state = branch((*GATED, decided(2, verdict=verdict, **more)), kind)
    assert asked(state, GATE) == ["approval"]
    assert not runs(state, GATE)
    assert state.batch[0].arguments == ARGS
    assert not state.batch[0].edited


@pytest.mark.parametrize("kind", ["fork", "copy"])
def test_branch_takes_no_approved_handoff(kind: str) -> None:
    facts = (opened(), said(), answered("a", 1, handoff("b")), gated(2, arguments="{}"), decided(2, digest=digest_arguments("{}")))
    assert branch(facts, kind).batch[0].approved is False


@pytest.mark.parametrize("kind", ["fork", "copy"])
def test_branch_asks_again_for_outcome(kind: str) -> None:
    assert asked(branch((*LOST, decided(2, kind="outcome")), kind), OPEN) == ["outcome"]


@pytest.mark.parametrize("kind", ["fork", "copy"])
def test_branch_asks_before_rerunning_approved_idempotent_tool(kind: str) -> None:
    safe = ToolRules("t", admission=True, idempotent=True)
    facts = (*GATED, decided(2), started(2, digest=OK), CallLost(at=1, call=started(2).call, attempt=1))
    state = branch(facts, kind)
    assert asked(state, safe) == ["outcome"]
    state.apply(decided(2, kind="outcome"))
    assert runs(state, safe) == [RunTool(started(2).call, 2)]


@pytest.mark.parametrize("kind", ["fork", "copy"])
def test_branch_asks_again_for_granted_limit(kind: str) -> None:
    facts = (opened(), said(), decided(0, kind="limit", limit="turns", digest=""))
    assert asked(branch(facts, kind), OPEN, limits=Limits(turns=0)) == ["limit"]


def test_branch_keeps_refused_limit() -> None:
    facts = (opened(), said(), decided(0, kind="limit", limit="turns", verdict="reject", digest=""))
    assert branch(facts).halt == "limit"


@pytest.mark.parametrize("kind", ["fork", "copy"])
def test_branch_has_no_standing_approvals(kind: str) -> None:
    assert not branch((*GATED, decided(2, standing=Standing("a", "t"))), kind).standing


def test_branch_keeps_supplied_result() -> None:
    state = branch((*CALLED, decided(2, kind="result", verdict="answer", output="42")))
    assert state.reply.complete


def test_branch_keeps_message_keys_and_drops_decision_keys() -> None:
    state = branch((opened(), said(key="m"), answered("a", 1, call()), gated(2), decided(2, key="d")))
    assert state.keys == {"m": 1}


def test_branch_leaves_the_provider_conversation() -> None:
    facts = (opened(), said(), ConversationClaimed(at=1, agent="a", conversation="c", upto=1), answered("a", 1, "hi", base="c"))
    assert folded(*facts).provider.ends["c"] == 3
    assert branch(facts).provider.ends["c"] < 0


def test_branch_owns_no_attempt() -> None:
    state = branch((*CALLED, started(2, epoch=7)))
    assert (state.epoch, state.batch[0].running.epoch) == (0, 0)


def test_finished_calls_stay_finished() -> None:
    state = branch((*GATED, decided(2), started(2, digest=OK), returned(2)))
    assert state.reply.complete


def test_moved_session_keeps_decisions() -> None:
    facts = (*GATED, decided(2, standing=Standing("a", "t"), key="d"))
    state = branch(facts, "move")
    assert runs(state, GATE)
    assert state.standing
    assert "d" in state.keys


def test_moved_session_owns_no_attempt() -> None:
    assert branch((*CALLED, started(2, epoch=7)), "move").batch[0].running.epoch == 0
