"""What a withheld message changes in the meaning of a ledger: nothing. And which facts may not pass one that waits."""

from collections import Counter
from copy import copy
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from legato.core.counters import Tally, WorkTime
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
from legato.core.groups import message_of
from legato.core.history_policies import Everything, Last
from legato.core.planner import CallModel, JudgeInput, Summarise, in_control, plan, status
from legato.core.state import State, fold
from legato.core.view import visible
from legato.errors import IllegalFact
from tests.core.ledgers import answered, folded, opened, said
from tests.core.worlds import random_graph, random_ledger

LEDGERS, LENGTH, PLACES = 12, 36, 7
"""Of each of the four parts: how many ledgers, how many facts in each, and at how many places a message comes and is withheld."""


class Inserted:
    """A ledger in which a message came before fact `said` of another one, and was withheld before its fact `judged`."""

    def __init__(self, facts: list[AnyFact], said: int, judged: int) -> None:
        self.facts, self.said, self.judged = facts, said, judged

    def place(self, position: int) -> int:
        """Where a fact of the other ledger stands in this one."""
        return position + (position >= self.said) + (position >= self.judged)

    def upto(self, seen: int) -> int:
        """What a request saw: while the message waited no model was asked."""
        return seen if seen < self.said else self.place(seen + 1) - 1

    def moved(self, fact: AnyFact) -> AnyFact:
        changed: dict[str, object] = {}
        for name in fact.__struct_fields__:
            value = getattr(fact, name)
            if isinstance(value, CallRef):
                changed[name] = CallRef(self.place(value.position), value.index)
            elif name == "position":
                changed[name] = self.place(value)
            elif name in ("positions", "along"):
                changed[name] = tuple(map(self.place, value))
            elif name == "upto":
                changed[name] = self.place(value) if isinstance(fact, Compacted) else self.upto(value)
        return replace(fact, **changed)

    @property
    def possible(self) -> bool:
        """Whether nothing looks past the message while it waits: no model is asked then, and nothing summarised."""
        sights = [fact.upto for fact in self.facts[self.said : self.judged] if isinstance(fact, (ModelReplied, ConversationClaimed, ModelRequestFailed, Compacted))]
        late = [fact.upto for fact in self.facts[self.judged :] if isinstance(fact, (ModelReplied, ConversationClaimed, ModelRequestFailed))]
        return all(upto < self.said for upto in sights) and not any(self.said <= upto < self.judged - 1 for upto in late)


def told(state: State, graph, agents, place) -> dict[str, object]:
    """What a state means, with positions as `place` says."""
    waiting = {group.position for group in state.waiting}

    def known(effect: object) -> tuple[str, object]:
        fields = to_builtins(effect)
        for name in ("position", "upto", "stop"):
            if name in fields:
                fields[name] = place(fields[name])
        if fields.get("call"):
            fields["call"] = (place(fields["call"][0]), fields["call"][1])
            fields.pop("id", None)  # it names the position
        return type(effect).__name__, fields

    now = plan(state, graph, None)
    judging = [effect for effect in now.effects if isinstance(effect, JudgeInput) and effect.position in waiting]
    spent = state.spent
    return {
        "control": (state.active, in_control(state, graph), state.fresh, state.arrived),
        "stops": (state.halt, state.ended, state.feedback, state.judgements.output, state.judgements.termination),
        "failed": state.failed and (state.failed.error, state.failed.number, state.failed.final),
        "frame": state.frame,
        "awaits a reply": state.awaits_reply,
        "run": {name: copy(getattr(state.tally, name)) for name in Tally.__slots__},
        "spent": (spent.total, dict(spent.of), list(spent.by_handoff), spent.last, spent.letters),
        "requests": [known(request) for request in now.requests],
        "effects": [known(effect) for effect in now.effects if effect not in judging],
        "judging": [known(effect) for effect in judging],
        "status": status(state, graph).replace("new", "waiting"),  # "new" is one in which nobody ever said anything
        "unseen": [place(group.position) for group in state.unseen],
        "summaries": {agent: place(fact.upto) for agent, fact in state.summaries.items()},
        "standing": set(state.standing),
        "late": len(state.late),
        "views": [
            [str(message_of(entry)) for group in visible(state, spec, agent) for entry in group.entries]
            for agent in agents
            for spec in (Everything(), Last(1))
        ],
    }


