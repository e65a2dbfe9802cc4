"""What the model is given, in terms that belong to no API."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.minds.base import Heard, Tool, Use
from tests.emulator.responses.bench import NOW, PARAMETERS, TOOL, Bench, returned

CALL = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": '{"order": "A"}'}
OTHER = {**CALL, "call_id": "call_2", "arguments": '{"order": "B"}'}


def _heard(*items: dict[str, Any]) -> tuple[Heard, ...]:
    return Bench().prompt({"input": list(items)}).heard


def test_a_text_is_what_the_user_said() -> None:
    prompt = Bench().prompt({"input": "Hello"})
    assert (prompt.api, prompt.model, prompt.said) == ("responses", "gpt-4o", "Hello")
    assert prompt.heard == (Heard("user", "Hello"),)


def test_system_messages_that_open_the_input_are_instructions() -> None:
    items = [
        {"role": "system", "content": "Be kind."},
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi"},
        {"role": "developer", "content": "Now be funny."},
    ]
    prompt = Bench().prompt({"input": items, "instructions": "Be exact."})
    assert prompt.instructions == "Be exact.\n\nBe kind.\n\nBe brief."
    assert prompt.heard == (Heard("user", "Hi"), Heard("system", "Now be funny."))


def test_calls_belong_to_the_words_before_them_and_outputs_name_their_tool() -> None:
    words = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "One moment."}]
    heard = _heard(*words, CALL, OTHER, *returned([CALL, OTHER]))
    uses = (Use("look_up", '{"order": "A"}', "call_1"), Use("look_up", '{"order": "B"}', "call_2"))
    assert heard[1] == Heard("assistant", "One moment.", uses)
    assert heard[2:] == (Heard("tool", "shipped", call="call_1", tool="look_up"), Heard("tool", "shipped", call="call_2", tool="look_up"))


def test_calls_without_words_are_heard_as_well() -> None:
    assert _heard(CALL, *returned([CALL]))[0] == Heard("assistant", uses=(Use("look_up", '{"order": "A"}', "call_1"),))


def test_a_custom_tools_call_and_output_are_heard() -> None:
    call = {"type": "custom_tool_call", "call_id": "call_1", "name": "sql", "input": "select 1"}
    output = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"}
    assert _heard(call, output) == (
        Heard("assistant", uses=(Use("sql", "select 1", "call_1"),)),
        Heard("tool", "1", call="call_1", tool="sql"),
    )


def test_what_is_not_text_is_named() -> None:
    parts = [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "input_file", "file_id": "file-1"},
    ]
    assert _heard({"role": "user", "content": parts}) == (Heard("user", "Look:\n[image]\n[file]"),)


def test_an_output_in_parts_is_heard_as_text() -> None:
    output = {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "shipped"}]}
    assert _heard(CALL, output)[-1].text == "shipped"


def test_functions_are_offered_and_what_the_provider_runs_is_not() -> None:
    tools = [{**TOOL, "description": "Finds an order."}, {"type": "web_search"}, {"type": "custom", "name": "sql"}]
    offered = Bench().prompt({"tools": tools}).tools
    assert offered[0] == Tool("look_up", "Finds an order.", PARAMETERS)
    assert [tool.name for tool in offered] == ["look_up", "sql"]
    assert offered[1].schema["required"] == ["input"]


@pytest.mark.parametrize(
    ("asked", "choice"),
    [
        (None, "auto"),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "look_up"}, "look_up"),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "look_up"}]}, "required"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look_up"}]}, "auto"),
    ],
)
def test_the_choice_of_tools_is_passed_on(asked: Any, choice: str) -> None:
    prompt = Bench().prompt({"tools": [TOOL, {**TOOL, "name": "other"}], "tool_choice": asked})
    assert prompt.choice == choice
    narrowed = isinstance(asked, dict) and asked["type"] == "allowed_tools"
    assert [tool.name for tool in prompt.tools] == (["look_up"] if narrowed else ["look_up", "other"])


@pytest.mark.parametrize(
    ("body", "thinks"),
    [
        ({"model": "gpt-4o"}, False),
        ({"model": "gpt-5"}, True),
        ({"model": "gpt-5.1", "reasoning": {"effort": "none"}}, False),
        ({"model": "o4-mini", "reasoning": {"effort": "low"}}, True),
    ],
)
def test_a_model_that_reasons_is_asked_to_think(body: dict[str, Any], thinks: bool) -> None:
    assert Bench().prompt(body).thinks is thinks


def test_the_wanted_form_of_the_text_is_passed_on() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
    form = {"type": "json_schema", "name": "a", "schema": schema, "strict": True}
    assert Bench().prompt({"text": {"format": form}}).schema == schema
    assert Bench().prompt({"text": {"format": {"type": "json_object"}}, "input": "As JSON."}).schema == {"type": "object"}
    assert Bench().prompt({}).schema is None


def test_whether_calls_may_be_parallel_is_passed_on() -> None:
    assert Bench().prompt({}).parallel
    assert not Bench().prompt({"parallel_tool_calls": False}).parallel


def test_on_azure_the_path_names_the_model_whatever_it_is_called() -> None:
    bench = Bench()
    ask = bench.ask({}, azure=True, now=NOW)
    del ask.body["model"]
    ask.deployment = "support-desk"
    assert bench.dialect.judge(ask) == []
    assert bench.dialect.prompt(ask).model == "support-desk"


def test_tools_in_namespaces_are_offered_once() -> None:
    group = {"type": "namespace", "name": "orders", "tools": [TOOL, {**TOOL, "name": "refund"}]}
    assert [tool.name for tool in Bench().prompt({"tools": [group, TOOL]}).tools] == ["look_up", "refund"]
