"""An emulator with a state file is stopped and started again."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from legato.emulator import serve
from legato.errors import BadInput
from tests.emulator.conftest import clerk, connect

THINKER = "gpt-5"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[Any] = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
CLAUDE_TOOLS: list[Any] = [{"name": "get_weather", "input_schema": SCHEMA}]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "held.db"


def outputs(response: Any) -> list[Any]:
    calls = [item.call_id for item in response.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": call, "output": "sunny"} for call in calls]


def test_chains_conversations_and_reasoning_survive(state: Path) -> None:
    stateless: dict[str, Any] = {"model": THINKER, "store": False, "include": ["reasoning.encrypted_content"]}
    with serve(mind=clerk, state=state) as emulator, connect(emulator) as client:
        first = client.responses.create(model=THINKER, input="What is the weather?", tools=TOOLS)
        gone = client.responses.create(model=THINKER, input="Delete me")
        client.responses.delete(gone.id)
        talk = client.conversations.create(items=[{"role": "user", "content": "I am Ann."}]).id
        asked = client.responses.create(model=THINKER, input="What is the weather?", tools=TOOLS, conversation=talk)
        sealed = client.responses.create(input="Hi", **stateless)
    with serve(mind=clerk, state=state) as emulator, connect(emulator) as client:
        second = client.responses.create(model=THINKER, input=outputs(first), tools=TOOLS, previous_response_id=first.id)
        assert second.output_text == "It is sunny and sunny."
        assert client.responses.retrieve(first.id).output == first.output
        referred: list[Any] = [{"type": "item_reference", "id": item.id} for item in first.output]
        assert client.responses.create(model=THINKER, input=[*referred, *outputs(first)], tools=TOOLS).status == "completed"
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(gone.id)
        with pytest.raises(openai.BadRequestError, match="No tool output found for function call"):
            client.responses.create(model=THINKER, input="Well?", tools=TOOLS, conversation=talk)
        client.responses.create(model=THINKER, input=outputs(asked), tools=TOOLS, conversation=talk)
        kinds = [item.type for item in client.conversations.items.list(talk, order="asc")]
        assert kinds.count("message") == 3
        replay: list[Any] = [{"role": "user", "content": "Hi"}, *sealed.output, {"role": "user", "content": "And?"}]
        assert client.responses.create(input=replay, **stateless).status == "completed"


def test_signatures_of_thinking_survive(state: Path) -> None:
    asked: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 500, "tools": CLAUDE_TOOLS, "thinking": {"type": "adaptive"}}
    messages: list[Any] = [{"role": "user", "content": "What is the weather?"}]
    for turn in range(2):
        with (
            serve(mind=clerk, state=state, seed=turn) as emulator,
            anthropic.Anthropic(base_url=emulator.url, api_key="k", max_retries=0) as claude,
        ):
            message = claude.messages.create(**asked, messages=messages)
        uses = [block for block in message.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": "sunny"} for use in uses]
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    assert [block.type for block in message.content] == ["thinking", "text"]


def test_no_id_of_an_earlier_life_is_given_again(state: Path) -> None:
    ids: list[str] = []
    for _ in range(3):
        with serve(mind=clerk, state=state, seed=4) as emulator, connect(emulator) as client:
            response = client.responses.create(model=THINKER, input="Weather?", tools=TOOLS)
            ids += [response.id, *(item.id or "" for item in response.output), *(output["call_id"] for output in outputs(response))]
            ids.append(client.conversations.create().id)
            asked: list[Any] = [{"role": "user", "content": "Weather?"}]
            completion = client.chat.completions.create(model="gpt-4.1", messages=asked, tools=CHAT_TOOLS)
            ids += [completion.id, *(call.id for call in completion.choices[0].message.tool_calls or ())]
            with anthropic.Anthropic(base_url=emulator.url, api_key="k") as claude:
                message = claude.messages.create(model="claude-sonnet-5", max_tokens=99, messages=asked, tools=CLAUDE_TOOLS)
            ids += [message.id, *(block.id for block in message.content if block.type == "tool_use")]
    assert len(ids) == len(set(ids)) == 3 * 13


def test_without_a_file_everything_is_forgotten_and_begins_anew() -> None:
    made: list[str] = []
    for _ in range(2):
        with serve(mind=clerk, seed=4, clock=lambda: 1_795_000_000.0) as emulator, connect(emulator) as client:
            made.append(client.responses.create(model=THINKER, input="Hi").id)
            forgotten = client.responses.create(model=THINKER, input="Hi").id
    assert made[0] == made[1]
    with serve(mind=clerk, seed=4) as emulator, connect(emulator) as client, pytest.raises(openai.NotFoundError):
        client.responses.retrieve(forgotten)


def test_a_conversation_that_was_locked_when_the_emulator_stopped_is_free(state: Path) -> None:
    with serve(state=state) as emulator, connect(emulator) as client:
        talk = client.conversations.create().id
        stream = client.responses.create(
            model="gpt-4.1", input="Hi", conversation=talk, stream=True, extra_headers={"x-legato-fault": "slow delay=60"}
        )
        next(iter(stream))
        emulator.stop()
        stream.close()
    with serve(state=state) as emulator, connect(emulator) as client:
        assert list(client.conversations.items.list(talk)) == []
        assert client.responses.create(model="gpt-4.1", input="Hi", conversation=talk).status == "completed"


def test_a_file_that_no_emulator_made_is_bad_input(state: Path, tmp_path: Path) -> None:
    garbage = b"this is no database, whatever its name says " * 100
    state.write_bytes(garbage)
    with pytest.raises(BadInput) as refused:
        serve(state=state)
    assert "the emulator's state file cannot be used" in str(refused.value)
    assert str(state) in refused.value.found
    assert state.read_bytes() == garbage
    with pytest.raises(BadInput, match="state file cannot be used"):
        serve(state=tmp_path)
    with pytest.raises(BadInput, match="state file cannot be used"):
        serve(state=tmp_path / "no such folder" / "held.db")


def test_a_database_of_something_else_is_bad_input(state: Path) -> None:
    base = sqlite3.connect(state)
    base.execute("CREATE TABLE held (hostage TEXT)")
    base.commit()
    base.close()
    with pytest.raises(BadInput, match="state file cannot be used"):
        serve(state=state)