WHILE_IT_WAITS = ("judging", "status", "effects")
"""What may differ then: it is being judged, and nobody is asked past it."""


@pytest.mark.parametrize("part", range(4))
def test_a_withheld_message_anywhere_in_any_ledger_changes_nothing(part: int) -> None:
    for seed in range(part * LEDGERS, (part + 1) * LEDGERS):
        dice = Random(seed)
        graph = random_graph(dice)
        facts = random_ledger(dice, graph, LENGTH)
        base, meanings = fold((), "s"), []
        for fact in facts:
            base.apply(fact)
            meanings.append(told(base, graph, "ab", int))
        for _ in range(PLACES):
            first = dice.randrange(1, len(facts))
            insertion = Inserted(facts, first, min(len(facts), first + dice.choice((0, 0, 1, 2, 4, 8))))
            if insertion.possible:
                check(graph, meanings, insertion, f"seed {seed}, said before {insertion.said}, judged before {insertion.judged}")


def check(graph, meanings, insertion: Inserted, where: str) -> None:
    facts, places = insertion.facts, {insertion.place(position): position for position in range(len(insertion.facts) + 1)}
    state = fold(facts[: insertion.said], "s")
    state.apply(MessageReceived(at=facts[insertion.said - 1].at, content="bad " * 50, guarded=True))
    for position in range(insertion.said, len(facts) + 1):
        if position == insertion.judged:
            at = facts[position - 1].at
            state.apply(GuardrailJudged(at=at, kind="input", position=insertion.said, stop=True, words="no", by="g", agent="a"))
        waits = position < insertion.judged
        now, then = told(state, graph, "ab", lambda place: places.get(place, place)), meanings[position - 1]
        for name in then:
            if not (waits and name in WHILE_IT_WAITS):
                assert now[name] == then[name], f"{where}: {name} after fact {position - 1}"
        if waits:
            apart = ("CallModel", "Summarise")
            assert [each for each in now["effects"] if each[0] not in apart] == [each for each in then["effects"] if each[0] not in apart], where
        if position < len(facts):
            state.apply(insertion.moved(facts[position]))


def test_the_random_ledgers_have_facts_of_every_kind_and_messages_that_wait() -> None:
    kinds, waited = Counter[str](), 0
    for seed in range(LEDGERS):
        dice = Random(seed)
        graph = random_graph(dice)
        state = fold((), "s")
        for fact in random_ledger(dice, graph, LENGTH):
            state.apply(fact)
            kinds[type(fact).__name__] += 1
            waited += len(state.waiting) > 1
    assert kinds.keys() == {kind.__name__ for kind in AnyFact.__args__}
    assert waited > 10


# -- what may not pass a message that waits ------------------------------------------------------------------------------------


def waiting(text: str = "may I?") -> MessageReceived:
    return MessageReceived(at=1, content=text, guarded=True)


def judged(position: int, agent: str, stop: bool = False) -> GuardrailJudged:
    return GuardrailJudged(at=1, kind="input", position=position, stop=stop, words="no" if stop else "", agent=agent)


WAITS = (opened(), said(), answered("a", 1, "hello"), waiting())

ILLEGAL = {
    "a reply to nothing but a message that waits": (WAITS, answered("a", 3, "x")),
    "a reply that saw past a message that waits": ((*WAITS, said()), answered("a", 4, "x")),
    "a summary of a message that waits": (WAITS, Compacted(at=1, agent="a", upto=3, summary="x")),
    "a summary past a message that waits": ((*WAITS, said()), Compacted(at=1, agent="a", upto=4, summary="x")),
    "a second verdict of one agent's guardrails": ((*WAITS, judged(3, "a")), judged(3, "a")),
    "a second verdict on what is withheld": ((*WAITS, judged(3, "a", stop=True)), judged(3, "a", stop=True)),
    "another agent's verdict on what is withheld": ((*WAITS, judged(3, "a", stop=True)), judged(3, "b")),
    "a verdict on a message that a reply has seen": ((*WAITS, judged(3, "a"), answered("a", 4, "x")), judged(3, "b")),
    "a verdict on what is no message": (WAITS, judged(2, "a")),
}


