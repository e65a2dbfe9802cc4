"""The default mind plays a support desk and a research team that one can believe, and always comes to an end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from legato.emulator.minds import Called, Desk, Heard, Prompt, Thought, Tool, Use, Words
from legato.emulator.minds.desk import MOST_STEPS, MOST_TOGETHER, handoff_target
from tests.emulator.minds.conversations import Agent, prompt, talk, tool, uses
from tests.emulator.minds.random_schemas import DEFINITIONS, SAID, SCHEMAS, tool_schemas

LOOKUP = tool("lookup_order", "Find an order by its id", order_id="string")
REFUND = tool("refund_order", "Pay the money of an order back", order_id="string", amount="number")
WEATHER = tool("get_weather", "The weather of a city", city="string")
SEARCH = tool("web_search", "Search the web for sources", query="string")
TO_REFUNDS = tool("handoff_to_refunds", "Refunds: gives money back")
TO_TRIAGE = tool("handoff_to_triage", "Sorts questions")

DESK = {
    "": Agent("You are the triage agent. Hand refunds to refunds.", (TO_REFUNDS, LOOKUP)),
    "handoff_to_refunds": Agent("You are the refunds specialist.", (TO_TRIAGE, LOOKUP, REFUND)),
    "handoff_to_triage": Agent("You are the triage agent. Hand refunds to refunds.", (TO_REFUNDS, LOOKUP)),
}
TEAM = {
    "": Agent("You are the coordinator.", (tool("transfer_to_researcher", "Finds sources"), tool("transfer_to_writer", "Writes texts"))),
    "transfer_to_researcher": Agent("You are the researcher.", (SEARCH, tool("transfer_to_writer", "Writes texts"))),
    "transfer_to_writer": Agent("You are the writer."),
}
ORDER = '{"order_id": "A-17", "status": "delivered", "amount": 49.9}'


def test_a_refund_is_handed_over_looked_up_and_paid_and_then_put_in_words() -> None:
    outputs = {"lookup_order": ORDER, "refund_order": "refunded 49.90"}
    told = talk(Desk(), "Please refund order A-17, the teapot arrived broken.", DESK, outputs)
    assert told.calls == [["handoff_to_refunds"], ["lookup_order"], ["refund_order"]]
    assert json.loads(uses(told.says[2])[0].arguments) == {"order_id": "A-17", "amount": 49.9}  # the amount is what the order said
    assert "status is delivered" in told.words
    assert "refunded 49.90" in told.words


def test_what_an_agent_can_do_itself_is_not_handed_over() -> None:
    told = talk(Desk(), "Where is my parcel A-17?", DESK, {"lookup_order": ORDER})
    assert told.calls == [["lookup_order"]]


def test_a_research_team_looks_things_up_before_it_writes() -> None:
    told = talk(Desk(), "Research solar power and write a report", TEAM, {"web_search": '["Solar is cheap", "Solar grows"]'})
    assert told.calls == [["transfer_to_researcher"], ["web_search"], ["transfer_to_writer"]]
    assert "Solar is cheap; Solar grows" in told.words


def test_several_tools_that_fit_are_called_at_once() -> None:
    say = Desk().reply(prompt("Compare the weather in Paris with order A-17", WEATHER, LOOKUP, SEARCH))
    assert [(use.tool, json.loads(use.arguments)) for use in uses(say)] == [
        ("get_weather", {"city": "Paris"}),
        ("lookup_order", {"order_id": "A-17"}),
    ]


def test_one_tool_is_called_once_for_each_thing_asked_about() -> None:
    say = Desk().reply(prompt("What is the weather in Paris and London?", WEATHER))
    assert [json.loads(use.arguments)["city"] for use in uses(say)] == ["Paris", "London"]


@pytest.mark.parametrize("said", ["What is the weather in Paris and London?", "The weather in Paris, and order A-17?"])
def test_without_parallel_calls_there_is_one_at_a_time(said: str) -> None:
    told = talk(Desk(), said, {"": Agent("", (WEATHER, LOOKUP))}, parallel=False)
    assert all(len(calls) == 1 for calls in told.calls)
    assert told.calls


def test_the_choice_none_calls_nothing() -> None:
    assert uses(Desk().reply(prompt("Where is order A-17?", LOOKUP, choice="none"))) == []


@pytest.mark.parametrize("said", ["Hello!", "", "Where is order A-17?", "Do you sell elephants?"])
def test_the_choice_required_calls_something_whatever_was_said(said: str) -> None:
    assert uses(Desk().reply(prompt(said, TO_REFUNDS, LOOKUP, choice="required")))


@pytest.mark.parametrize("name", ["lookup_order", "handoff_to_refunds", "get_weather"])
def test_a_named_choice_calls_that_tool_and_no_other(name: str) -> None:
    say = Desk().reply(prompt("Where is order A-17?", LOOKUP, TO_REFUNDS, WEATHER, choice=name))
    assert [use.tool for use in uses(say)] == [name]


def test_a_model_that_thinks_does_so_first() -> None:
    for said, tools in (("Where is order A-17?", (LOOKUP,)), ("Hello", ()), ("A refund!", (TO_REFUNDS,))):
        items = Desk().reply(prompt(said, *tools, thinks=True)).items
        assert isinstance(items[0], Thought)
        assert not any(isinstance(item, Thought) for item in items[1:])
    assert not any(isinstance(item, Thought) for item in Desk().reply(prompt("Hello")).items)


@pytest.mark.parametrize("seed", range(8))
def test_where_nothing_fits_the_words_show_what_was_asked(seed: int) -> None:
    say = Desk().reply(prompt("Do you sell blue elephants?", TO_TRIAGE, seed=seed))
    assert "blue elephants" in say.items[0].text  # type: ignore[union-attr]  # it can only be words


@pytest.mark.parametrize(
    ("said", "expected"),
    [("Hello!", "How can I help"), ("", "How can I help"), ("Thanks a lot, bye", "welcome"), ("Good morning", "How can I help")],
)
def test_small_talk_is_answered_without_tools(said: str, expected: str) -> None:
    say = Desk().reply(prompt(said, LOOKUP, SEARCH))
    assert isinstance(say.items[0], Words)
    assert expected in say.items[0].text


@pytest.mark.parametrize("seed", range(8))
def test_an_agent_that_is_told_to_go_on_says_that_its_part_is_done(seed: int) -> None:
    """A team that works by itself would hand over to one another forever."""
    to_lead = tool("handoff_to_lead", "Hand the conversation over to lead. Leads the team.")
    say = Desk().reply(prompt("Go on with your task. When your part is done, hand over or say so.", to_lead, SEARCH, seed=seed))
    assert [item for item in say.items if not isinstance(item, Thought)] == [Words("I have nothing to add: my part is done.")]


def test_going_on_with_something_is_a_request_like_another() -> None:
    assert uses(Desk().reply(prompt("Please continue with order A-17", LOOKUP)))[0].tool == "lookup_order"


def test_sometimes_by_seed_a_tool_is_tried_that_nobody_asked_for() -> None:
    tries = [uses(Desk().reply(prompt("Do you sell elephants?", SEARCH, seed=seed))) for seed in range(60)]
    assert 3 < len([calls for calls in tries if calls]) < 40


def test_a_tools_error_is_told_as_one() -> None:
    told = talk(Desk(), "Where is order A-17?", {"": Agent("", (LOOKUP,))}, {"lookup_order": "Error: no such order"})
    assert "did not work: Error: no such order" in told.words


def test_an_order_named_earlier_is_remembered() -> None:
    begin = (Heard("user", "My order is A-17."), Heard("assistant", "Thank you. What about it?"))
    told = talk(Desk(), "Please look the order up", {"": Agent("", (LOOKUP,))}, begin=begin)
    assert json.loads(uses(told.says[0])[0].arguments) == {"order_id": "A-17"}


@pytest.mark.parametrize("seed", range(8))
def test_another_topic_goes_back_to_whoever_sorts_questions_and_back_only_once(seed: int) -> None:
    agents = {
        "": Agent("You give money back.", (TO_TRIAGE,)),
        "handoff_to_triage": Agent("You sort questions.", (TO_REFUNDS, tool("handoff_to_weather", "Knows the weather"))),
        "handoff_to_weather": Agent("You know the weather.", (WEATHER, TO_TRIAGE)),
        "handoff_to_refunds": Agent("You give money back.", (TO_TRIAGE,)),
    }
    begin = (
        Heard("user", "I want a refund"),
        Heard("assistant", uses=(Use("handoff_to_refunds", "{}", "c1"),)),
        Heard("tool", "Control passed to refunds.", tool="handoff_to_refunds", call="c1"),
        Heard("assistant", "It is on its way."),
    )
    told = talk(Desk(), "What is the weather in Paris?", agents, {"get_weather": "sunny"}, begin=begin, seed=seed)
    assert told.calls == [["handoff_to_triage"], ["handoff_to_weather"], ["get_weather"]]
    for unknown in ("Do you sell blue elephants?", "Elephants!"):
        told = talk(Desk(), unknown, agents, begin=begin, seed=seed)
        assert told.calls == [["handoff_to_triage"]]
    assert talk(Desk(), "Thanks a lot, bye", agents, begin=begin, seed=seed).calls == []


def test_nobody_is_handed_to_twice_for_one_message() -> None:
    """Two agents that both believe refunds are the other's business."""
    agents = {
        "": Agent("You are a clerk.", (tool("transfer_to_b", "refunds"),)),
        "transfer_to_a": Agent("You are a clerk.", (tool("transfer_to_b", "refunds"),)),
        "transfer_to_b": Agent("You are another clerk.", (tool("transfer_to_a", "refunds"),)),
    }
    told = talk(Desk(), "I want a refund", agents)
    assert told.calls == [["transfer_to_b"], ["transfer_to_a"]]
    again = talk(Desk(), "I still want a refund", agents, begin=told.heard)
    assert again.calls == told.calls  # when the user speaks again, it may be


