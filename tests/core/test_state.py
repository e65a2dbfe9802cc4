"""The rules of the state machine, each broken once. An illegal fact cannot be appended, and changes nothing."""

import pytest

from legato.core.digests import digest_arguments
from legato.core.facts import (
    AgentPrompted,
    CallLost,
    Cancelled,
    ChildUsageReported,
    Compacted,
    GuardrailJudged,
    Origin,
    Redacted,
    StandingApproval,
    TerminationJudged,
    Usage,
)
from legato.core.groups import to_message
from legato.core.history_policies import Everything
from legato.core.state import fold
from legato.core.view import select_groups
from legato.errors import IllegalFact
from tests.core.fact_builders import (
    ARGS,
    approval_check,
    call,
    decision,
    fold_facts,
    handoff_call,
    handoff_taken,
    message,
    opening,
    output,
    pause,
    reply,
    start,
)

ARGS_DIGEST = digest_arguments(ARGS)
START = (opening(), message())
CALLED = (*START, reply("a", 1, call()))
NEEDS_APPROVAL = (*CALLED, approval_check(2))
RUNNING = (*CALLED, start(2))
LOST = (*RUNNING, CallLost(at=1, call=start(2).call, attempt=1))
PAUSED = (*RUNNING, pause(2))


def usage_report(tokens, turns=1):
    return ChildUsageReported(at=1, call=start(2).call, agents=(("inner", Usage(tokens)),), turns=turns)


DONE = (*START, reply("a", 1, "hello"))

