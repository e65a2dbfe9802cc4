"""A withheld message does not change the meaning of a ledger, and no fact may pass an unchecked message."""

from collections import Counter
from copy import copy
from random import Random

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from legato.core.counters import RunCounters
from legato.core.facts import (
    AnyFact,
    CallRef,
    Compacted,
    ConversationClaimed,
    GuardrailJudged,
    MessageReceived,
    ModelReplied,
    ModelRequestFailed,
)
from legato.core.groups import to_message
from legato.core.history_policies import Everything, LastTurns
from legato.core.planner import CheckInput, RequestModel, SummariseHistory, derive_status, find_active_agent, make_plan
from legato.core.state import State, fold
from legato.core.view import select_groups
from legato.errors import IllegalFact
from tests.core.fact_builders import fold_facts, message, opening, reply
from tests.core.random_ledgers import make_random_graph, make_random_ledger

LEDGERS, LENGTH, PLACES = 12, 36, 7
"""For each of the four parts: the number of ledgers, of facts in each, and of places where a message comes and is withheld."""


class InsertedMessage:
    """A ledger with a message inserted at `message_position` of another ledger, and its verdict at `verdict_position`."""

    def __init__(self, facts: list[AnyFact], message_position: int, verdict_position: int) -> None:
        self.facts, self.message_position, self.verdict_position = facts, message_position, verdict_position

    def shift(self, position: int) -> int:
        """Return the position in this ledger of a fact of the other one."""
        return position + (position >= self.message_position) + (position >= self.verdict_position)

    def shift_upto(self, seen: int) -> int:
        """Return the `upto` of a request: no model is requested while the message waits."""
        return seen if seen < self.message_position else self.shift(seen + 1) - 1

    def shift_fact(self, fact: AnyFact) -> AnyFact:
        changed: dict[str, object] = {}
        for name in fact.__struct_fields__:
            value = getattr(fact, name)
            if isinstance(value, CallRef):
                changed[name] = CallRef(self.shift(value.position), value.index)
            elif name == "position":
                changed[name] = self.shift(value)
            elif name in ("positions", "derived"):
                changed[name] = tuple(map(self.shift, value))
            elif name == "upto":
                changed[name] = self.shift(value) if isinstance(fact, Compacted) else self.shift_upto(value)
        return replace(fact, **changed)

    @property
    def is_possible(self) -> bool:
        """True if no request and no summary includes a position after the message while it waits."""
        sights = [fact.upto for fact in self.facts[self.message_position : self.verdict_position] if isinstance(fact, (ModelReplied, ConversationClaimed, ModelRequestFailed, Compacted))]
        late = [fact.upto for fact in self.facts[self.verdict_position :] if isinstance(fact, (ModelReplied, ConversationClaimed, ModelRequestFailed))]
        return all(upto < self.message_position for upto in sights) and not any(self.message_position <= upto < self.verdict_position - 1 for upto in late)


def describe_state(state: State, graph, agents, place) -> dict[str, object]:
    """Return the meaning of a state, with positions mapped by `place`."""
    waiting = {group.position for group in state.unchecked_messages}

    def describe(effect: object) -> tuple[str, object]:
        fields = to_builtins(effect)
        for name in ("position", "upto", "interrupted_at"):
            if name in fields:
                fields[name] = place(fields[name])
        if fields.get("call"):
            fields["call"] = (place(fields["call"][0]), fields["call"][1])
            fields.pop("id", None)  # it names the position
        return type(effect).__name__, fields

    plan = make_plan(state, graph, None)
    checks = [effect for effect in plan.effects if isinstance(effect, CheckInput) and effect.position in waiting]
    totals = state.usage_totals
    return {
        "control": (state.active_agent, find_active_agent(state, graph), state.is_new_run, state.incoming_handoff),
        "stops": (state.stop_reason, state.is_terminated, state.reply_objection, state.reply_checks.output_checked, state.reply_checks.termination_checked),
        "failed": state.failed_request and (state.failed_request.error, state.failed_request.attempt, state.failed_request.final),
        "turn context": state.context_digest,
        "awaits a reply": state.awaits_reply,
        "run": {name: copy(getattr(state.run_counters, name)) for name in RunCounters.__slots__},
        "spent": (totals.total, dict(totals.by_agent), list(totals.by_handoff), totals.last_request, totals.characters),
        "requests": [describe(request) for request in plan.requests],
        "effects": [describe(effect) for effect in plan.effects if effect not in checks],
        "checks": [describe(effect) for effect in checks],
        "status": derive_status(state, graph).replace("new", "waiting"),  # "new" is the status before the first message
        "unseen": [place(group.position) for group in state.unseen_messages],
        "summaries": {agent: place(fact.upto) for agent, fact in state.summaries.items()},
        "standing": set(state.standing_approvals),
        "late": len(state.late_outputs),
        "views": [
            [str(to_message(entry)) for group in select_groups(state, spec, agent) for entry in group.entries]
            for agent in agents
            for spec in (Everything(), LastTurns(1))
        ],
    }


