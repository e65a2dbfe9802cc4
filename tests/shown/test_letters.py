"""Sums over a growing conversation are what looking at all of it gives."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.core.facts import Answered, Image, Said, Text
from legato.core.frame import Frame, ToolSpec
from legato.core.groups import Group
from legato.core.history import Custom, HistorySpec, ranges
from legato.core.state import fold
from legato.core.view import visible
from legato.shown import letters
from legato.shown.letters import PICTURE, Letters, by_looking, of_frame
from tests.core.ledgers import answered, handed_off, handoff, opened, said
from tests.core.test_explaining import POLICIES
from tests.core.worlds import random_graph, random_ledger


@given(st.integers(0, 10**9))
def test_the_letters_of_a_view_are_those_of_the_groups_in_it(seed: int) -> None:
    dice = Random(seed)
    facts = random_ledger(dice, random_graph(dice), dice.randrange(4, 70))
    counted = [Letters() for _ in POLICIES]
    state = fold((), "s")
    for fact in facts:
        if isinstance(fact, Answered) and dice.random() < 0.5:
            then = fold(facts[: fact.upto + 1], "s")
            for spec, sums in zip(POLICIES, counted, strict=True):
                indexes = [index for index in range(len(visible(then, POLICIES[0], fact.agent))) if dice.random() < 0.5]
                kept = ranges(indexes) if isinstance(spec, Custom) else None
                for agent in ("a", "b"):
                    expected = by_looking(then, visible(then, spec, agent, kept))
                    assert sums.of_view(then, spec, agent, kept) == expected, (spec, agent)
        state.apply(fact)


def test_a_picture_counts_as_much_as_a_page() -> None:
    content = (Text("look"), Image(digest="d"))
    state = fold([opened(), Said(at=1, content=content)], "s")
    assert Letters().of_view(state, POLICIES[0], "a", None) == (0, 4 + PICTURE)


def test_a_frame_is_all_that_is_in_it() -> None:
    assert of_frame(Frame("a", "12345", ("678",), (ToolSpec("t", "de", "{}"),), output="{}")) == 5 + 3 + 5 + 2


@pytest.mark.parametrize("spec", POLICIES, ids=lambda spec: type(spec).__name__)
def test_a_conversation_that_is_handed_over_again_and_again_is_counted_once(spec: HistorySpec, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = 0
    inner = letters._all

    def count(group: Group) -> int:
        nonlocal counted
        counted += 1
        return inner(group)

    monkeypatch.setattr(letters, "_all", count)
    state, sums = fold([opened(), said()], "s"), Letters()
    for turn in range(200):
        agent, other = "ab" if turn % 2 else "ba"
        position = state.length
        for fact in (answered(agent, position - 1, "Well.", handoff(other)), handed_off(position, 1, agent, other)):
            state.apply(fact)
        sums.of_view(state, spec, other, ((0, len(state.groups) - 1),))
    assert counted <= 8 * len(state.groups), "so many for each group, and not for each group at each handoff"