ILLEGAL = {
    "anything before Opened": ((), message()),
    "a second Opened that names no origin": (START, opening()),
    "a delivery recorded twice": ((opening(), message(key="k")), message(key="k")),
    "a reply before the first message": ((opening(),), reply("a", 0, "x")),
    "a reply while calls have no output": (CALLED, reply("a", 2, "x")),
    "a reply that nothing waits for": (DONE, reply("a", 2, "x")),
    "a reply by an agent that is not active": ((*DONE, message(), reply("a", 3, call()), output(4, attempt=0, status="error")), reply("b", 5, "x")),
    "a reply whose request did not include the last output": ((*RUNNING, output(2)), reply("a", 3, "x")),
    "a reply whose request included a later position": (START, reply("a", 2, "x")),
    "a reply after a cancel": ((*START, Cancelled(at=1)), reply("a", 2, "x")),
    "a reply to a request that was made before a redaction": ((*START, Redacted(at=1, positions=(1,), digests=("d",))), reply("a", 1, "x")),
    "a redaction of nothing": (START, Redacted(at=1, positions=(), digests=())),
    "a redaction of a later position": (START, Redacted(at=1, positions=(2,), digests=("d",))),
    "a redaction that names a fact twice": (START, Redacted(at=1, positions=(1,), digests=("d",), derived=(1,))),
    "a redaction without its digests": (START, Redacted(at=1, positions=(1,), digests=())),
    "a start of a call whose arguments were erased": ((*CALLED, Redacted(at=1, positions=(2,), digests=("d",))), start(2)),
    "an approval check of a call that does not exist": (START, approval_check(1)),
    "a second approval check of a call": (NEEDS_APPROVAL, approval_check(2)),
    "an approval check with the digest of other arguments": (CALLED, approval_check(2, arguments='{"x": 2}')),
    "an approval of a call that needs none": (CALLED, decision(2)),
    "a second approval of a call": ((*NEEDS_APPROVAL, decision(2)), decision(2)),
    "an approval for other arguments": (NEEDS_APPROVAL, decision(2, digest=digest_arguments('{"x": 2}'))),
    "a result for a call that needs approval": (NEEDS_APPROVAL, decision(2, kind="result", verdict="answer")),
    "an outcome of a running attempt": (RUNNING, decision(2, kind="outcome")),
    "an outcome decided twice": ((*LOST, decision(2, kind="outcome")), decision(2, kind="outcome")),
    "a limit answered with an edit": (START, decision(2, kind="limit", verdict="edit")),
    "a withdrawal of a standing approval that does not exist": (START, decision(2, kind="standing", verdict="revoke", standing=StandingApproval("a", "t"))),
    "a start of a call that waits for approval": (NEEDS_APPROVAL, start(2, digest=ARGS_DIGEST)),
    "a start with other arguments than were approved": ((*NEEDS_APPROVAL, decision(2)), start(2, digest=digest_arguments("{}"))),
    "a start while another attempt is open": (RUNNING, start(2, attempt=2)),
    "a start that skips a number": (CALLED, start(2, attempt=2)),
    "a start by a driver of an earlier epoch": ((*START, reply("a", 1, call(), call()), start(2, 0, epoch=5)), start(2, 1, epoch=4)),
    "a start after a cancel": ((*CALLED, Cancelled(at=1)), start(2)),
    "an output for a call that does not exist": (START, output(1)),
    "an output for an attempt that was never made": (CALLED, output(2)),
    "a success without an attempt": (CALLED, output(2, attempt=0)),
    "two outputs of one attempt": ((*RUNNING, output(2)), output(2, late=True)),
    "a second output in time": ((*RUNNING, output(2, status="timeout")), output(2)),
    "an output in time that says it is late": (RUNNING, output(2, late=True)),
    "a loss of a call that was never started": (CALLED, CallLost(at=1, call=start(2).call, attempt=1)),
    "a pause of a call that was never started": (CALLED, pause(2)),
    "a pause of a paused attempt": (PAUSED, pause(2)),
    "a pause of a lost attempt": (LOST, pause(2)),
    "a pause of an answered call": ((*RUNNING, output(2)), pause(2)),
    "a pause of an earlier attempt": ((*PAUSED, start(2, attempt=2)), pause(2)),
    "a loss of a paused attempt": (PAUSED, CallLost(at=1, call=start(2).call, attempt=1)),
    "an output of an attempt that paused": (PAUSED, output(2)),
    "a usage report with fewer tokens than the latest": ((*RUNNING, usage_report(20)), usage_report(10)),
    "a usage report with fewer turns than the latest": ((*RUNNING, usage_report(20, turns=2)), usage_report(20)),
    "a late output of an attempt that paused": ((*PAUSED, start(2, attempt=2), output(2, attempt=2)), output(2, late=True)),
    "an approval of a call that waits for its child session": (PAUSED, decision(2)),
    "an outcome of a call that waits for its child session": (PAUSED, decision(2, kind="outcome")),
    "a start of a paused call with its old number": (PAUSED, start(2)),
    "a start of a paused call that was cancelled": ((*PAUSED, Cancelled(at=1)), start(2, attempt=2)),
    "a start of a paused call with other arguments than were approved": ((*NEEDS_APPROVAL, decision(2), start(2, digest=ARGS_DIGEST), pause(2)), start(2, attempt=2)),
    "a reply while a call waits for its child session": (PAUSED, reply("a", 4, "x")),
    "a handoff while a sibling waits for its child session": ((*START, reply("a", 1, call(), handoff_call("b")), start(2, 0), pause(2, 0)), handoff_taken(2, 1, "a", "b")),
    "a handoff while a sibling runs": ((*START, reply("a", 1, call(), handoff_call("b")), start(2, 0)), handoff_taken(2, 1, "a", "b")),
    "a handoff by an agent that is not active": ((*START, reply("a", 1, handoff_call("b"))), handoff_taken(2, 0, "b", "a")),
    "a handoff that waits for approval": ((*START, reply("a", 1, handoff_call("b")), approval_check(2, arguments="{}")), handoff_taken(2, 0, "a", "b")),
    "a prompt while the user's message waits": (START, AgentPrompted(at=1, agent="a", text="go on")),
    "a prompt after calls": ((*RUNNING, output(2)), AgentPrompted(at=1, agent="a", text="go on")),
    "a prompt to an agent that is not active": (DONE, AgentPrompted(at=1, agent="b", text="go on")),
    "a verdict about an older reply": (DONE, TerminationJudged(at=1, position=1)),
    "a second verdict about a reply": ((*DONE, TerminationJudged(at=1, position=2)), TerminationJudged(at=1, position=2)),
    "a verdict about a message that a reply has answered": (DONE, GuardrailJudged(at=1, kind="input", position=1)),
    "a summary of a later position": (DONE, Compacted(at=1, agent="a", upto=3, summary="x")),
    "a summary that covers less than the last one": ((*DONE, Compacted(at=1, agent="a", upto=2, summary="x")), Compacted(at=1, agent="a", upto=1, summary="y")),
}


