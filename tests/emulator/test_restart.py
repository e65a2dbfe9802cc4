"""Restarts of an emulator with and without a state file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from legato.emulator import serve
from legato.errors import BadInput
from tests.emulator.conftest import make_openai_client, weather_model

REASONING_MODEL = "gpt-5"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[Any] = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
CLAUDE_TOOLS: list[Any] = [{"name": "get_weather", "input_schema": SCHEMA}]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def make_outputs(response: Any) -> list[Any]:
    calls = [item.call_id for item in response.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": call, "output": "sunny"} for call in calls]


def test_stored_objects_survive_a_restart(state: Path) -> None:
    stateless: dict[str, Any] = {"model": REASONING_MODEL, "store": False, "include": ["reasoning.encrypted_content"]}
    with serve(fake_model=weather_model, state=state) as emulator, make_openai_client(emulator) as client:
        first = client.responses.create(model=REASONING_MODEL, input="What is the weather?", tools=TOOLS)
        deleted = client.responses.create(model=REASONING_MODEL, input="Delete me")
        client.responses.delete(deleted.id)
        conversation = client.conversations.create(items=[{"role": "user", "content": "I am Ann."}]).id
        conversation_response = client.responses.create(
            model=REASONING_MODEL, input="What is the weather?", tools=TOOLS, conversation=conversation
        )
        unstored = client.responses.create(input="Hi", **stateless)
    with serve(fake_model=weather_model, state=state) as emulator, make_openai_client(emulator) as client:
        second = client.responses.create(model=REASONING_MODEL, input=make_outputs(first), tools=TOOLS, previous_response_id=first.id)
        assert second.output_text == "It is sunny and sunny."
        assert client.responses.retrieve(first.id).output == first.output
        references: list[Any] = [{"type": "item_reference", "id": item.id} for item in first.output]
        assert client.responses.create(model=REASONING_MODEL, input=[*references, *make_outputs(first)], tools=TOOLS).status == "completed"
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(deleted.id)
        with pytest.raises(openai.BadRequestError, match="No tool output found for function call"):
            client.responses.create(model=REASONING_MODEL, input="Well?", tools=TOOLS, conversation=conversation)
        client.responses.create(model=REASONING_MODEL, input=make_outputs(conversation_response), tools=TOOLS, conversation=conversation)
        types = [item.type for item in client.conversations.items.list(conversation, order="asc")]
        assert types.count("message") == 3
        replay: list[Any] = [{"role": "user", "content": "Hi"}, *unstored.output, {"role": "user", "content": "And?"}]
        assert client.responses.create(input=replay, **stateless).status == "completed"


def test_thinking_signatures_survive_a_restart(state: Path) -> None:
    conversation_response: dict[str, Any] = {
        "model": "claude-opus-5-5",
        "max_tokens": 500,
        "tools": CLAUDE_TOOLS,
        "thinking": {"type": "adaptive"},
    }
    messages: list[Any] = [{"role": "user", "content": "What is the weather?"}]
    for turn in range(2):
        with (
            serve(fake_model=weather_model, state=state, seed=turn) as emulator,
            anthropic.Anthropic(base_url=emulator.url, api_key="k", max_retries=0) as claude,
        ):
            message = claude.messages.create(**conversation_response, messages=messages)
        calls = [block for block in message.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"} for call in calls]
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    assert [block.type for block in message.content] == ["thinking", "text"]


def test_restarted_emulator_repeats_no_id(state: Path) -> None:
    ids: list[str] = []
    for _ in range(3):
        with serve(fake_model=weather_model, state=state, seed=4) as emulator, make_openai_client(emulator) as client:
            response = client.responses.create(model=REASONING_MODEL, input="Weather?", tools=TOOLS)
            ids += [response.id, *(item.id or "" for item in response.output), *(output["call_id"] for output in make_outputs(response))]
            ids.append(client.conversations.create().id)
            conversation_response: list[Any] = [{"role": "user", "content": "Weather?"}]
            completion = client.chat.completions.create(model="gpt-4.1", messages=conversation_response, tools=CHAT_TOOLS)
            ids += [completion.id, *(call.id for call in completion.choices[0].message.tool_calls or ())]
            with anthropic.Anthropic(base_url=emulator.url, api_key="k") as claude:
                message = claude.messages.create(model="claude-sonnet-5", max_tokens=99, messages=conversation_response, tools=CLAUDE_TOOLS)
            ids += [message.id, *(block.id for block in message.content if block.type == "tool_use")]
    assert len(ids) == len(set(ids)) == 3 * 13


def test_memory_storage_is_lost_on_restart() -> None:
    ids: list[str] = []
    for _ in range(2):
        with serve(fake_model=weather_model, seed=4, clock=lambda: 1_795_000_000.0) as emulator, make_openai_client(emulator) as client:
            ids.append(client.responses.create(model=REASONING_MODEL, input="Hi").id)
            forgotten = client.responses.create(model=REASONING_MODEL, input="Hi").id
    assert ids[0] == ids[1]
    with serve(fake_model=weather_model, seed=4) as emulator, make_openai_client(emulator) as client, pytest.raises(openai.NotFoundError):
        client.responses.retrieve(forgotten)


def test_locks_do_not_survive_a_restart(state: Path) -> None:
    with serve(state=state) as emulator, make_openai_client(emulator) as client:
        conversation = client.conversations.create().id
        stream = client.responses.create(
            model="gpt-4.1", input="Hi", conversation=conversation, stream=True, extra_headers={"x-legato-fault": "slow delay=60"}
        )
        next(iter(stream))
        emulator.stop()
        stream.close()
    with serve(state=state) as emulator, make_openai_client(emulator) as client:
        assert list(client.conversations.items.list(conversation)) == []
        assert client.responses.create(model="gpt-4.1", input="Hi", conversation=conversation).status == "completed"


def test_foreign_state_file_is_bad_input(state: Path, tmp_path: Path) -> None:
    garbage = b"this is no database, whatever its name says " * 100
    state.write_bytes(garbage)
    with pytest.raises(BadInput) as caught:
        serve(state=state)
    assert "the emulator's state file cannot be used" in str(caught.value)
    assert str(state) in caught.value.found
    assert state.read_bytes() == garbage
    with pytest.raises(BadInput, match="state file cannot be used"):
        serve(state=tmp_path)
    with pytest.raises(BadInput, match="state file cannot be used"):
        serve(state=tmp_path / "no such folder" / "state.db")


def test_foreign_database_is_bad_input(state: Path) -> None:
    connection = sqlite3.connect(state)
    connection.execute("CREATE TABLE held (hostage TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(BadInput, match="state file cannot be used"):
        serve(state=state)
