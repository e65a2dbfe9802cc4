"""The model's prompt from a Messages request."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.fake_models.base import PromptMessage, PromptTool, ReplyCall
from tests.emulator.anthropic.request_factory import WEATHER, make_adapter, make_request

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"], "additionalProperties": False}


@pytest.mark.parametrize("system", ["You are Ann.", [{"type": "text", "text": "You are Ann.", "cache_control": {"type": "ephemeral"}}]])
def test_system_prompt_becomes_instructions(system: Any) -> None:
    prompt = make_adapter().make_prompt(make_request(system=system))
    assert prompt.instructions == "You are Ann."
    assert prompt.messages == (PromptMessage("user", "Hello"),)
    assert (prompt.api, prompt.model, prompt.last_user_text) == ("anthropic", "claude-sonnet-5", "Hello")


def test_calls_and_results_name_the_tool() -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "x"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}, {"type": "image"}]},
                {"type": "text", "text": "And Rome?"},
            ],
        },
        {"role": "system", "content": "The user is in Oslo."},
    ]
    assert make_adapter().make_prompt(make_request(messages=messages)).messages == (
        PromptMessage("user", "Hi"),
        PromptMessage("assistant", "Let me look.", (ReplyCall("get_weather", '{"city":"Oslo"}', "t1"),)),
        PromptMessage("tool", "rain\n[image]", call_id="t1", tool="get_weather"),
        PromptMessage("user", "And Rome?"),
        PromptMessage("system", "The user is in Oslo."),
    )


def test_only_client_tools_are_offered() -> None:
    tools = [
        WEATHER,
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "custom", "name": "plain"},
    ]
    prompt_tools = make_adapter().make_prompt(make_request(tools=tools)).tools
    assert [tool.name for tool in prompt_tools] == ["get_weather", "bash", "plain"]
    assert prompt_tools[0] == PromptTool("get_weather", "Weather of a city", WEATHER["input_schema"])


@pytest.mark.parametrize(
    ("choice", "expected", "allows_parallel_calls"),
    [
        (None, "auto", True),
        ({"type": "auto"}, "auto", True),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", False),
        ({"type": "any"}, "required", True),
        ({"type": "none"}, "none", True),
        ({"type": "tool", "name": "get_weather"}, "get_weather", True),
    ],
)
def test_tool_choice_reaches_the_model(choice: Any, expected: str, allows_parallel_calls: bool) -> None:
    prompt = make_adapter().make_prompt(make_request(tools=[WEATHER], tool_choice=choice))
    assert (prompt.tool_choice, prompt.allows_parallel_calls) == (expected, allows_parallel_calls)


RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "rain"}]}


@pytest.mark.parametrize(
    ("thinking", "last", "has_reasoning"),
    [
        (None, None, False),
        ({"type": "disabled"}, None, False),
        ({"type": "adaptive"}, None, True),
        ({"type": "enabled", "budget_tokens": 1024}, None, True),
        ({"type": "between_tools"}, None, False),
        ({"type": "between_tools"}, RESULT, True),
    ],
)
def test_thinking_parameter_enables_reasoning(thinking: Any, last: Any, has_reasoning: bool) -> None:
    messages = [{"role": "user", "content": "Hi"}, *([last] if last else [])]
    assert make_adapter().make_prompt(make_request(thinking=thinking, messages=messages)).has_reasoning is has_reasoning


def test_output_format_becomes_output_schema() -> None:
    format = {"type": "json_schema", "schema": SCHEMA}
    assert make_adapter().make_prompt(make_request(output_config={"format": format})).output_schema == SCHEMA
    assert make_adapter().make_prompt(make_request(output_config={"effort": "low"})).output_schema is None


def test_system_message_clears_at_next_user_message() -> None:
    brief = {"role": "system", "content": "Be brief.", "clear_at": "next_user_message"}
    never_cleared = {"role": "system", "content": "Be kind.", "clear_at": "never"}
    without_content = {"role": "system", "output_config": {"effort": "low"}}
    user_message = {"role": "user", "content": "Hi"}
    reply = {"role": "assistant", "content": "Yes?"}
    now = [user_message, brief, never_cleared, without_content]
    later = [*now, reply, user_message]
    adapter = make_adapter()
    assert [message.text for message in adapter.make_prompt(make_request(messages=now)).messages] == ["Hi", "Be brief.", "Be kind."]
    assert [message.text for message in adapter.make_prompt(make_request(messages=later)).messages] == ["Hi", "Be kind.", "Yes?", "Hi"]
