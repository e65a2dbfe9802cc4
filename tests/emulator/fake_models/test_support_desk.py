"""The support desk: believable conversations that always end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from legato.emulator.fake_models import (
    FunctionModel,
    ModelPrompt,
    PromptMessage,
    PromptTool,
    ReplyCall,
    ReplyText,
    ReplyThought,
    SupportDesk,
)
from legato.emulator.fake_models.support_desk import MAX_CALL_TURNS, MAX_PARALLEL_CALLS, find_handoff_target
from tests.emulator.fake_models.conversations import Agent, list_calls, make_prompt, make_tool, run_conversation
from tests.emulator.fake_models.random_schemas import DEFINITIONS, SCHEMAS, USER_TEXTS, tool_schemas

LOOKUP = make_tool("lookup_order", "Find an order by its id", order_id="string")
REFUND = make_tool("refund_order", "Pay the money of an order back", order_id="string", amount="number")
WEATHER = make_tool("get_weather", "The weather of a city", city="string")
SEARCH = make_tool("web_search", "Search the web for sources", query="string")
TO_REFUNDS = make_tool("handoff_to_refunds", "Refunds: gives money back")
TO_TRIAGE = make_tool("handoff_to_triage", "Sorts questions")

DESK = {
    "": Agent("You are the triage agent. Hand refunds to refunds.", (TO_REFUNDS, LOOKUP)),
    "handoff_to_refunds": Agent("You are the refunds specialist.", (TO_TRIAGE, LOOKUP, REFUND)),
    "handoff_to_triage": Agent("You are the triage agent. Hand refunds to refunds.", (TO_REFUNDS, LOOKUP)),
}
TEAM = {
    "": Agent(
        "You are the coordinator.", (make_tool("transfer_to_researcher", "Finds sources"), make_tool("transfer_to_writer", "Writes texts"))
    ),
    "transfer_to_researcher": Agent("You are the researcher.", (SEARCH, make_tool("transfer_to_writer", "Writes texts"))),
    "transfer_to_writer": Agent("You are the writer."),
}
ORDER = '{"order_id": "A-17", "status": "delivered", "amount": 49.9}'


def test_refund_is_handed_off_and_paid() -> None:
    """A refund is handed off, looked up and paid, and the outputs are summarized."""
    outputs = {"lookup_order": ORDER, "refund_order": "refunded 49.90"}
    result = run_conversation(SupportDesk(), "Please refund order A-17, the teapot arrived broken.", DESK, outputs)
    assert result.called_tools == [["handoff_to_refunds"], ["lookup_order"], ["refund_order"]]
    assert json.loads(list_calls(result.replies[2])[0].arguments) == {
        "order_id": "A-17",
        "amount": 49.9,
    }  # the amount comes from the lookup's output
    assert "status is delivered" in result.last_text
    assert "refunded 49.90" in result.last_text


def test_own_task_is_not_handed_off() -> None:
    result = run_conversation(SupportDesk(), "Where is my parcel A-17?", DESK, {"lookup_order": ORDER})
    assert result.called_tools == [["lookup_order"]]


def test_research_team_searches_before_writing() -> None:
    result = run_conversation(
        SupportDesk(), "Research solar power and write a report", TEAM, {"web_search": '["Solar is cheap", "Solar grows"]'}
    )
    assert result.called_tools == [["transfer_to_researcher"], ["web_search"], ["transfer_to_writer"]]
    assert "Solar is cheap; Solar grows" in result.last_text


def test_relevant_tools_are_called_in_parallel() -> None:
    reply = SupportDesk().reply(make_prompt("Compare the weather in Paris with order A-17", WEATHER, LOOKUP, SEARCH))
    assert [(call.tool, json.loads(call.arguments)) for call in list_calls(reply)] == [
        ("get_weather", {"city": "Paris"}),
        ("lookup_order", {"order_id": "A-17"}),
    ]


def test_one_tool_is_called_per_entity() -> None:
    reply = SupportDesk().reply(make_prompt("What is the weather in Paris and London?", WEATHER))
    assert [json.loads(call.arguments)["city"] for call in list_calls(reply)] == ["Paris", "London"]


@pytest.mark.parametrize("user_text", ["What is the weather in Paris and London?", "The weather in Paris, and order A-17?"])
def test_one_call_without_parallel_calls(user_text: str) -> None:
    result = run_conversation(SupportDesk(), user_text, {"": Agent("", (WEATHER, LOOKUP))}, allows_parallel_calls=False)
    assert all(len(calls) == 1 for calls in result.called_tools)
    assert result.called_tools


def test_tool_choice_none_calls_nothing() -> None:
    assert list_calls(SupportDesk().reply(make_prompt("Where is order A-17?", LOOKUP, tool_choice="none"))) == []


@pytest.mark.parametrize("user_text", ["Hello!", "", "Where is order A-17?", "Do you sell elephants?"])
def test_tool_choice_required_always_calls(user_text: str) -> None:
    assert list_calls(SupportDesk().reply(make_prompt(user_text, TO_REFUNDS, LOOKUP, tool_choice="required")))


@pytest.mark.parametrize("name", ["lookup_order", "handoff_to_refunds", "get_weather"])
def test_named_tool_choice_calls_only_that_tool(name: str) -> None:
    reply = SupportDesk().reply(make_prompt("Where is order A-17?", LOOKUP, TO_REFUNDS, WEATHER, tool_choice=name))
    assert [call.tool for call in list_calls(reply)] == [name]


def test_reasoning_comes_before_the_reply() -> None:
    for user_text, tools in (("Where is order A-17?", (LOOKUP,)), ("Hello", ()), ("A refund!", (TO_REFUNDS,))):
        items = SupportDesk().reply(make_prompt(user_text, *tools, has_reasoning=True)).items
        assert isinstance(items[0], ReplyThought)
        assert not any(isinstance(item, ReplyThought) for item in items[1:])
    assert not any(isinstance(item, ReplyThought) for item in SupportDesk().reply(make_prompt("Hello")).items)


@pytest.mark.parametrize("seed", range(8))
def test_reply_without_tools_repeats_the_question(seed: int) -> None:
    reply = SupportDesk().reply(make_prompt("Do you sell blue elephants?", TO_TRIAGE, seed=seed))
    assert "blue elephants" in reply.items[0].text  # type: ignore[union-attr]  # it can only be text


@pytest.mark.parametrize(
    ("user_text", "expected"),
    [("Hello!", "How can I help"), ("", "How can I help"), ("Thanks a lot, bye", "welcome"), ("Good morning", "How can I help")],
)
def test_small_talk_is_answered_without_tools(user_text: str, expected: str) -> None:
    reply = SupportDesk().reply(make_prompt(user_text, LOOKUP, SEARCH))
    assert isinstance(reply.items[0], ReplyText)
    assert expected in reply.items[0].text


@pytest.mark.parametrize("seed", range(8))
def test_continue_request_ends_the_agents_part(seed: int) -> None:
    """Otherwise agents that work autonomously would hand off to one another forever."""
    to_lead = make_tool("handoff_to_lead", "Hand the conversation over to lead. Leads the team.")
    reply = SupportDesk().reply(
        make_prompt("Go on with your task. When your part is done, hand over or say so.", to_lead, SEARCH, seed=seed)
    )
    assert [item for item in reply.items if not isinstance(item, ReplyThought)] == [ReplyText("I have nothing to add: my part is done.")]


def test_continue_request_with_object_calls_tool() -> None:
    assert list_calls(SupportDesk().reply(make_prompt("Please continue with order A-17", LOOKUP)))[0].tool == "lookup_order"


def test_irrelevant_tool_is_sometimes_tried() -> None:
    """By seed, a lookup is sometimes tried although nothing in the text suggests it."""
    attempts = [list_calls(SupportDesk().reply(make_prompt("Do you sell elephants?", SEARCH, seed=seed))) for seed in range(60)]
    assert 3 < len([calls for calls in attempts if calls]) < 40


def test_tool_error_is_reported_as_error() -> None:
    result = run_conversation(SupportDesk(), "Where is order A-17?", {"": Agent("", (LOOKUP,))}, {"lookup_order": "Error: no such order"})
    assert "did not work: Error: no such order" in result.last_text


def test_entity_of_earlier_message_is_used() -> None:
    earlier_messages = (PromptMessage("user", "My order is A-17."), PromptMessage("assistant", "Thank you. What about it?"))
    result = run_conversation(SupportDesk(), "Please look the order up", {"": Agent("", (LOOKUP,))}, earlier_messages=earlier_messages)
    assert json.loads(list_calls(result.replies[0])[0].arguments) == {"order_id": "A-17"}


@pytest.mark.parametrize("seed", range(8))
def test_new_topic_is_handed_back_once(seed: int) -> None:
    """An agent that was handed to hands another topic back, once, to the agent that sorts questions."""
    agents = {
        "": Agent("You give money back.", (TO_TRIAGE,)),
        "handoff_to_triage": Agent("You sort questions.", (TO_REFUNDS, make_tool("handoff_to_weather", "Knows the weather"))),
        "handoff_to_weather": Agent("You know the weather.", (WEATHER, TO_TRIAGE)),
        "handoff_to_refunds": Agent("You give money back.", (TO_TRIAGE,)),
    }
    earlier_messages = (
        PromptMessage("user", "I want a refund"),
        PromptMessage("assistant", calls=(ReplyCall("handoff_to_refunds", "{}", "c1"),)),
        PromptMessage("tool", "Control passed to refunds.", tool="handoff_to_refunds", call_id="c1"),
        PromptMessage("assistant", "It is on its way."),
    )
    result = run_conversation(
        SupportDesk(), "What is the weather in Paris?", agents, {"get_weather": "sunny"}, earlier_messages=earlier_messages, seed=seed
    )
    assert result.called_tools == [["handoff_to_triage"], ["handoff_to_weather"], ["get_weather"]]
    for unknown in ("Do you sell blue elephants?", "Elephants!"):
        result = run_conversation(SupportDesk(), unknown, agents, earlier_messages=earlier_messages, seed=seed)
        assert result.called_tools == [["handoff_to_triage"]]
    assert run_conversation(SupportDesk(), "Thanks a lot, bye", agents, earlier_messages=earlier_messages, seed=seed).called_tools == []


def test_each_agent_gets_one_handoff_per_message() -> None:
    """Two agents that both believe refunds are the other agent's task."""
    agents = {
        "": Agent("You are a clerk.", (make_tool("transfer_to_b", "refunds"),)),
        "transfer_to_a": Agent("You are a clerk.", (make_tool("transfer_to_b", "refunds"),)),
        "transfer_to_b": Agent("You are another clerk.", (make_tool("transfer_to_a", "refunds"),)),
    }
    result = run_conversation(SupportDesk(), "I want a refund", agents)
    assert result.called_tools == [["transfer_to_b"], ["transfer_to_a"]]
    second = run_conversation(SupportDesk(), "I still want a refund", agents, earlier_messages=result.messages)
    assert second.called_tools == result.called_tools  # after another user message it may be handed to again


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
def test_handoff_target_comes_from_tool_name(name: str, schema: dict[str, Any], expected: str) -> None:
    assert find_handoff_target(name, schema) == expected


