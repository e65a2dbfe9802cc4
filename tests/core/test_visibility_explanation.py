"""Explanations of why each group of a conversation is in a request, or not."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from legato.core.facts import AnyFact, Call, Compacted, GuardrailJudged, HandedOff, OutputText, Redacted, Refusal
from legato.core.groups import Group
from legato.core.history_policies import (
    Custom,
    Dialogue,
    Everything,
    HistoryPolicy,
    LastTurns,
    OwnTools,
    SinceHandoff,
    Summarised,
    to_ranges,
)
from legato.core.state import State, fold
from legato.core.view import select_groups
from legato.core.visibility_explanation import describe_policy, explain_groups
from tests.core.random_ledgers import make_random_graph, make_random_ledger

POLICIES: list[HistoryPolicy] = [
    Everything(),
    Dialogue(),
    SinceHandoff(),
    LastTurns(1),
    LastTurns(3),
    OwnTools(),
    Summarised(20, 1),
    Custom("mine"),
]


def fold_session(facts: list[AnyFact]) -> State:
    return fold(facts, "s")


class PolicyOracle:
    """The documented history policies, computed from the facts without `view.py`."""

    def __init__(self, state: State, policy: HistoryPolicy, agent: str, chosen: set[int]) -> None:
        self.state, self.policy, self.agent, self.chosen = state, policy, agent, chosen
        self.order = [*state.groups, *state.new_messages]
        facts = state.facts
        objections = {position for position, fact in enumerate(facts) if isinstance(fact, GuardrailJudged) and fact.kind == "output" and fact.stop}
        self.rejected = {facts[position].position for position in objections}
        self.withheld: set[int] = set()
        for fact in facts:
            if isinstance(fact, GuardrailJudged) and fact.kind == "input":
                (self.withheld.add if fact.stop else self.withheld.discard)(fact.position)
        self.theirs = {group.position for group in self.order if group.position in self.rejected | objections and group.agent != agent}

    def find_visibility(self, group: Group) -> tuple[str, str]:
        """Return the visibility of a group, and the beginning of its rule."""
        if group in self.state.unchecked_messages:
            return "no", "waits"
        if group.position in self.withheld:
            return "no", "withheld"
        if group.position in self.theirs:
            return "no", "a reply that was not" if group.kind == "reply" else "an objection"
        facts, policy = self.state.facts, self.policy
        items = facts[group.position].items if group.kind == "reply" else ()
        calls = any(isinstance(item, Call) for item in items)
        words = "no" if not any(isinstance(item, (OutputText, Refusal)) for item in items) else "words" if calls else "whole"
        if group.kind != "reply":
            words = "whole"
        if isinstance(policy, Everything):
            return "whole", "everything"
        if isinstance(policy, Dialogue):
            return words, "dialogue"
        if isinstance(policy, OwnTools):
            own = group.kind in ("reply", "feedback") and group.agent == self.agent
            return ("whole" if own else words), "own_tools: this agent's own" if own else "own_tools: "
        if isinstance(policy, SinceHandoff):
            handed = [fact.call.position for fact in facts if isinstance(fact, HandedOff) and fact.target == self.agent]
            if not handed:
                return "whole", "since_handoff: no"
            since = next(index for index, each in enumerate(self.order) if each.position == handed[-1])
            return ("whole", "since_handoff: since") if self.order.index(group) >= since else ("no", "since_handoff: before")
        if isinstance(policy, LastTurns):
            messages = [index for index, each in enumerate(self.order) if each.kind == "said" and each.position not in self.withheld]
            since = messages[-policy.turns] if len(messages) >= policy.turns else 0
            return ("whole", f"last({policy.turns}): within") if self.order.index(group) >= since else ("no", f"last({policy.turns}): older")
        if isinstance(policy, Summarised):
            void = {position for fact in facts if isinstance(fact, Redacted) for position in (*fact.positions, *fact.derived)}
            summary_ends = [fact.upto for at, fact in enumerate(facts) if isinstance(fact, Compacted) and fact.agent == self.agent and at not in void]
            if not summary_ends:
                return "whole", "summarised: the whole"
            return ("no", "summarised: replaced by") if group.position <= summary_ends[-1] else ("whole", "summarised: after")
        return ("whole", "custom 'mine': chosen") if group.position in self.chosen else ("no", "custom 'mine': not")


@given(st.integers(0, 10**9))
@example(62150)  # a reply that handed over was rejected afterwards
def test_explanations_match_views_and_policies(seed: int) -> None:
    """An explanation marks exactly the groups that the view has, and both follow the policy."""
    dice = Random(seed)
    facts = make_random_ledger(dice, make_random_graph(dice), dice.randrange(4, 70))
    state = fold_session(facts[: dice.randrange(1, len(facts) + 1)]) if dice.random() < 0.5 else fold_session(facts)
    for policy in POLICIES:
        for agent in ("a", "b", "another agent"):
            everything = select_groups(state, Everything(), agent)
            indexes = [index for index in range(len(everything)) if dice.random() < 0.5]
            kept_groups = to_ranges(indexes) if isinstance(policy, Custom) else None
            explanations = explain_groups(state, policy, agent, kept_groups)
            visible = [each.group if each.visibility == "whole" else each.group.without_tool_traffic() for each in explanations if each.visibility != "no"]
            selected = select_groups(state, policy, agent, kept_groups)
            assert len(visible) == len(selected)
            assert all(one is other for one, other in zip(visible, selected, strict=True)), "the very same groups, in the same order"
            assert [each.group for each in explanations] == [*state.groups, *state.new_messages, *state.unchecked_messages], "every group, once"
            oracle = PolicyOracle(state, policy, agent, {everything[index].position for index in indexes})
            for each in explanations:
                mark, begins = oracle.find_visibility(each.group)
                assert each.visibility == mark, (policy, agent, each)
                assert each.rule.startswith(begins), (policy, agent, each)


def test_random_ledgers_have_every_kind_of_rule() -> None:
    """The test above proves nothing about rules that never occur."""
    reasons: set[tuple[str, str]] = set()
    for seed in range(120):
        dice = Random(seed)
        state = fold_session(make_random_ledger(dice, make_random_graph(dice), 60))
        for policy in POLICIES:
            kept_groups = ((0, 1),) if isinstance(policy, Custom) else None
            reasons |= {(each.visibility, " ".join(each.rule.split()[:2])) for each in explain_groups(state, policy, "a", kept_groups)}
    assert {(mark, rule) for mark, rule in reasons} >= {
        ("whole", "everything: the"),
        ("whole", "dialogue: words"),
        ("words", "dialogue: only"),
        ("no", "dialogue: only"),
        ("no", "since_handoff: before"),
        ("whole", "since_handoff: since"),
        ("whole", "since_handoff: no"),
        ("no", "last(1): older"),
        ("whole", "last(1): within"),
        ("whole", "own_tools: this"),
        ("whole", "own_tools: words"),
        ("words", "own_tools: only"),
        ("no", "own_tools: only"),
        ("no", "summarised: replaced"),
        ("whole", "summarised: after"),
        ("whole", "summarised: the"),
        ("whole", "custom 'mine':"),
        ("no", "custom 'mine':"),
        ("no", "withheld by"),
        ("no", "waits to"),
        ("no", "a reply"),
        ("no", "an objection"),
    }


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Everything(), "the whole conversation"),
        (Dialogue(), "all words, no tool traffic"),
        (SinceHandoff(), "all from the reply on that handed over to this agent"),
        (LastTurns(1), "the last message of the user and all that followed it"),
        (LastTurns(2), "the last 2 messages of the user and all that followed them"),
        (OwnTools(), "all words, and this agent's own tool traffic"),
        (Summarised(8000, 2), "all of it; above 8000 tokens, a summary in place of all but the last 2 turns"),
        (Custom("mine"), "what the function 'mine' chose"),
    ],
)
def test_policy_is_described_in_words(policy: HistoryPolicy, words: str) -> None:
    assert describe_policy(policy) == words