@pytest.mark.parametrize(
    ("name", "schema", "expected"),
    [
        ("handoff_to_refunds", {}, "refunds"),
        ("transfer_to_billing_agent", {}, "billing_agent"),
        ("transfer_to_writer", {"required": ["reason"]}, "writer"),
        ("transfer_support", {}, "support"),
        ("delegate_to_researcher", {"required": ["query"]}, "researcher"),
        ("transfer_funds", {"required": ["amount"]}, ""),
        ("lookup_order", {}, ""),
        ("handoff", {}, ""),
        ("transferable", {}, ""),
    ],
)
def test_a_handoff_is_known_by_its_name(name: str, schema: dict[str, Any], expected: str) -> None:
    assert handoff_target(name, schema) == expected


def test_what_was_delegated_comes_back_as_a_result() -> None:
    agents = {"": Agent("You lead.", (tool("delegate_to_researcher", "Researches", task="string"),))}
    told = talk(Desk(), "Please research tea", agents, {"delegate_to_researcher": "Tea is a drink."})
    assert told.calls == [["delegate_to_researcher"]]
    assert "Tea is a drink." in told.words


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(schema=SCHEMAS, said=SAID, seed=st.integers(0, 5))
def test_text_that_must_be_json_is_valid_for_its_schema(schema: dict[str, Any], said: str, seed: int) -> None:
    whole = {**schema, "$defs": DEFINITIONS}
    say = Desk().reply(prompt(said, schema=whole, seed=seed))
    assert isinstance(say.items[-1], Words)
    assert list(Draft202012Validator(whole).iter_errors(json.loads(say.items[-1].text))) == []


