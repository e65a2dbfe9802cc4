"""A copy of a state goes on, and the original stays as it is: for random conversations, cut at every place."""

from random import Random

import pytest

from legato.core.facts import AnyFact, CallRef, ChildUsageReported, Usage
from legato.core.state import State, fold
from legato.core.state_copy import copy_call, copy_state
from tests.core.ledgers import answered, call, gated, opened, returned, said, started
from tests.core.meaning import meaning
from tests.core.worlds import random_graph, random_ledger


def go_on(state: State, facts) -> State:
    """A copy of the state, advanced by these facts."""
    copy = copy_state(state)
    for fact in facts:
        copy_call(copy, fact)
        copy.apply(fact)
    return copy


@pytest.mark.parametrize("seed", range(40))
def test_a_copy_goes_on_alone(seed: int):
    dice = Random(seed)
    facts = random_ledger(dice, random_graph(dice), 60)
    whole = meaning(fold(facts))
    for cut in range(0, len(facts), 3):
        original = fold(facts[:cut])
        before = meaning(original)
        assert meaning(go_on(original, facts[cut:])) == whole
        assert meaning(original) == before


@pytest.mark.parametrize("seed", range(10))
def test_copies_of_copies_mean_the_same(seed: int):
    dice = Random(seed)
    facts = random_ledger(dice, random_graph(dice), 60)
    kept = [State()]
    for fact in facts:
        kept.append(go_on(kept[-1], [fact]))
    assert [meaning(state) for state in kept] == [meaning(fold(facts[:length])) for length in range(len(kept))]


LATE = returned(2, late=True)
TIMED_OUT = (
    *(opened(), said(), answered("a", 1, call()), gated(2, needed=False), started(2), returned(2, status="timeout")),
    *(answered("a", 5, "It takes long."), said("and?"), answered("a", 7, "Still.")),
)


REPORTED = ChildUsageReported(at=1, call=CallRef(2, 0), agents=(("helper", Usage(10, 5)),), turns=1)


@pytest.mark.parametrize("fact", [LATE, REPORTED], ids=["outcome", "usage"])
def test_late_news_changes_no_original(fact: AnyFact):
    state = fold(TIMED_OUT)
    whole, before = meaning(fold([*TIMED_OUT, fact])), meaning(state)
    assert meaning(go_on(state, [fact])) == meaning(go_on(state, [fact])) == whole
    assert meaning(state) == before != whole


def test_history_is_shared_between_copies():
    state = fold(TIMED_OUT)
    copy = copy_state(state)
    shared = [group for group, copied in zip(state.groups, copy.groups, strict=True) if group is copied]
    assert shared == state.groups[:-1]
