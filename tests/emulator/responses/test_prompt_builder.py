"""The model's prompt from the effective input of a Responses request."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.fake_models.base import PromptMessage, PromptTool, ReplyCall
from tests.emulator.responses.adapter_client import NOW, PARAMETERS, TOOL, AdapterClient, make_outputs

CALL = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": '{"order": "A"}'}
OTHER = {**CALL, "call_id": "call_2", "arguments": '{"order": "B"}'}


def _list_messages(*items: dict[str, Any]) -> tuple[PromptMessage, ...]:
    return AdapterClient().make_prompt({"input": list(items)}).messages


def test_text_input_becomes_user_message() -> None:
    prompt = AdapterClient().make_prompt({"input": "Hello"})
    assert (prompt.api, prompt.model, prompt.last_user_text) == ("responses", "gpt-4o", "Hello")
    assert prompt.messages == (PromptMessage("user", "Hello"),)


def test_leading_system_messages_become_instructions() -> None:
    items = [
        {"role": "system", "content": "Be kind."},
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi"},
        {"role": "developer", "content": "Now be funny."},
    ]
    prompt = AdapterClient().make_prompt({"input": items, "instructions": "Be exact."})
    assert prompt.instructions == "Be exact.\n\nBe kind.\n\nBe brief."
    assert prompt.messages == (PromptMessage("user", "Hi"), PromptMessage("system", "Now be funny."))


def test_calls_join_the_text_before_them() -> None:
    """Calls belong to the assistant message before them, and outputs name their tool."""
    words = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "One moment."}]
    messages = _list_messages(*words, CALL, OTHER, *make_outputs([CALL, OTHER]))
    uses = (ReplyCall("look_up", '{"order": "A"}', "call_1"), ReplyCall("look_up", '{"order": "B"}', "call_2"))
    assert messages[1] == PromptMessage("assistant", "One moment.", uses)
    assert messages[2:] == (
        PromptMessage("tool", "shipped", call_id="call_1", tool="look_up"),
        PromptMessage("tool", "shipped", call_id="call_2", tool="look_up"),
    )


def test_calls_without_text_become_a_message() -> None:
    assert _list_messages(CALL, *make_outputs([CALL]))[0] == PromptMessage(
        "assistant", calls=(ReplyCall("look_up", '{"order": "A"}', "call_1"),)
    )


def test_custom_calls_and_outputs_become_messages() -> None:
    call = {"type": "custom_tool_call", "call_id": "call_1", "name": "sql", "input": "select 1"}
    output = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"}
    assert _list_messages(call, output) == (
        PromptMessage("assistant", calls=(ReplyCall("sql", "select 1", "call_1"),)),
        PromptMessage("tool", "1", call_id="call_1", tool="sql"),
    )


def test_parts_without_text_become_placeholders() -> None:
    parts = [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "input_file", "file_id": "file-1"},
    ]
    assert _list_messages({"role": "user", "content": parts}) == (PromptMessage("user", "Look:\n[image]\n[file]"),)


def test_output_in_parts_becomes_text() -> None:
    output = {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "shipped"}]}
    assert _list_messages(CALL, output)[-1].text == "shipped"


def test_only_client_tools_are_offered() -> None:
    tools = [{**TOOL, "description": "Finds an order."}, {"type": "web_search"}, {"type": "custom", "name": "sql"}]
    offered = AdapterClient().make_prompt({"tools": tools}).tools
    assert offered[0] == PromptTool("look_up", "Finds an order.", PARAMETERS)
    assert [tool.name for tool in offered] == ["look_up", "sql"]
    assert offered[1].schema["required"] == ["input"]


@pytest.mark.parametrize(
    ("tool_choice", "expected"),
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
def test_tool_choice_reaches_the_model(tool_choice: Any, expected: str) -> None:
    prompt = AdapterClient().make_prompt({"tools": [TOOL, {**TOOL, "name": "other"}], "tool_choice": tool_choice})
    assert prompt.tool_choice == expected
    narrowed = isinstance(tool_choice, dict) and tool_choice["type"] == "allowed_tools"
    assert [tool.name for tool in prompt.tools] == (["look_up"] if narrowed else ["look_up", "other"])


@pytest.mark.parametrize(
    ("body", "has_reasoning"),
    [
        ({"model": "gpt-4o"}, False),
        ({"model": "gpt-5"}, True),
        ({"model": "gpt-5.1", "reasoning": {"effort": "none"}}, False),
        ({"model": "o4-mini", "reasoning": {"effort": "low"}}, True),
    ],
)
def test_reasoning_depends_on_model_and_effort(body: dict[str, Any], has_reasoning: bool) -> None:
    assert AdapterClient().make_prompt(body).has_reasoning is has_reasoning


def test_text_format_becomes_output_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
    form = {"type": "json_schema", "name": "a", "schema": schema, "strict": True}
    assert AdapterClient().make_prompt({"text": {"format": form}}).output_schema == schema
    assert AdapterClient().make_prompt({"text": {"format": {"type": "json_object"}}, "input": "As JSON."}).output_schema == {
        "type": "object"
    }
    assert AdapterClient().make_prompt({}).output_schema is None


def test_parallel_tool_calls_reaches_the_model() -> None:
    assert AdapterClient().make_prompt({}).allows_parallel_calls
    assert not AdapterClient().make_prompt({"parallel_tool_calls": False}).allows_parallel_calls


def test_azure_path_names_the_model() -> None:
    client = AdapterClient()
    request = client.make_request({}, is_azure=True, now=NOW)
    del request.body["model"]
    request.deployment = "support-desk"
    assert client.adapter.find_violations(request) == []
    assert client.adapter.make_prompt(request).model == "support-desk"


def test_tools_in_namespaces_are_offered_once() -> None:
    group = {"type": "namespace", "name": "orders", "tools": [TOOL, {**TOOL, "name": "refund"}]}
    assert [tool.name for tool in AdapterClient().make_prompt({"tools": [group, TOOL]}).tools] == ["look_up", "refund"]