WHILE_IT_WAITS = ("checks", "status", "effects")
"""The parts that may differ while the message waits: it is checked, and no model is requested past it."""


@pytest.mark.parametrize("part", range(4))
def test_withheld_message_changes_nothing_in_random_ledgers(part: int) -> None:
    """A message that comes and is withheld anywhere in a ledger does not change what the state means."""
    for seed in range(part * LEDGERS, (part + 1) * LEDGERS):
        dice = Random(seed)
        graph = make_random_graph(dice)
        facts = make_random_ledger(dice, graph, LENGTH)
        base, meanings = fold((), "s"), []
        for fact in facts:
            base.apply(fact)
            meanings.append(describe_state(base, graph, "ab", int))
        for _ in range(PLACES):
            first = dice.randrange(1, len(facts))
            insertion = InsertedMessage(facts, first, min(len(facts), first + dice.choice((0, 0, 1, 2, 4, 8))))
            if insertion.is_possible:
                check_insertion(graph, meanings, insertion, f"seed {seed}, message before {insertion.message_position}, verdict before {insertion.verdict_position}")


def check_insertion(graph, meanings, insertion: InsertedMessage, where: str) -> None:
    facts, places = insertion.facts, {insertion.shift(position): position for position in range(len(insertion.facts) + 1)}
    state = fold(facts[: insertion.message_position], "s")
    state.apply(MessageReceived(at=facts[insertion.message_position - 1].at, content="bad " * 50, awaits_guardrails=True))
    for position in range(insertion.message_position, len(facts) + 1):
        if position == insertion.verdict_position:
            at = facts[position - 1].at
            state.apply(GuardrailJudged(at=at, kind="input", position=insertion.message_position, stop=True, reason="no", guardrail="g", agent="a"))
        waits = position < insertion.verdict_position
        now, then = describe_state(state, graph, "ab", lambda place: places.get(place, place)), meanings[position - 1]
        for name in then:
            if not (waits and name in WHILE_IT_WAITS):
                assert now[name] == then[name], f"{where}: {name} after fact {position - 1}"
        if waits:
            apart = ("RequestModel", "SummariseHistory")
            assert [each for each in now["effects"] if each[0] not in apart] == [each for each in then["effects"] if each[0] not in apart], where
        if position < len(facts):
            state.apply(insertion.shift_fact(facts[position]))


def test_random_ledgers_have_every_kind_of_fact() -> None:
    kinds, waited = Counter[str](), 0
    for seed in range(LEDGERS):
        dice = Random(seed)
        graph = make_random_graph(dice)
        state = fold((), "s")
        for fact in make_random_ledger(dice, graph, LENGTH):
            state.apply(fact)
            kinds[type(fact).__name__] += 1
            waited += len(state.unchecked_messages) > 1
    assert kinds.keys() == {kind.__name__ for kind in AnyFact.__args__}
    assert waited > 10


# -- facts that may not pass an unchecked message ----------------------------------------------------------------------