def test_where_any_json_object_will_do_it_has_the_answer() -> None:
    say = Desk().reply(prompt("Hello", schema={"type": "object"}))
    assert json.loads(say.items[0].text) == {"answer": "Hello! How can I help you today?"}  # type: ignore[union-attr]  # words


NAMES = st.sampled_from(
    ["lookup_order", "refund_order", "get_weather", "web_search", "handoff_to_refunds", "transfer_to_orders", "transfer_weather", "", "x"]
)
ABOUT = st.sampled_from(["", "orders and refunds", "weather"])
TOOLS = st.lists(st.builds(Tool, NAMES | st.text(max_size=8), ABOUT, tool_schemas()), max_size=6)


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    agents=st.lists(st.builds(Agent, st.sampled_from(["", "You are the refunds agent."]), TOOLS.map(tuple)), min_size=1, max_size=3),
    said=st.sampled_from(["Refund order A-17 and tell me the weather in Paris", "search the web", "", "Hello"]) | SAID,
    output=st.sampled_from(["done", "", "Error: no", '{"a": [1, {"b": null}]}', "[" * 50]) | st.text(max_size=20),
    parallel=st.booleans(),
    seed=st.integers(0, 50),
)
def test_whatever_tools_it_has_it_comes_to_an_end(agents: list[Agent], said: str, output: str, parallel: bool, seed: int) -> None:
    names = sorted({each.name for agent in agents for each in agent.tools if handoff_target(each.name)})
    frames = {"": agents[0]} | {name: agents[at % len(agents)] for at, name in enumerate(names)}
    told = talk(Desk(), said, frames, lambda use: output, parallel=parallel, seed=seed)
    assert len(told.says) <= MOST_STEPS + 1
    assert told.words
    for say in told.says:
        assert len(uses(say)) <= (MOST_TOGETHER if parallel else 1)
        for use in uses(say):
            schemas = [each.schema for agent in agents for each in agent.tools if each.name == use.tool]
            assert any(Draft202012Validator(schema).is_valid(json.loads(use.arguments)) for schema in schemas)


def test_a_mind_without_end_would_be_noticed() -> None:
    endless = Called(lambda asked: Use("lookup_order", '{"order_id": "A-17"}'))
    assert len(talk(endless, "Where is A-17?", {"": Agent("", (LOOKUP,))}).says) > MOST_STEPS + 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(tools=TOOLS, said=SAID, thinks=st.booleans(), seed=st.integers(0, 50))
def test_the_same_prompt_gets_the_same_answer(tools: list[Tool], said: str, thinks: bool, seed: int) -> None:
    asked = prompt(said, *tools, thinks=thinks, seed=seed)
    first = Desk().reply(asked)
    Desk().reply(replace(asked, seed=seed + 1))
    assert Desk().reply(asked) == first


@given(
    heard=st.lists(
        st.builds(
            Heard,
            st.sampled_from(["system", "user", "assistant", "tool"]),
            st.text(max_size=10),
            st.lists(st.builds(Use, NAMES, st.text(max_size=5), st.text(max_size=2)), max_size=2).map(tuple),
            st.text(max_size=2),
            NAMES,
        ),
        max_size=8,
    ),
    choice=st.sampled_from(["auto", "none", "required", "lookup_order", "nobody"]),
)
def test_no_conversation_is_too_odd_to_answer(heard: list[Heard], choice: str) -> None:
    asked = Prompt("responses", "m", "\ud800", (LOOKUP, TO_REFUNDS), tuple(heard), choice=choice, thinks=True)
    assert len(Desk().reply(asked).items) >= 2
