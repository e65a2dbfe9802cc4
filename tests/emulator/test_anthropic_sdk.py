"""The official Anthropic client against the running emulator, used as its documentation shows."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from anthropic.types import Message, TextBlock, ThinkingBlock, ToolUseBlock
from pydantic import BaseModel

from legato.emulator import Emulator

MODEL = "claude-sonnet-5"
BOUND = "claude-opus-5-5"  # its thinking is bound to the messages before it
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[Any] = [{"name": "get_weather", "description": "The weather.", "input_schema": SCHEMA}]
THINKING: Any = {"type": "adaptive"}
ASKED: dict[str, Any] = {"model": MODEL, "max_tokens": 1000, "messages": [{"role": "user", "content": "Good morning"}]}


class Weather(BaseModel):
    """The structured output."""

    city: str
    degrees: int


def make_results(message: Message) -> dict[str, Any]:
    """Return results for all calls of a message."""
    calls = [block for block in message.content if block.type == "tool_use"]
    blocks = [{"type": "tool_result", "tool_use_id": call.id, "content": f"fine in {call.input['city']}"} for call in calls]
    return {"role": "user", "content": blocks}


def test_message_is_parsed_into_types(claude: anthropic.Anthropic) -> None:
    message = claude.messages.create(**ASKED, system="Repeat.")
    assert message.content == [TextBlock(type="text", text="You said: Good morning", citations=None)]
    assert (message.role, message.stop_reason, message.model) == ("assistant", "end_turn", MODEL)
    assert message.usage.input_tokens > 0
    assert message.usage.output_tokens > 0
    assert message.id.startswith("msg_")
    assert str(message._request_id).startswith("req_")


def test_stream_events_are_typed(claude: anthropic.Anthropic) -> None:
    events = list(claude.messages.create(**ASKED, stream=True))
    assert [event.type for event in events][:2] == ["message_start", "content_block_start"]
    assert [event.type for event in events][-3:] == ["content_block_stop", "message_delta", "message_stop"]
    deltas = [event.delta.text for event in events if event.type == "content_block_delta" and event.delta.type == "text_delta"]
    assert "".join(deltas) == "You said: Good morning"


def test_streaming_helper_gives_final_message(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(**ASKED) as stream:
        assert "".join(stream.text_stream) == "You said: Good morning"
        assert stream.get_final_message().stop_reason == "end_turn"


async def test_async_client_works_equally(emulator: Emulator) -> None:
    async with anthropic.AsyncAnthropic(base_url=emulator.url, api_key="sk-ant-one", max_retries=0) as made:
        message = await made.messages.create(**ASKED)
        assert message.content[0].type == "text"
        stream = await made.messages.create(**ASKED, stream=True)
        assert [event.type async for event in stream][-1] == "message_stop"
        async with made.messages.stream(**ASKED) as helper:
            assert "".join([text async for text in helper.text_stream]) == "You said: Good morning"
        counted = await made.messages.count_tokens(model=MODEL, messages=ASKED["messages"])
        assert counted.input_tokens == message.usage.input_tokens
        assert MODEL in [model.id async for model in made.models.list(limit=5)]


def test_tool_loop_with_messages(claude: anthropic.Anthropic) -> None:
    first = claude.messages.create(**ASKED, tools=TOOLS)
    assert [type(block) for block in first.content] == [ToolUseBlock, ToolUseBlock]
    assert first.stop_reason == "tool_use"
    messages = [*ASKED["messages"], {"role": "assistant", "content": first.content}, make_results(first)]
    second = claude.messages.create(**ASKED | {"messages": messages}, tools=TOOLS)
    assert second.content[0] == TextBlock(type="text", text="It is fine in Oslo and fine in Rome.", citations=None)
    with pytest.raises(anthropic.BadRequestError) as caught:
        claude.messages.create(**ASKED | {"messages": [*messages[:2], {"role": "user", "content": "Well?"}]}, tools=TOOLS)
    body: Any = caught.value.body
    assert body["error"]["type"] == "invalid_request_error"
    words = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_"
    assert body["error"]["message"].startswith(words)
    assert body["request_id"] == caught.value.request_id


def test_thinking_is_sent_back_signed(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(**ASKED, tools=TOOLS, thinking=THINKING) as stream:
        kinds = {event.delta.type for event in stream if event.type == "content_block_delta"}
        first = stream.get_final_message()
    assert {"thinking_delta", "signature_delta", "input_json_delta"} <= kinds
    thought = first.content[0]
    assert isinstance(thought, ThinkingBlock)
    messages: list[Any] = [*ASKED["messages"], {"role": "assistant", "content": first.content}, make_results(first)]
    second = claude.messages.create(**ASKED | {"messages": messages}, tools=TOOLS, thinking=THINKING)
    assert [block.type for block in second.content] == ["thinking", "text"]
    changed = [{**thought.to_dict(), "signature": "c2lnbmF0dXJl"}, *first.content[1:]]
    messages[1] = {"role": "assistant", "content": changed}
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature` in `thinking` block"):
        claude.messages.create(**ASKED | {"messages": messages}, tools=TOOLS, thinking=THINKING)


def test_thinking_of_another_prompt_is_rejected(claude: anthropic.Anthropic) -> None:
    parameters = ASKED | {"model": BOUND, "tools": TOOLS, "thinking": THINKING}
    first = claude.messages.create(**parameters, system="You are Ann.")
    parameters |= {"messages": [*ASKED["messages"], {"role": "assistant", "content": first.content}, make_results(first)]}
    assert claude.messages.create(**parameters, system="You are Ann.").stop_reason == "end_turn"
    with pytest.raises(anthropic.BadRequestError, match="The block is bound to a different conversation"):
        claude.messages.create(**parameters, system="You are Bob.")


def test_structured_output_is_parsed(claude: anthropic.Anthropic) -> None:
    assert claude.messages.parse(**ASKED, output_format=Weather).parsed_output == Weather(city="Oslo", degrees=21)


def test_token_count_equals_usage(claude: anthropic.Anthropic) -> None:
    counted = claude.messages.count_tokens(model=MODEL, messages=ASKED["messages"], tools=TOOLS)
    assert counted.input_tokens == claude.messages.create(**ASKED, tools=TOOLS).usage.input_tokens
    with pytest.raises(anthropic.BadRequestError, match="at least one message is required"):
        claude.messages.count_tokens(model=MODEL, messages=[])


def test_models_are_listed_and_retrieved(claude: anthropic.Anthropic) -> None:
    names = [model.id for model in claude.models.list(limit=3)]
    assert len(names) == len(set(names)) > 6
    assert MODEL in names
    assert not any(name.startswith("gpt") for name in names)
    assert claude.models.retrieve(MODEL).display_name == "Claude Sonnet 5"
    with pytest.raises(anthropic.NotFoundError, match="model: no-such-model"):
        claude.models.retrieve("no-such-model")


def test_unknown_model_is_not_found(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        claude.messages.create(**ASKED | {"model": "no-such-model"})
    body: Any = caught.value.body
    assert body["error"] == {"type": "not_found_error", "message": "model: no-such-model"}


def test_stream_rejection_comes_before_the_stream(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="messages: at least one message is required"):
        claude.messages.create(**ASKED | {"messages": []}, stream=True)


def test_raw_response_has_provider_headers(claude: anthropic.Anthropic) -> None:
    raw = claude.messages.with_raw_response.create(**ASKED)
    assert raw.headers["request-id"].startswith("req_")
    assert int(raw.headers["anthropic-ratelimit-requests-remaining"]) > 0
