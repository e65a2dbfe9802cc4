"""Copies of states: advancing a copy leaves the original unchanged, for random conversations cut at every place."""

from random import Random

import pytest

from legato.core.facts import AnyFact, CallRef, ChildUsageReported, Usage
from legato.core.state import State, fold
from legato.core.state_copy import copy_changed_reply, copy_state
from tests.core.fact_builders import approval_check, call, message, opening, output, reply, start
from tests.core.plain_state import to_plain_values
from tests.core.random_ledgers import make_random_graph, make_random_ledger


def copy_and_advance(state: State, facts) -> State:
    """Return a copy of the state, advanced by these facts."""
    copy = copy_state(state)
    for fact in facts:
        copy_changed_reply(copy, fact)
        copy.apply(fact)
    return copy


@pytest.mark.parametrize("seed", range(40))
def test_a_copy_goes_on_alone(seed: int):
    dice = Random(seed)
    facts = make_random_ledger(dice, make_random_graph(dice), 60)
    whole = to_plain_values(fold(facts))
    for cut in range(0, len(facts), 3):
        original = fold(facts[:cut])
        before = to_plain_values(original)
        assert to_plain_values(copy_and_advance(original, facts[cut:])) == whole
        assert to_plain_values(original) == before


@pytest.mark.parametrize("seed", range(10))
def test_copies_of_copies_mean_the_same(seed: int):
    dice = Random(seed)
    facts = make_random_ledger(dice, make_random_graph(dice), 60)
    states = [State()]
    for fact in facts:
        states.append(copy_and_advance(states[-1], [fact]))
    assert [to_plain_values(state) for state in states] == [to_plain_values(fold(facts[:length])) for length in range(len(states))]


LATE = output(2, late=True)
TIMED_OUT = (
    *(opening(), message(), reply("a", 1, call()), approval_check(2, needed=False), start(2), output(2, status="timeout")),
    *(reply("a", 5, "It takes long."), message("and?"), reply("a", 7, "Still.")),
)


REPORTED = ChildUsageReported(at=1, call=CallRef(2, 0), agents=(("helper", Usage(10, 5)),), turns=1)


@pytest.mark.parametrize("fact", [LATE, REPORTED], ids=["outcome", "usage"])
def test_late_news_changes_no_original(fact: AnyFact):
    state = fold(TIMED_OUT)
    whole, before = to_plain_values(fold([*TIMED_OUT, fact])), to_plain_values(state)
    assert to_plain_values(copy_and_advance(state, [fact])) == to_plain_values(copy_and_advance(state, [fact])) == whole
    assert to_plain_values(state) == before != whole


def test_history_is_shared_between_copies():
    state = fold(TIMED_OUT)
    copy = copy_state(state)
    shared = [group for group, copied in zip(state.groups, copy.groups, strict=True) if group is copied]
    assert shared == state.groups[:-1]
