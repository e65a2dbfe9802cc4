"""The state machine's rules, each broken once. An illegal fact is impossible to append, and changes nothing."""

import pytest

from legato.core.digests import digest_arguments
from legato.core.facts import AgentPrompted, CallLost, Cancelled, Compacted, GuardrailJudged, Origin, Redacted, Standing
from legato.core.groups import message_of
from legato.core.history_policies import Everything
from legato.core.state import fold
from legato.core.view import visible
from legato.errors import IllegalFact
from tests.core.ledgers import (
    ARGS,
    answered,
    call,
    decided,
    folded,
    gated,
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
CALLED = (*START, answered("a", 1, call()))
GATED = (*CALLED, gated(2))
RUNNING = (*CALLED, started(2))
LOST = (*RUNNING, CallLost(at=1, call=started(2).call, attempt=1))
PAUSED = (*RUNNING, paused(2))
DONE = (*START, answered("a", 1, "hello"))

ILLEGAL = {
    "anything before Opened": ((), said()),
    "a second Opened that names no origin": (START, opened()),
    "a delivery recorded twice": ((opened(), said(key="k")), said(key="k")),
    "a reply when nobody has spoken": ((opened(),), answered("a", 0, "x")),
    "a reply while calls have no output": (CALLED, answered("a", 2, "x")),
    "a reply that nothing waits for": (DONE, answered("a", 2, "x")),
    "a reply by somebody who is not in control": ((*DONE, said(), answered("a", 3, call()), returned(4, attempt=0, status="error")), answered("b", 5, "x")),
    "a reply whose request did not see the last output": ((*RUNNING, returned(2)), answered("a", 3, "x")),
    "a reply whose request saw what had not happened": (START, answered("a", 2, "x")),
    "a reply after a cancel": ((*START, Cancelled(at=1)), answered("a", 2, "x")),
    "a reply to a request that was made before words were erased": ((*START, Redacted(at=1, positions=(1,), digests=("d",))), answered("a", 1, "x")),
    "an erasure of nothing": (START, Redacted(at=1, positions=(), digests=())),
    "an erasure of what has not happened": (START, Redacted(at=1, positions=(2,), digests=("d",))),
    "an erasure that names a fact twice": (START, Redacted(at=1, positions=(1,), digests=("d",), along=(1,))),
    "an erasure without its digests": (START, Redacted(at=1, positions=(1,), digests=())),
    "a start of a call whose arguments were erased": ((*CALLED, Redacted(at=1, positions=(2,), digests=("d",))), started(2)),
    "a gate for a call that does not exist": (START, gated(1)),
    "a gate decided twice": (GATED, gated(2)),
    "a gate with the digest of other arguments": (CALLED, gated(2, arguments='{"x": 2}')),
    "an approval of a call that is not gated": (CALLED, decided(2)),
    "an approval given twice": ((*GATED, decided(2)), decided(2)),
    "an approval for other arguments": (GATED, decided(2, digest=digest_arguments('{"x": 2}'))),
    "an answer where an approval is asked": (GATED, decided(2, kind="result", verdict="answer")),
    "an outcome of what is still running": (RUNNING, decided(2, kind="outcome")),
    "an outcome decided twice": ((*LOST, decided(2, kind="outcome")), decided(2, kind="outcome")),
    "a limit answered with an edit": (START, decided(2, kind="limit", verdict="edit")),
    "a standing approval withdrawn that was never given": (START, decided(2, kind="standing", verdict="revoke", standing=Standing("a", "t"))),
    "a start of a call that waits for approval": (GATED, started(2, digest=OK)),
    "a start with other arguments than were approved": ((*GATED, decided(2)), started(2, digest=digest_arguments("{}"))),
    "a start while another attempt is open": (RUNNING, started(2, attempt=2)),
    "a start that skips a number": (CALLED, started(2, attempt=2)),
    "a start by a driver of an epoch that is over": ((*START, answered("a", 1, call(), call()), started(2, 0, epoch=5)), started(2, 1, epoch=4)),
    "a start after a cancel": ((*CALLED, Cancelled(at=1)), started(2)),
    "an output for a call that does not exist": (START, returned(1)),
    "an output for an attempt that was never made": (CALLED, returned(2)),
    "a success without an attempt": (CALLED, returned(2, attempt=0)),
    "two outputs of one attempt": ((*RUNNING, returned(2)), returned(2, late=True)),
    "a second output in time": ((*RUNNING, returned(2, status="timeout")), returned(2)),
    "an output called late that is in time": (RUNNING, returned(2, late=True)),
    "a loss of what was never started": (CALLED, CallLost(at=1, call=started(2).call, attempt=1)),
    "a pause of what was never started": (CALLED, paused(2)),
    "a pause of what is paused": (PAUSED, paused(2)),
    "a pause of what is lost": (LOST, paused(2)),
    "a pause of what has returned": ((*RUNNING, returned(2)), paused(2)),
    "a pause of an earlier attempt": ((*PAUSED, started(2, attempt=2)), paused(2)),
    "a loss of what is paused": (PAUSED, CallLost(at=1, call=started(2).call, attempt=1)),
    "an output of an attempt that paused": (PAUSED, returned(2)),
    "a late output of an attempt that paused": ((*PAUSED, started(2, attempt=2), returned(2, attempt=2)), returned(2, late=True)),
    "an approval of a call that waits for another conversation": (PAUSED, decided(2)),
    "an outcome of a call that waits for another conversation": (PAUSED, decided(2, kind="outcome")),
    "a start of a waiting call with the number it had": (PAUSED, started(2)),
    "a start of a waiting call that was cancelled": ((*PAUSED, Cancelled(at=1)), started(2, attempt=2)),
    "a start of a waiting call with other arguments than were approved": ((*GATED, decided(2), started(2, digest=OK), paused(2)), started(2, attempt=2)),
    "a reply while a call waits for another conversation": (PAUSED, answered("a", 4, "x")),
    "a handoff while a sibling waits for another conversation": ((*START, answered("a", 1, call(), handoff("b")), started(2, 0), paused(2, 0)), handed_off(2, 1, "a", "b")),
    "a handoff while a sibling runs": ((*START, answered("a", 1, call(), handoff("b")), started(2, 0)), handed_off(2, 1, "a", "b")),
    "a handoff by somebody who is not in control": ((*START, answered("a", 1, handoff("b"))), handed_off(2, 0, "b", "a")),
    "a handoff that waits for approval": ((*START, answered("a", 1, handoff("b")), gated(2, arguments="{}")), handed_off(2, 0, "a", "b")),
    "a prompt while the user's message waits": (START, AgentPrompted(at=1, agent="a", text="go on")),
    "a prompt after calls": ((*RUNNING, returned(2)), AgentPrompted(at=1, agent="a", text="go on")),
    "a prompt to somebody who is not in control": (DONE, AgentPrompted(at=1, agent="b", text="go on")),
    "a verdict about an older reply": (DONE, GuardrailJudged(at=1, kind="termination", position=1)),
    "a verdict given twice": ((*DONE, GuardrailJudged(at=1, kind="termination", position=2)), GuardrailJudged(at=1, kind="termination", position=2)),
    "a verdict about a message that a reply has seen": (DONE, GuardrailJudged(at=1, kind="input", position=1)),
    "a summary of what has not happened": (DONE, Compacted(at=1, agent="a", upto=3, summary="x")),
    "a summary that goes back": ((*DONE, Compacted(at=1, agent="a", upto=2, summary="x")), Compacted(at=1, agent="a", upto=1, summary="y")),
}


@pytest.mark.parametrize(("before", "fact"), ILLEGAL.values(), ids=ILLEGAL)
def test_is_refused_and_changes_nothing(before, fact):
    state = folded(*before)
    shown = repr(state.groups), repr(state.tail), state.length, state.active, state.batch and repr(state.batch)
    with pytest.raises(IllegalFact) as refusal:
        state.apply(fact)
    assert type(fact).__name__ in str(refusal.value), "the error names the fact"
    assert "position" in str(refusal.value), "and the state"
    assert (repr(state.groups), repr(state.tail), state.length, state.active, state.batch and repr(state.batch)) == shown


def seen(state):
    return [str(message_of(entry)) for group in visible(state, Everything(), "a") for entry in group.entries]


def test_a_message_that_came_while_the_model_was_thinking_follows_its_reply():
    state = folded(opened(), said("first"), said("second"), answered("a", 1, "to the first"))
    assert seen(state) == ["user: first", "a: to the first", "user: second"]
    assert state.awaits_reply


def test_a_message_that_came_while_a_call_was_pending_follows_the_whole_batch():
    state = folded(*GATED, said("wait"), decided(2), started(2, digest=OK), returned(2))
    assert seen(state) == ["user: hi", f"a: [t({ARGS})]", "t: out", "user: wait"]


def test_an_outcome_that_comes_after_all_answers_a_lost_call():
    state = folded(*LOST, returned(2, output="it worked"))
    assert seen(state)[-1] == "t: it worked"
    assert not state.batch


def test_an_outcome_that_comes_after_a_person_decided_is_late_and_kept_for_people():
    state = folded(*LOST, decided(2, kind="outcome", verdict="answer", output="the bank says yes"), returned(2, late=True))
    assert seen(state)[-1] == "t: the bank says yes"
    assert [late.output for late in state.late] == ["out"]


def test_a_timed_out_call_is_answered_once_and_its_late_outcome_is_kept():
    state = folded(*RUNNING, returned(2, status="timeout", output="may have taken effect"), returned(2, late=True))
    assert seen(state)[-1] == "t: may have taken effect"
    assert len(state.late) == 1


def test_a_call_that_waited_goes_on_as_another_attempt_of_the_same_call():
    state = folded(*PAUSED, started(2, attempt=2), paused(2, attempt=2), started(2, attempt=3), returned(2, attempt=3))
    assert seen(state) == ["user: hi", f"a: [t({ARGS})]", "t: out"]
    assert state.tally.tool_calls == 1  # however often it had to wait


def test_a_call_that_waits_waits_in_a_fork_too():
    state = folded(*PAUSED, opened(origin=Origin("parent", len(PAUSED))))
    assert state.batch[0].paused.session == "s/key"
    assert not state.batch[0].running


def test_a_fork_renames_requests_voids_standing_approvals_and_owns_no_attempt():
    approved = decided(2, standing=Standing("a", "t"))
    before = (*GATED, approved, started(2, epoch=7, digest=OK))
    state = folded(*before, opened(origin=Origin("parent", len(before))))
    assert not state.standing
    assert state.batch[0].running.epoch == 0
    assert state.epoch == 0


def test_the_key_of_a_call_is_that_of_the_ledger_it_was_recorded_in():
    fork = opened(origin=Origin("parent", 3)).__class__(at=1, ledger="fork", workflow="w", origin=Origin("parent", 3))
    state = folded(*CALLED, fork)
    assert state.name_at(2) == "aaaabbbbccccdddd"
    assert state.name_at(4) == "fork"


def test_folding_at_once_and_step_by_step_is_the_same():
    facts = (*GATED, said("more"), decided(2), started(2, digest=OK), returned(2), answered("a", 7, "done"))
    state = fold((), "s")
    for fact in facts:
        state.apply(fact)
    assert seen(state) == seen(folded(*facts))