@pytest.mark.parametrize(("before", "fact"), ILLEGAL.values(), ids=ILLEGAL)
def test_illegal_fact_is_refused_and_changes_nothing(before, fact):
    state = fold_facts(*before)
    before_fact = repr(state.groups), repr(state.new_messages), state.length, state.active_agent, state.batch and repr(state.batch)
    with pytest.raises(IllegalFact) as refusal:
        state.apply(fact)
    assert type(fact).__name__ in str(refusal.value), "the error names the fact"
    assert "position" in str(refusal.value), "and the state"
    assert (repr(state.groups), repr(state.new_messages), state.length, state.active_agent, state.batch and repr(state.batch)) == before_fact


def render_view(state):
    return [str(to_message(entry)) for group in select_groups(state, Everything(), "a") for entry in group.entries]


def test_usage_reports_of_a_branch_begin_anew():
    """The child session of a branch is forked where its call paused, and may have used less than the original has reported."""
    origin = Origin(session="s", position=6, kind="fork")
    state = fold_facts(*RUNNING, usage_report(20, turns=2), pause(2), opening(origin=origin), start(2, attempt=2), usage_report(15))
    assert state.find_call(start(2).call).child_usage == usage_report(15)


def test_message_during_a_model_request_follows_its_reply():
    state = fold_facts(opening(), message("first"), message("second"), reply("a", 1, "to the first"))
    assert render_view(state) == ["user: first", "a: to the first", "user: second"]
    assert state.awaits_reply


def test_message_during_a_pending_call_follows_the_batch():
    state = fold_facts(*NEEDS_APPROVAL, message("wait"), decision(2), start(2, digest=ARGS_DIGEST), output(2))
    assert render_view(state) == ["user: hi", f"a: [t({ARGS})]", "t: out", "user: wait"]


def test_outcome_of_a_lost_attempt_answers_the_call():
    state = fold_facts(*LOST, output(2, output="it worked"))
    assert render_view(state)[-1] == "t: it worked"
    assert not state.batch


def test_outcome_after_a_decision_is_kept_as_late():
    state = fold_facts(*LOST, decision(2, kind="outcome", verdict="answer", output="the bank says yes"), output(2, late=True))
    assert render_view(state)[-1] == "t: the bank says yes"
    assert [late.output for late in state.late_outputs] == ["out"]


def test_timed_out_call_keeps_its_late_outcome():
    state = fold_facts(*RUNNING, output(2, status="timeout", output="may have taken effect"), output(2, late=True))
    assert render_view(state)[-1] == "t: may have taken effect"
    assert len(state.late_outputs) == 1


def test_paused_call_resumes_as_another_attempt():
    state = fold_facts(*PAUSED, start(2, attempt=2), pause(2, attempt=2), start(2, attempt=3), output(2, attempt=3))
    assert render_view(state) == ["user: hi", f"a: [t({ARGS})]", "t: out"]
    assert state.run_counters.tool_calls == 1  # however often it had to wait


def test_paused_call_stays_paused_in_a_fork():
    state = fold_facts(*PAUSED, opening(origin=Origin("parent", len(PAUSED))))
    assert state.batch[0].pause.session == "s/key"
    assert not state.batch[0].open_attempt


def test_fork_voids_standing_approvals_and_open_attempts():
    approved = decision(2, standing=StandingApproval("a", "t"))
    before = (*NEEDS_APPROVAL, approved, start(2, epoch=7, digest=ARGS_DIGEST))
    state = fold_facts(*before, opening(origin=Origin("parent", len(before))))
    assert not state.standing_approvals
    assert state.batch[0].open_attempt.epoch == 0
    assert state.epoch == 0


def test_idempotency_key_uses_the_recording_ledger():
    """The idempotency key of a call contains the id of the ledger that it was recorded in."""
    fork = opening(origin=Origin("parent", 3)).__class__(at=1, ledger_id="fork", workflow="w", origin=Origin("parent", 3))
    state = fold_facts(*CALLED, fork)
    assert state.ledger_id_at(2) == "aaaabbbbccccdddd"
    assert state.ledger_id_at(4) == "fork"


def test_folding_at_once_equals_folding_step_by_step():
    facts = (*NEEDS_APPROVAL, message("more"), decision(2), start(2, digest=ARGS_DIGEST), output(2), reply("a", 7, "done"))
    state = fold((), "s")
    for fact in facts:
        state.apply(fact)
    assert render_view(state) == render_view(fold_facts(*facts))
