"""The model's prompt from a Chat Completions request."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.fake_models.base import ModelPrompt, PromptMessage, PromptTool, ReplyCall
from tests.emulator.chat.request_factory import WEATHER, make_adapter, make_request

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"], "additionalProperties": False}


def test_leading_system_messages_become_instructions() -> None:
    messages = [
        {"role": "system", "content": "You are Ann."},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "The user is in Oslo."},
    ]
    prompt = make_adapter().make_prompt(make_request({"model": "gpt-4o", "messages": messages}))
    assert prompt.instructions == "You are Ann.\n\nBe brief."
    assert prompt.messages == (PromptMessage("user", "Hi"), PromptMessage("system", "The user is in Oslo."))
    assert (prompt.api, prompt.model, prompt.last_user_text) == ("chat", "gpt-4o", "Hi")


def test_calls_and_outputs_name_the_tool() -> None:
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}},
        {"id": "c2", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}},
    ]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c2", "content": "1"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "rain"}]},
    ]
    prompt = make_adapter().make_prompt(make_request({"model": "gpt-4o", "messages": messages}))
    assert prompt.messages[1:] == (
        PromptMessage("assistant", "", (ReplyCall("get_weather", '{"city": "Oslo"}', "c1"), ReplyCall("sql", "SELECT 1", "c2"))),
        PromptMessage("tool", "1", call_id="c2", tool="sql"),
        PromptMessage("tool", "rain", call_id="c1", tool="get_weather"),
    )


def test_deprecated_functions_become_tools() -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "3"},
    ]
    body = {"model": "gpt-4o", "messages": messages, "functions": [{"name": "f", "parameters": SCHEMA}], "function_call": {"name": "f"}}
    prompt = make_adapter().make_prompt(make_request(body))
    assert prompt.tools == (PromptTool("f", "", SCHEMA),)
    assert (prompt.tool_choice, prompt.allows_parallel_calls) == ("f", False)
    assert prompt.messages[1:] == (PromptMessage("assistant", "", (ReplyCall("f", "{}"),)), PromptMessage("tool", "3", tool="f"))


def test_parts_without_text_become_placeholders() -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:,"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    messages = make_adapter().make_prompt(make_request({"model": "gpt-4o", "messages": [{"role": "user", "content": parts}]})).messages
    assert messages == (PromptMessage("user", "What is this?\n[image]\n[audio]\n[file]"),)


def test_pictures_after_outputs_belong_to_them() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "take_photo", "arguments": "{}"}}]
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    opening = [
        {"role": "user", "content": "A photo, please"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "[picture: see below]"},
    ]

    def build(text: str) -> ModelPrompt:
        behind = {"role": "user", "content": [{"type": "text", "text": text}, picture]}
        return make_adapter().make_prompt(make_request({"model": "gpt-4o", "messages": [*opening, behind]}))

    assert build("Returned by take_photo:").messages[2:] == (
        PromptMessage("tool", "[picture: see below]\nReturned by take_photo:\n[image]", call_id="c1", tool="take_photo"),
    )
    assert build("Returned by take_photo:").last_user_text == "A photo, please"
    assert build("And what is this?").last_user_text == "And what is this?\n[image]"


OTHER = {"type": "function", "function": {"name": "other"}}


@pytest.mark.parametrize(
    ("choice", "expected", "tools"),
    [
        (None, "auto", ["get_weather", "other"]),
        ("auto", "auto", ["get_weather", "other"]),
        ("none", "none", ["get_weather", "other"]),
        ("required", "required", ["get_weather", "other"]),
        ({"type": "function", "function": {"name": "other"}}, "other", ["get_weather", "other"]),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [OTHER]}}, "required", ["other"]),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [OTHER]}}, "auto", ["other"]),
    ],
)
def test_tool_choice_reaches_the_model(choice: Any, expected: str, tools: list[str]) -> None:
    prompt = make_adapter().make_prompt(make_request(tools=[WEATHER, OTHER], tool_choice=choice))
    assert prompt.tool_choice == expected
    assert [tool.name for tool in prompt.tools] == tools


def test_parallel_calls_can_be_forbidden() -> None:
    assert make_adapter().make_prompt(make_request(tools=[WEATHER])).allows_parallel_calls is True
    assert make_adapter().make_prompt(make_request(tools=[WEATHER], parallel_tool_calls=False)).allows_parallel_calls is False


@pytest.mark.parametrize(
    ("format", "schema"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "json_schema", "json_schema": {"name": "bill", "strict": True, "schema": SCHEMA}}, SCHEMA),
        ({"type": "json_schema", "json_schema": {"name": "bill"}}, {"type": "object"}),
    ],
)
def test_response_format_becomes_output_schema(format: Any, schema: Any) -> None:
    assert make_adapter().make_prompt(make_request(response_format=format)).output_schema == schema


@pytest.mark.parametrize(("model", "effort", "has_reasoning"), [("gpt-4o", None, False), ("gpt-5", None, True), ("gpt-5", "none", False)])
def test_reasoning_depends_on_model_and_effort(model: str, effort: str | None, has_reasoning: bool) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": effort}
    assert make_adapter().make_prompt(make_request(body)).has_reasoning is has_reasoning


def test_azure_path_names_the_model() -> None:
    prompt = make_adapter().make_prompt(
        make_request({"messages": [{"role": "user", "content": "Hi"}]}, is_azure=True, deployment="my-gpt-5")
    )
    assert (prompt.model, prompt.has_reasoning) == ("my-gpt-5", True)
