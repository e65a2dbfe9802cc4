"""Sums over a growing conversation are what looking at all of it gives."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from legato.core.facts import Answered, Image, Said, Text
from legato.core.frame import Frame, ToolSpec
from legato.core.history import Custom, ranges
from legato.core.state import fold
from legato.core.view import visible
from legato.shown.letters import PICTURE, Letters, by_looking, of_frame
from tests.core.ledgers import opened
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
            for spec, letters in zip(POLICIES, counted, strict=True):
                indexes = [index for index in range(len(visible(then, POLICIES[0], fact.agent))) if dice.random() < 0.5]
                kept = ranges(indexes) if isinstance(spec, Custom) else None
                for agent in ("a", "b"):
                    expected = by_looking(then, visible(then, spec, agent, kept))
                    assert letters.of_view(then, spec, agent, kept) == expected, (spec, agent)
        state.apply(fact)


def test_a_picture_counts_as_much_as_a_page() -> None:
    content = (Text("look"), Image(digest="d"))
    state = fold([opened(), Said(at=1, content=content)], "s")
    assert Letters().of_view(state, POLICIES[0], "a", None) == (0, 4 + PICTURE)


def test_a_frame_is_all_that_is_in_it() -> None:
    assert of_frame(Frame("a", "12345", ("678",), (ToolSpec("t", "de", "{}"),), output="{}")) == 5 + 3 + 5 + 2