@pytest.mark.parametrize(("before", "fact"), ILLEGAL.values(), ids=ILLEGAL)
def test_is_refused_and_changes_nothing(before, fact) -> None:
    state = folded(*before)
    shown = repr((state.groups, state.tail, state.waiting, state.length, state.withheld))
    with pytest.raises(IllegalFact):
        state.apply(fact)
    assert repr((state.groups, state.tail, state.waiting, state.length, state.withheld)) == shown


def texts(state: State) -> list[str]:
    return [str(message_of(entry)) for group in visible(state, Everything(), "a") for entry in group.entries]


def test_a_message_waits_outside_and_lands_when_it_is_let_pass() -> None:
    state = folded(*WAITS)
    before = state.tally
    assert (texts(state), state.awaits_reply) == (["user: hi", "a: hello"], False)
    state.apply(judged(3, "a"))
    assert (texts(state), state.awaits_reply) == (["user: hi", "a: hello", "user: may I?"], True)
    assert state.tally.number == before.number + 1


def test_another_agent_may_judge_what_one_let_pass_and_withhold_it() -> None:
    state = folded(*WAITS, judged(3, "a"), judged(3, "b", stop=True))
    assert (texts(state), state.awaits_reply) == (["user: hi", "a: hello"], False)


def test_messages_that_were_let_pass_in_another_order_stand_in_the_order_in_which_they_were_said() -> None:
    state = folded(*WAITS, waiting("second"), said("third"), judged(4, "a"), judged(3, "a"))
    assert texts(state)[2:] == ["user: may I?", "user: second", "user: third"]


def test_a_reply_that_was_being_made_when_a_message_began_to_wait_is_recorded_and_the_message_follows_it() -> None:
    state = folded(opened(), said(), waiting(), answered("a", 1, "hello"), judged(2, "a"))
    assert texts(state) == ["user: hi", "a: hello", "user: may I?"]


def test_a_plan_has_what_it_would_have_without_the_message_and_that_it_is_to_be_judged() -> None:
    graph = random_graph(Random(1))
    quiet, disturbed = folded(opened(), said()), folded(opened(), said(), waiting())
    first, *rest = plan(disturbed, graph).effects
    assert [first] == plan(quiet, graph).effects
    assert rest == [JudgeInput("a", 2)]
    assert isinstance(first, (CallModel, Summarise, JudgeInput))


# -- the time that was worked ----------------------------------------------------------------------------------------------------

PIECES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=12)


@given(PIECES)
def test_time_that_was_worked_in_parallel_counts_once(pieces: list[tuple[int, int]]) -> None:
    work, union = WorkTime(), set[int]()
    for start, end in sorted(((start, start + length) for start, length in pieces), key=lambda piece: piece[1]):
        new = set(range(start, end)) - union
        assert work.add(start, end) == len(new)
        union |= new


@given(st.lists(st.tuples(PIECES, st.integers(0, 20), st.integers(0, 5)), max_size=6))
def test_a_reply_begins_after_the_tools_before_it_and_nothing_that_follows_it_is_counted_twice(turns) -> None:
    work, union, begun = WorkTime(), set[int](), 0
    for pieces, thought, pause in turns:
        ends = sorted(((begun + start, begun + start + length) for start, length in pieces), key=lambda piece: piece[1])
        begun = max([begun, *(end for _, end in ends)]) + pause
        for start, end in [*ends, (begun, begun + thought)]:
            new = set(range(start, end)) - union
            assert work.add(start, end) == len(new)
            union |= new