def unchecked_message(text: str = "may I?") -> MessageReceived:
    return MessageReceived(at=1, content=text, awaits_guardrails=True)


def verdict(position: int, agent: str, stop: bool = False) -> GuardrailJudged:
    return GuardrailJudged(at=1, kind="input", position=position, stop=stop, reason="no" if stop else "", agent=agent)


UNCHECKED = (opening(), message(), reply("a", 1, "hello"), unchecked_message())

ILLEGAL = {
    "a reply to nothing but an unchecked message": (UNCHECKED, reply("a", 3, "x")),
    "a reply whose request included an unchecked message": ((*UNCHECKED, message()), reply("a", 4, "x")),
    "a summary of an unchecked message": (UNCHECKED, Compacted(at=1, agent="a", upto=3, summary="x")),
    "a summary past an unchecked message": ((*UNCHECKED, message()), Compacted(at=1, agent="a", upto=4, summary="x")),
    "a second verdict of one agent's guardrails": ((*UNCHECKED, verdict(3, "a")), verdict(3, "a")),
    "a second verdict on a withheld message": ((*UNCHECKED, verdict(3, "a", stop=True)), verdict(3, "a", stop=True)),
    "another agent's verdict on a withheld message": ((*UNCHECKED, verdict(3, "a", stop=True)), verdict(3, "b")),
    "a verdict on a message that a reply has answered": ((*UNCHECKED, verdict(3, "a"), reply("a", 4, "x")), verdict(3, "b")),
    "a verdict on a fact that is no message": (UNCHECKED, verdict(2, "a")),
}


@pytest.mark.parametrize(("before", "fact"), ILLEGAL.values(), ids=ILLEGAL)
def test_fact_past_unchecked_message_is_refused(before, fact) -> None:
    state = fold_facts(*before)
    before_fact = repr((state.groups, state.new_messages, state.unchecked_messages, state.length, state.withheld_message_count))
    with pytest.raises(IllegalFact):
        state.apply(fact)
    assert repr((state.groups, state.new_messages, state.unchecked_messages, state.length, state.withheld_message_count)) == before_fact


def render_view(state: State) -> list[str]:
    return [str(to_message(entry)) for group in select_groups(state, Everything(), "a") for entry in group.entries]


def test_unchecked_message_takes_effect_when_it_passes() -> None:
    state = fold_facts(*UNCHECKED)
    before = state.run_counters
    assert (render_view(state), state.awaits_reply) == (["user: hi", "a: hello"], False)
    state.apply(verdict(3, "a"))
    assert (render_view(state), state.awaits_reply) == (["user: hi", "a: hello", "user: may I?"], True)
    assert state.run_counters.message_count == before.message_count + 1


def test_second_agent_may_withhold_a_passed_message() -> None:
    state = fold_facts(*UNCHECKED, verdict(3, "a"), verdict(3, "b", stop=True))
    assert (render_view(state), state.awaits_reply) == (["user: hi", "a: hello"], False)


def test_messages_keep_their_order_whenever_they_pass() -> None:
    state = fold_facts(*UNCHECKED, unchecked_message("second"), message("third"), verdict(4, "a"), verdict(3, "a"))
    assert render_view(state)[2:] == ["user: may I?", "user: second", "user: third"]


def test_unchecked_message_follows_a_reply_in_progress() -> None:
    state = fold_facts(opening(), message(), unchecked_message(), reply("a", 1, "hello"), verdict(2, "a"))
    assert render_view(state) == ["user: hi", "a: hello", "user: may I?"]


def test_plan_adds_only_the_check_of_a_message() -> None:
    graph = make_random_graph(Random(1))
    quiet, disturbed = fold_facts(opening(), message()), fold_facts(opening(), message(), unchecked_message())
    first, *rest = make_plan(disturbed, graph).effects
    assert [first] == make_plan(quiet, graph).effects
    assert rest == [CheckInput("a", 2)]
    assert isinstance(first, (RequestModel, SummariseHistory, CheckInput))
