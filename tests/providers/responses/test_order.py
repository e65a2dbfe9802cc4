"""In which order the server complains: a request with two faults is answered for the one that it looks at first."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from legato.emulator.minds.base import Use, Words
from legato.providers.rules.responses.laws import BOOK, Profile, judge
from tests.providers.lawcase import Step, filled
from tests.providers.responses.lawcase import AGAIN, THINKS, UNKNOWN, USER, ask, call, output, reference, said, without
from tests.providers.responses.world import World

# Every field in the server's order, each with a value that its schema refuses. Measured on the live API.
WRONG_FIELDS: dict[str, Any] = {
    "input": 7,
    "previous_response_id": 7,
    "prompt": "x",
    "moderation": "x",
    "include": ["bogus.thing"],
    "tools": "x",
    "tool_choice": 7,
    "metadata": "x",
    "text": "x",
    "temperature": "x",
    "top_p": "x",
    "presence_penalty": "x",
    "frequency_penalty": "x",
    "parallel_tool_calls": "x",
    "stream": "x",
    "stream_options": "x",
    "background": "x",
    "max_output_tokens": "x",
    "max_tool_calls": "x",
    "reasoning": "x",
    "user": 7,
    "safety_identifier": 7,
    "prompt_cache_options": "x",
    "prompt_cache_key": 7,
    "prompt_cache_retention": "x",
    "truncation": "x",
    "instructions": 7,
    "store": "x",
    "service_tier": "bogus",
    "top_logprobs": "x",
    "context_management": "x",
}


def world() -> World:
    world = World()
    world.take(Step.respond(ask(), Use("look_up", "{}", "call_held"), save_as="r1"))
    world.take(Step.respond(ask(), Words("good day"), save_as="r2"))
    return world


def first(request: dict[str, Any], profile: Profile | None = None, tokens: int = 0) -> str:
    """The clause that a request is answered with."""
    held = world()
    complaints = judge(filled(request, held.saved), held.account(), profile or Profile(), tokens)
    return complaints[0].clause.id if complaints else ""


@pytest.mark.parametrize(("earlier", "later"), list(pairwise(WRONG_FIELDS)), ids=lambda name: str(name))
def test_of_two_wrong_fields_the_earlier_is_answered(earlier: str, later: str) -> None:
    wrong = {later: WRONG_FIELDS[later], earlier: WRONG_FIELDS[earlier]}
    (complaint, *_) = judge({**ask(), **wrong})
    assert complaint.path.startswith(earlier)


# One request for each stage; each has its own fault and nothing before it. Put together, the earlier one is answered.
STAGES: list[tuple[str, dict[str, Any]]] = [
    ("P3", {"zzz_unknown": 1}),
    ("N5", {"input": [{}]}),
    ("O7", {"truncation": "bogus"}),
    ("O9", {"model": UNKNOWN}),
    ("S7", {"conversation": "conv_x", "previous_response_id": "{r2.id}"}),
    ("S8", {"conversation": "conv_x"}),
    ("S10", {"prompt": {"id": "pmpt_x"}}),
    ("S1", {"previous_response_id": "resp_x"}),
    ("N22", {"input": []}),
    ("O10", {"model": THINKS, "temperature": 0.5}),
    ("I8", {"input": [USER, said(id="msg_1"), said(id="msg_1"), AGAIN]}),
    ("I3", {"input": [USER, reference("rs_x"), AGAIN]}),
    ("R11", {"input": [USER, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "junk"}, said(), AGAIN]}),
    ("T1", {"input": [USER, call()]}),
]


@pytest.mark.parametrize(("clause", "fault"), STAGES, ids=[clause for clause, _ in STAGES])
def test_a_fault_of_a_stage_is_answered_when_it_is_alone(clause: str, fault: dict[str, Any]) -> None:
    assert first({**ask(), **fault}) == clause


PAIRS = [(one, two) for index, one in enumerate(STAGES) for two in STAGES[index + 1 :] if not one[1].keys() & two[1].keys()]


@pytest.mark.parametrize(("earlier", "later"), PAIRS, ids=[f"{one[0]} before {two[0]}" for one, two in PAIRS])
def test_of_faults_of_two_stages_the_earlier_is_answered(earlier: tuple[str, dict[str, Any]], later: tuple[str, dict[str, Any]]) -> None:
    both = {**ask(), **later[1], **earlier[1]}
    if "S7" not in (earlier[0], later[0]) and {"conversation", "previous_response_id"} <= both.keys():
        assert first(both) == "S7"  # together they are a fault of their own
    else:
        assert first(both) == earlier[0]


def test_within_the_input_the_order_is_duplicates_lookups_seals_calls_reasoning() -> None:
    twice = [said(id="msg_1"), said(id="msg_1")]
    lost = [reference("rs_x")]
    junk = [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "junk"}]
    pending = [call()]
    assert first(ask([USER, *pending, *junk, *lost, *twice])) == "I8"
    assert first(ask([USER, *pending, *junk, *lost])) == "I3"
    assert first(ask([USER, *pending, *junk])) == "R11"
    assert first(ask([USER, *pending])) == "T1"


def test_a_missing_model_comes_before_a_missing_input() -> None:
    assert first(without(ask(), "model", "input")) == "P1"


@pytest.mark.parametrize("other", [{"zzz_unknown": 1}, {"truncation": "bogus"}, {"previous_response_id": "resp_x"}, {"messages": []}])
def test_a_missing_input_comes_before_everything_but_the_model(other: dict[str, Any]) -> None:
    assert first({**without(ask(), "input"), **other}) == "P2"


def test_the_first_faulty_item_is_answered_whatever_is_wrong_with_the_second() -> None:
    complaints = judge(ask([{**USER, "bogus": 1}, 7]))
    assert [complaint.clause.id for complaint in complaints] == ["N10", "N3"]


def test_an_items_role_comes_before_its_content() -> None:
    complaints = judge(ask([{"role": "tool", "content": [{"type": "text"}]}]))
    assert [complaint.clause.id for complaint in complaints] == ["N5", "N9"]


def test_the_first_faulty_tool_is_answered_whatever_is_wrong_with_the_second() -> None:
    complaints = judge(ask(tools=[{"type": "function", "name": "look.up"}, {}]))
    assert [complaint.clause.id for complaint in complaints] == ["T9", "T12"]


def test_temperature_is_answered_before_logprobs_and_what_is_included_before_how_many() -> None:
    asked = {"model": THINKS, "include": ["message.output_text.logprobs"], "top_logprobs": 1}
    assert first({**ask(), **asked, "temperature": 0.5}) == "O10"
    held = world()
    assert [complaint.param for complaint in judge({**ask(), **asked}, held.account())] == ["include", "top_logprobs"]


def test_the_window_is_looked_at_last() -> None:
    assert first(ask([USER, call()]), tokens=1_000_000) == "T1"
    assert first(ask([USER, call(), output()]), tokens=1_000_000) == "F1"


def test_the_phases_stand_in_the_measured_order() -> None:
    assert [phase.name for phase in BOOK.phases] == [
        "the body",
        "the model is given",
        "the input is given",
        "every key is known",
        "the types of model and input",
        "the schema of the input items",
        "the fields before the tools",
        "the list of tools",
        "the schema of the tools",
        "the tool choice",
        "the fields after the tools",
        "the model exists",
        "server-held state",
        "there is something to answer",
        "what the model can do",
        "no item twice",
        "items that are looked up",
        "encrypted content",
        "calls and their outputs",
        "reasoning and what followed it",
        "the context window",
    ]
