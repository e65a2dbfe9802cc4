"""What a Messages request gives the model."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.minds.base import Heard, Tool, Use
from tests.emulator.anthropic.asking import WEATHER, ask, dialect

SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"], "additionalProperties": False}


@pytest.mark.parametrize("system", ["You are Ann.", [{"type": "text", "text": "You are Ann.", "cache_control": {"type": "ephemeral"}}]])
def test_the_system_prompt_is_the_instructions(system: Any) -> None:
    prompt = dialect().prompt(ask(system=system))
    assert prompt.instructions == "You are Ann."
    assert prompt.heard == (Heard("user", "Hello"),)
    assert (prompt.api, prompt.model, prompt.said) == ("anthropic", "claude-sonnet-5", "Hello")


def test_calls_and_their_results_name_the_tool() -> None:
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
    assert dialect().prompt(ask(messages=messages)).heard == (
        Heard("user", "Hi"),
        Heard("assistant", "Let me look.", (Use("get_weather", '{"city":"Oslo"}', "t1"),)),
        Heard("tool", "rain\n[image]", call="t1", tool="get_weather"),
        Heard("user", "And Rome?"),
        Heard("system", "The user is in Oslo."),
    )


def test_only_tools_that_the_client_runs_are_offered() -> None:
    tools = [
        WEATHER,
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "custom", "name": "plain"},
    ]
    offered = dialect().prompt(ask(tools=tools)).tools
    assert [tool.name for tool in offered] == ["get_weather", "bash", "plain"]
    assert offered[0] == Tool("get_weather", "Weather of a city", WEATHER["input_schema"])


@pytest.mark.parametrize(
    ("choice", "means", "parallel"),
    [
        (None, "auto", True),
        ({"type": "auto"}, "auto", True),
        ({"type": "auto", "disable_parallel_tool_use": True}, "auto", False),
        ({"type": "any"}, "required", True),
        ({"type": "none"}, "none", True),
        ({"type": "tool", "name": "get_weather"}, "get_weather", True),
    ],
)
def test_the_choice_of_tools_reaches_the_model(choice: Any, means: str, parallel: bool) -> None:
    prompt = dialect().prompt(ask(tools=[WEATHER], tool_choice=choice))
    assert (prompt.choice, prompt.parallel) == (means, parallel)


RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "rain"}]}


@pytest.mark.parametrize(
    ("thinking", "last", "thinks"),
    [
        (None, None, False),
        ({"type": "disabled"}, None, False),
        ({"type": "adaptive"}, None, True),
        ({"type": "enabled", "budget_tokens": 1024}, None, True),
        ({"type": "between_tools"}, None, False),
        ({"type": "between_tools"}, RESULT, True),
    ],
)
def test_the_model_thinks_when_it_is_asked_to(thinking: Any, last: Any, thinks: bool) -> None:
    messages = [{"role": "user", "content": "Hi"}, *([last] if last else [])]
    assert dialect().prompt(ask(thinking=thinking, messages=messages)).thinks is thinks


def test_structured_output_gives_the_model_a_schema() -> None:
    format = {"type": "json_schema", "schema": SCHEMA}
    assert dialect().prompt(ask(output_config={"format": format})).schema == SCHEMA
    assert dialect().prompt(ask(output_config={"effort": "low"})).schema is None


def test_the_systems_words_for_one_turn_are_gone_when_the_user_has_spoken_again() -> None:
    brief = {"role": "system", "content": "Be brief.", "clear_at": "next_user_message"}
    kept = {"role": "system", "content": "Be kind.", "clear_at": "never"}
    tried = {"role": "system", "output_config": {"effort": "low"}}
    said = {"role": "user", "content": "Hi"}
    answered = {"role": "assistant", "content": "Yes?"}
    now, later = [said, brief, kept, tried], [said, brief, kept, tried, answered, said]
    assert [heard.text for heard in dialect().prompt(ask(messages=now)).heard] == ["Hi", "Be brief.", "Be kind."]
    assert [heard.text for heard in dialect().prompt(ask(messages=later)).heard] == ["Hi", "Be kind.", "Yes?", "Hi"]
