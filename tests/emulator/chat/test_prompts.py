"""What a Chat Completions request gives the model."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.minds.base import Heard, Tool, Use
from tests.emulator.chat.asking import WEATHER, ask, dialect

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"], "additionalProperties": False}


def test_the_opening_system_messages_are_the_instructions_and_later_ones_are_heard() -> None:
    messages = [
        {"role": "system", "content": "You are Ann."},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "The user is in Oslo."},
    ]
    prompt = dialect().prompt(ask({"model": "gpt-4o", "messages": messages}))
    assert prompt.instructions == "You are Ann.\n\nBe brief."
    assert prompt.heard == (Heard("user", "Hi"), Heard("system", "The user is in Oslo."))
    assert (prompt.api, prompt.model, prompt.said) == ("chat", "gpt-4o", "Hi")


def test_calls_and_their_outputs_name_the_tool() -> None:
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
    heard = dialect().prompt(ask({"model": "gpt-4o", "messages": messages})).heard
    assert heard[1:] == (
        Heard("assistant", "", (Use("get_weather", '{"city": "Oslo"}', "c1"), Use("sql", "SELECT 1", "c2"))),
        Heard("tool", "1", call="c2", tool="sql"),
        Heard("tool", "rain", call="c1", tool="get_weather"),
    )


def test_deprecated_functions_are_tools_as_well() -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "3"},
    ]
    body = {"model": "gpt-4o", "messages": messages, "functions": [{"name": "f", "parameters": SCHEMA}], "function_call": {"name": "f"}}
    prompt = dialect().prompt(ask(body))
    assert prompt.tools == (Tool("f", "", SCHEMA),)
    assert (prompt.choice, prompt.parallel) == ("f", False)
    assert prompt.heard[1:] == (Heard("assistant", "", (Use("f", "{}"),)), Heard("tool", "3", tool="f"))


def test_what_is_no_text_is_heard_as_what_it_is() -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:,"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    heard = dialect().prompt(ask({"model": "gpt-4o", "messages": [{"role": "user", "content": parts}]})).heard
    assert heard == (Heard("user", "What is this?\n[image]\n[audio]\n[file]"),)


def test_pictures_behind_outputs_belong_to_them() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "take_photo", "arguments": "{}"}}]
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    opening = [
        {"role": "user", "content": "A photo, please"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "[picture: see below]"},
    ]

    def hear(text: str) -> Any:
        behind = {"role": "user", "content": [{"type": "text", "text": text}, picture]}
        return dialect().prompt(ask({"model": "gpt-4o", "messages": [*opening, behind]}))

    assert hear("Returned by take_photo:").heard[2:] == (
        Heard("tool", "[picture: see below]\nReturned by take_photo:\n[image]", call="c1", tool="take_photo"),
    )
    assert hear("Returned by take_photo:").said == "A photo, please"
    assert hear("And what is this?").said == "And what is this?\n[image]"


OTHER = {"type": "function", "function": {"name": "other"}}


@pytest.mark.parametrize(
    ("choice", "means", "offered"),
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
def test_the_choice_of_tools_reaches_the_model(choice: Any, means: str, offered: list[str]) -> None:
    prompt = dialect().prompt(ask(tools=[WEATHER, OTHER], tool_choice=choice))
    assert prompt.choice == means
    assert [tool.name for tool in prompt.tools] == offered


def test_parallel_calls_can_be_forbidden() -> None:
    assert dialect().prompt(ask(tools=[WEATHER])).parallel is True
    assert dialect().prompt(ask(tools=[WEATHER], parallel_tool_calls=False)).parallel is False


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
def test_structured_output_gives_the_model_a_schema(format: Any, schema: Any) -> None:
    assert dialect().prompt(ask(response_format=format)).schema == schema


@pytest.mark.parametrize(("model", "effort", "thinks"), [("gpt-4o", None, False), ("gpt-5", None, True), ("gpt-5", "none", False)])
def test_reasoning_models_think_unless_told_not_to(model: str, effort: str | None, thinks: bool) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": effort}
    assert dialect().prompt(ask(body)).thinks is thinks


def test_an_azure_path_names_the_model() -> None:
    prompt = dialect().prompt(ask({"messages": [{"role": "user", "content": "Hi"}]}, azure=True, deployment="my-gpt-5"))
    assert (prompt.model, prompt.thinks) == ("my-gpt-5", True)