def test_delegation_output_is_summarized() -> None:
    agents = {"": Agent("You lead.", (make_tool("delegate_to_researcher", "Researches", task="string"),))}
    result = run_conversation(SupportDesk(), "Please research tea", agents, {"delegate_to_researcher": "Tea is a drink."})
    assert result.called_tools == [["delegate_to_researcher"]]
    assert "Tea is a drink." in result.last_text


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(schema=SCHEMAS, user_text=USER_TEXTS, seed=st.integers(0, 5))
def test_structured_output_is_valid_for_schema(schema: dict[str, Any], user_text: str, seed: int) -> None:
    root_schema = {**schema, "$defs": DEFINITIONS}
    reply = SupportDesk().reply(make_prompt(user_text, output_schema=root_schema, seed=seed))
    assert isinstance(reply.items[-1], ReplyText)
    assert list(Draft202012Validator(root_schema).iter_errors(json.loads(reply.items[-1].text))) == []


def test_any_json_object_contains_the_answer() -> None:
    reply = SupportDesk().reply(make_prompt("Hello", output_schema={"type": "object"}))
    assert json.loads(reply.items[0].text) == {"answer": "Hello! How can I help you today?"}  # type: ignore[union-attr]  # it is text


NAMES = st.sampled_from(
    ["lookup_order", "refund_order", "get_weather", "web_search", "handoff_to_refunds", "transfer_to_orders", "transfer_weather", "", "x"]
)
DESCRIPTIONS = st.sampled_from(["", "orders and refunds", "weather"])
TOOLS = st.lists(st.builds(PromptTool, NAMES | st.text(max_size=8), DESCRIPTIONS, tool_schemas()), max_size=6)


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    agents=st.lists(st.builds(Agent, st.sampled_from(["", "You are the refunds agent."]), TOOLS.map(tuple)), min_size=1, max_size=3),
    user_text=st.sampled_from(["Refund order A-17 and tell me the weather in Paris", "search the web", "", "Hello"]) | USER_TEXTS,
    output=st.sampled_from(["done", "", "Error: no", '{"a": [1, {"b": null}]}', "[" * 50]) | st.text(max_size=20),
    allows_parallel_calls=st.booleans(),
    seed=st.integers(0, 50),
)
def test_conversation_ends_with_any_tools(agents: list[Agent], user_text: str, output: str, allows_parallel_calls: bool, seed: int) -> None:
    names = sorted({each.name for agent in agents for each in agent.tools if find_handoff_target(each.name)})
    agents_by_handoff = {"": agents[0]} | {name: agents[index % len(agents)] for index, name in enumerate(names)}
    result = run_conversation(
        SupportDesk(), user_text, agents_by_handoff, lambda call: output, allows_parallel_calls=allows_parallel_calls, seed=seed
    )
    assert len(result.replies) <= MAX_CALL_TURNS + 1
    assert result.last_text
    for reply in result.replies:
        assert len(list_calls(reply)) <= (MAX_PARALLEL_CALLS if allows_parallel_calls else 1)
        for call in list_calls(reply):
            schemas = [each.schema for agent in agents for each in agent.tools if each.name == call.tool]
            assert any(Draft202012Validator(schema).is_valid(json.loads(call.arguments)) for schema in schemas)


