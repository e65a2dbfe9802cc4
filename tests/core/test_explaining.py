"""Why each part of a conversation is in a request, or not."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from legato.core.explanation import explained, policy_told
from legato.core.facts import AnyFact, Call, Compacted, GuardrailJudged, HandedOff, Redacted, Refusal, Words
from legato.core.groups import Group
from legato.core.history_policies import Custom, Dialogue, Everything, HistorySpec, Last, OwnTools, SinceHandoff, Summarised, ranges
from legato.core.state import State, fold
from legato.core.view import visible
from tests.core.worlds import random_graph, random_ledger

POLICIES: list[HistorySpec] = [
    Everything(),
    Dialogue(),
    SinceHandoff(),
    Last(1),
    Last(3),
    OwnTools(),
    Summarised(20, 1),
    Custom("mine"),
]


def folded(facts: list[AnyFact]) -> State:
    return fold(facts, "s")


class Oracle:
    """What the page about policies says, read from the facts and without `view.py`."""

    def __init__(self, state: State, spec: HistorySpec, agent: str, chosen: set[int]) -> None:
        self.state, self.spec, self.agent, self.chosen = state, spec, agent, chosen
        self.order = [*state.groups, *state.tail]
        facts = state.facts
        objections = {position for position, fact in enumerate(facts) if isinstance(fact, GuardrailJudged) and fact.kind == "output" and fact.stop}
        self.rejected = {facts[position].position for position in objections}
        self.withheld: set[int] = set()
        for fact in facts:
            if isinstance(fact, GuardrailJudged) and fact.kind == "input":
                (self.withheld.add if fact.stop else self.withheld.discard)(fact.position)
        self.theirs = {group.position for group in self.order if group.position in self.rejected | objections and group.agent != agent}

    def mark(self, group: Group) -> tuple[str, str]:
        """Whether it is shown, and how the sentence begins."""
        if group in self.state.waiting:
            return "no", "waits"
        if group.position in self.withheld:
            return "no", "withheld"
        if group.position in self.theirs:
            return "no", "a reply that was not" if group.kind == "reply" else "an objection"
        facts, spec = self.state.facts, self.spec
        items = facts[group.position].items if group.kind == "reply" else ()
        calls = any(isinstance(item, Call) for item in items)
        words = "no" if not any(isinstance(item, (Words, Refusal)) for item in items) else "words" if calls else "whole"
        if group.kind != "reply":
            words = "whole"
        if isinstance(spec, Everything):
            return "whole", "everything"
        if isinstance(spec, Dialogue):
            return words, "dialogue"
        if isinstance(spec, OwnTools):
            own = group.kind in ("reply", "feedback") and group.agent == self.agent
            return ("whole" if own else words), "own_tools: this agent's own" if own else "own_tools: "
        if isinstance(spec, SinceHandoff):
            handed = [fact.call.position for fact in facts if isinstance(fact, HandedOff) and fact.target == self.agent]
            if not handed:
                return "whole", "since_handoff: nobody"
            since = next(index for index, each in enumerate(self.order) if each.position == handed[-1])
            return ("whole", "since_handoff: since") if self.order.index(group) >= since else ("no", "since_handoff: before")
        if isinstance(spec, Last):
            heard = [index for index, each in enumerate(self.order) if each.kind == "said" and each.position not in self.withheld]
            since = heard[-spec.turns] if len(heard) >= spec.turns else 0
            return ("whole", f"last({spec.turns}): within") if self.order.index(group) >= since else ("no", f"last({spec.turns}): older")
        if isinstance(spec, Summarised):
            void = {position for fact in facts if isinstance(fact, Redacted) for position in (*fact.positions, *fact.along)}
            told = [fact.upto for at, fact in enumerate(facts) if isinstance(fact, Compacted) and fact.agent == self.agent and at not in void]
            if not told:
                return "whole", "summarised: the whole"
            return ("no", "summarised: told by") if group.position <= told[-1] else ("whole", "summarised: after")
        return ("whole", "custom 'mine': chosen") if group.position in self.chosen else ("no", "custom 'mine': not")


@given(st.integers(0, 10**9))
@example(62150)  # a reply that handed over was rejected afterwards
def test_what_is_explained_is_what_is_shown_and_both_are_what_the_policy_says(seed: int) -> None:
    dice = Random(seed)
    facts = random_ledger(dice, random_graph(dice), dice.randrange(4, 70))
    state = folded(facts[: dice.randrange(1, len(facts) + 1)]) if dice.random() < 0.5 else folded(facts)
    for spec in POLICIES:
        for agent in ("a", "b", "somebody else"):
            everything = visible(state, Everything(), agent)
            indexes = [index for index in range(len(everything)) if dice.random() < 0.5]
            kept = ranges(indexes) if isinstance(spec, Custom) else None
            told = explained(state, spec, agent, kept)
            shown = [each.group if each.shown == "whole" else each.group.words() for each in told if each.shown != "no"]
            seen = visible(state, spec, agent, kept)
            assert len(shown) == len(seen)
            assert all(one is other for one, other in zip(shown, seen, strict=True)), "the very same groups, in the same order"
            assert [each.group for each in told] == [*state.groups, *state.tail, *state.waiting], "every group, once"
            oracle = Oracle(state, spec, agent, {everything[index].position for index in indexes})
            for each in told:
                mark, begins = oracle.mark(each.group)
                assert each.shown == mark, (spec, agent, each)
                assert each.rule.startswith(begins), (spec, agent, each)


def test_the_random_ledgers_have_every_reason_in_them() -> None:
    """The property above says nothing about what never happens."""
    reasons: set[tuple[str, str]] = set()
    for seed in range(120):
        dice = Random(seed)
        state = folded(random_ledger(dice, random_graph(dice), 60))
        for spec in POLICIES:
            kept = ((0, 1),) if isinstance(spec, Custom) else None
            reasons |= {(each.shown, " ".join(each.rule.split()[:2])) for each in explained(state, spec, "a", kept)}
    assert {(mark, rule) for mark, rule in reasons} >= {
        ("whole", "everything: the"),
        ("whole", "dialogue: words"),
        ("words", "dialogue: only"),
        ("no", "dialogue: only"),
        ("no", "since_handoff: before"),
        ("whole", "since_handoff: since"),
        ("whole", "since_handoff: nobody"),
        ("no", "last(1): older"),
        ("whole", "last(1): within"),
        ("whole", "own_tools: this"),
        ("whole", "own_tools: words"),
        ("words", "own_tools: only"),
        ("no", "own_tools: only"),
        ("no", "summarised: told"),
        ("whole", "summarised: after"),
        ("whole", "summarised: the"),
        ("whole", "custom 'mine':"),
        ("no", "custom 'mine':"),
        ("no", "withheld by"),
        ("no", "waits for"),
        ("no", "a reply"),
        ("no", "an objection"),
    }


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (Everything(), "the whole conversation"),
        (Dialogue(), "all words, no tool traffic"),
        (SinceHandoff(), "all from the reply on that handed over to this agent"),
        (Last(1), "the last message of the user and all that followed it"),
        (Last(2), "the last 2 messages of the user and all that followed them"),
        (OwnTools(), "all words, and this agent's own tool traffic"),
        (Summarised(8000, 2), "all of it; above 8000 tokens, a summary in place of all but the last 2 turns"),
        (Custom("mine"), "what the function 'mine' chose"),
    ],
)
def test_a_policy_is_told_in_words(spec: HistorySpec, words: str) -> None:
    assert policy_told(spec) == words