def test_endless_model_exceeds_the_turn_limit() -> None:
    endless = FunctionModel(lambda prompt: ReplyCall("lookup_order", '{"order_id": "A-17"}'))
    assert len(run_conversation(endless, "Where is A-17?", {"": Agent("", (LOOKUP,))}).replies) > MAX_CALL_TURNS + 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(tools=TOOLS, user_text=USER_TEXTS, has_reasoning=st.booleans(), seed=st.integers(0, 50))
def test_same_prompt_gets_same_reply(tools: list[PromptTool], user_text: str, has_reasoning: bool, seed: int) -> None:
    prompt = make_prompt(user_text, *tools, has_reasoning=has_reasoning, seed=seed)
    first = SupportDesk().reply(prompt)
    SupportDesk().reply(replace(prompt, seed=seed + 1))
    assert SupportDesk().reply(prompt) == first


@given(
    messages=st.lists(
        st.builds(
            PromptMessage,
            st.sampled_from(["system", "user", "assistant", "tool"]),
            st.text(max_size=10),
            st.lists(st.builds(ReplyCall, NAMES, st.text(max_size=5), st.text(max_size=2)), max_size=2).map(tuple),
            st.text(max_size=2),
            NAMES,
        ),
        max_size=8,
    ),
    choice=st.sampled_from(["auto", "none", "required", "lookup_order", "unknown_tool"]),
)
def test_any_conversation_gets_a_reply(messages: list[PromptMessage], choice: str) -> None:
    prompt = ModelPrompt("responses", "m", "\ud800", (LOOKUP, TO_REFUNDS), tuple(messages), tool_choice=choice, has_reasoning=True)
    assert len(SupportDesk().reply(prompt).items) >= 2
