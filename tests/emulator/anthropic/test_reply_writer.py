"""Replies as messages and as events, parsed with the SDK's types."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.beta import BetaMessage

from legato.emulator.fake_models.base import FakeReply, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.tokens import count_tokens
from tests.emulator.anthropic.request_factory import (
    ADAPTIVE,
    BETA,
    HEADERS,
    WEATHER,
    accumulate_message,
    json_roundtrip,
    list_event_names,
    make_adapter,
    make_request,
    parse_message,
)

EDITS = HEADERS | {"anthropic-beta": "context-management-2025-06-27"}
HELLO = FakeReply((ReplyText("Hello, how can I help you today?"),))
CALLS = FakeReply((ReplyCall("get_weather", '{"city": "Oslo"}'), ReplyCall("get_weather", '{"city": "Rome"}')))
THOUGHTFUL = FakeReply((ReplyThought("The user wants the weather."), ReplyText("Let me look."), *CALLS.items))


def test_text_becomes_one_block() -> None:
    reply = make_adapter().make_reply(make_request(), HELLO)
    message = parse_message(reply)
    assert message.id.startswith("msg_01")
    assert len(message.id) == len("msg_01") + 22
    assert (message.model, message.role, message.stop_reason, message.stop_sequence) == ("claude-sonnet-5", "assistant", "end_turn", None)
    assert reply.body["content"] == [{"type": "text", "text": "Hello, how can I help you today?"}]


def test_alias_is_answered_with_dated_name() -> None:
    assert parse_message(make_adapter().make_reply(make_request(model="claude-sonnet-4-5"), HELLO)).model == "claude-sonnet-4-5-20250929"


@pytest.mark.parametrize(
    ("fake_reply", "options"),
    [
        (HELLO, {}),
        (CALLS, {"tools": [WEATHER]}),
        (THOUGHTFUL, {"tools": [WEATHER], "thinking": ADAPTIVE}),
        (THOUGHTFUL, {"tools": [WEATHER], "thinking": {"type": "adaptive", "display": "omitted"}}),
        (THOUGHTFUL, {"tools": [WEATHER]}),
        (FakeReply((ReplyThought("One."), ReplyText("Two."), ReplyThought("Three."), ReplyText("Four."))), {"thinking": ADAPTIVE}),
        (FakeReply((ReplyRefusal("I can't help with that."),)), {}),
        (FakeReply(()), {}),
        (FakeReply((ReplyText(""),)), {}),
        (FakeReply((ReplyCall("get_weather", "{}"),)), {"tools": [WEATHER]}),
        (FakeReply((ReplyText("Grüße 👩‍👩‍👧 " * 20),)), {"max_tokens": 9}),
        (FakeReply((ReplyText("Stopped"),), finish="content_filter"), {}),
        (FakeReply((ReplyText("One END two"),)), {"stop_sequences": ["END"]}),
        (HELLO, {"context_management": {"edits": []}, "headers": EDITS}),
    ],
)
def test_stream_equals_the_whole_message(fake_reply: FakeReply, options: dict[str, Any]) -> None:
    reply = make_adapter().make_reply(make_request(stream=True, **options), fake_reply)
    parse_message(reply)
    assert accumulate_message(reply) == json_roundtrip(reply.body)


def test_text_events_are_in_protocol_order() -> None:
    assert list_event_names(make_adapter().make_reply(make_request(stream=True), HELLO)) == [
        "message_start",
        "content_block_start",
        "ping",
        "text_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_thinking_and_call_events_are_in_order() -> None:
    assert list_event_names(make_adapter().make_reply(make_request(stream=True, tools=[WEATHER], thinking=ADAPTIVE), THOUGHTFUL)) == [
        "message_start",
        "content_block_start",
        "ping",
        "thinking_delta",
        "signature_delta",
        "content_block_stop",
        "content_block_start",
        "text_delta",
        "content_block_stop",
        "content_block_start",
        "input_json_delta",
        "content_block_stop",
        "content_block_start",
        "input_json_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_stream_starts_empty_ends_with_delta() -> None:
    events = [json_roundtrip(event.data) for event in make_adapter().make_reply(make_request(stream=True), HELLO).events]
    assert (events[0]["message"]["content"], events[0]["message"]["stop_reason"]) == ([], None)
    assert events[0]["message"]["usage"]["input_tokens"] > 0
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None, "stop_details": None}
    assert events[-2]["usage"]["output_tokens"] == count_tokens("Hello, how can I help you today?")
    assert events[-1] == {"type": "message_stop"}


def test_parallel_calls_have_different_ids() -> None:
    reply = make_adapter().make_reply(make_request(tools=[WEATHER]), CALLS)
    message = parse_message(reply)
    assert message.stop_reason == "tool_use"
    assert [block["input"] for block in reply.body["content"]] == [{"city": "Oslo"}, {"city": "Rome"}]
    ids = [block["id"] for block in reply.body["content"]]
    assert len(set(ids)) == 2
    assert all(id.startswith("toolu_01") and len(id) == 30 for id in ids)


def test_call_id_of_fake_model_is_used() -> None:
    blocks = (
        make_adapter().make_reply(make_request(tools=[WEATHER]), FakeReply((ReplyCall("get_weather", "{}", "call_0"),) * 2)).body["content"]
    )
    assert [block["id"] for block in blocks] == ["call_0", "call_0"]


def test_restarted_emulator_repeats_no_call_id() -> None:
    request = make_request(tools=[WEATHER])
    calls = make_adapter().make_reply(request, CALLS).body["content"]
    history = [*request.body["messages"], {"role": "assistant", "content": calls}]
    again = make_adapter().make_reply(make_request(tools=[WEATHER], messages=history), CALLS).body["content"]
    assert len({call["id"] for call in calls + again}) == 4


def test_call_without_arguments_streams_empty_delta() -> None:
    events = make_adapter().make_reply(make_request(stream=True, tools=[WEATHER]), FakeReply((ReplyCall("get_weather", "{}"),))).events
    assert [json_roundtrip(event.data)["delta"] for event in events if event.name == "content_block_delta"] == [
        {"type": "input_json_delta", "partial_json": ""}
    ]


@pytest.mark.parametrize("arguments", ["", "no JSON", "[1]", '{"city": "Os'])
def test_invalid_arguments_become_empty_input(arguments: str) -> None:
    """The streamed deltas have the invalid arguments as they are."""
    reply = make_adapter().make_reply(make_request(stream=True, tools=[WEATHER]), FakeReply((ReplyCall("get_weather", arguments),)))
    assert parse_message(reply).content[0].model_dump()["input"] == {}
    deltas = [json_roundtrip(event.data)["delta"] for event in reply.events if event.name == "content_block_delta"]
    assert "".join(delta["partial_json"] for delta in deltas) == arguments


def test_thinking_is_signed_or_left_out() -> None:
    thinking = make_adapter().make_reply(make_request(thinking=ADAPTIVE, tools=[WEATHER]), THOUGHTFUL).body["content"][0]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "The user wants the weather.")
    assert len(thinking["signature"]) > 100
    assert make_adapter().make_reply(make_request(tools=[WEATHER]), THOUGHTFUL).body["content"][0]["type"] == "text"
    disabled = make_adapter().make_reply(make_request(tools=[WEATHER], thinking={"type": "disabled"}), THOUGHTFUL)
    assert disabled.body["content"][0]["type"] == "text"


def test_omitted_thinking_has_a_signature() -> None:
    reply = make_adapter().make_reply(
        make_request(thinking={"type": "adaptive", "display": "omitted"}), FakeReply((ReplyThought("Secret."), ReplyText("Hi.")))
    )
    assert reply.body["content"][0]["thinking"] == ""
    assert reply.body["content"][0]["signature"]
    assert "thinking_delta" not in list_event_names(reply)
    assert reply.body["usage"]["output_tokens_details"]["thinking_tokens"] == count_tokens("Secret.")


def test_refusal_is_the_stop_reason() -> None:
    message = parse_message(make_adapter().make_reply(make_request(), FakeReply((ReplyRefusal("I can't help with that."),))))
    assert message.stop_reason == "refusal"
    assert message.stop_details is not None
    assert message.stop_details.type == "refusal"
    assert (
        parse_message(make_adapter().make_reply(make_request(), FakeReply((ReplyText("Well"),), finish="content_filter"))).stop_reason
        == "refusal"
    )


def test_too_long_reply_is_cut() -> None:
    long = "Every order that was placed before noon leaves the warehouse on the same day. " * 5
    reply = make_adapter().make_reply(make_request(max_tokens=12), FakeReply((ReplyText(long), ReplyCall("get_weather"))))
    assert parse_message(reply).stop_reason == "max_tokens"
    (block,) = reply.body["content"]
    assert long.startswith(block["text"])
    assert 0 < reply.body["usage"]["output_tokens"] == count_tokens(block["text"]) <= 12


def test_cut_call_keeps_complete_arguments() -> None:
    fake_reply = FakeReply((ReplyCall("get_weather", '{"city": "Oslo", "days": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]}'),))
    reply = make_adapter().make_reply(make_request(max_tokens=20, tools=[WEATHER]), fake_reply)
    assert parse_message(reply).stop_reason == "max_tokens"
    assert reply.body["content"][0]["input"]["city"] == "Oslo"
    assert len(reply.body["content"][0]["input"]["days"]) < 15


def test_thinking_spends_the_token_limit() -> None:
    fake_reply = FakeReply((ReplyThought("I should look at the order first, then at the parcel, then at the address."), ReplyText("Hello")))
    reply = make_adapter().make_reply(make_request(max_tokens=8, thinking=ADAPTIVE), fake_reply)
    assert parse_message(reply).stop_reason == "max_tokens"
    assert [block["type"] for block in reply.body["content"]] == ["thinking"]


def test_stop_sequence_ends_the_text() -> None:
    fake_reply = FakeReply((ReplyText("One END two STOP three"), ReplyCall("get_weather")))
    message = parse_message(make_adapter().make_reply(make_request(stop_sequences=["STOP", "END"], tools=[WEATHER]), fake_reply))
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
    assert [block.model_dump()["text"] for block in message.content] == ["One "]


def test_stop_sequences_spare_thinking_and_calls() -> None:
    fake_reply = FakeReply((ReplyThought("END"), ReplyCall("get_weather", '{"city": "END"}')))
    message = parse_message(make_adapter().make_reply(make_request(stop_sequences=["END"], tools=[WEATHER], thinking=ADAPTIVE), fake_reply))
    assert message.stop_reason == "tool_use"


def test_usage_totals_are_consistent() -> None:
    reply = make_adapter().make_reply(make_request(tools=[WEATHER], thinking=ADAPTIVE), THOUGHTFUL)
    usage = parse_message(reply).usage
    thinking = count_tokens("The user wants the weather.")
    calls = 2 * count_tokens("get_weather") + count_tokens('{"city": "Oslo"}') + count_tokens('{"city": "Rome"}')
    assert usage.output_tokens == thinking + count_tokens("Let me look.") + calls
    assert usage.output_tokens_details is not None
    assert usage.output_tokens_details.thinking_tokens == thinking
    assert (usage.cache_creation_input_tokens, usage.cache_read_input_tokens, usage.service_tier) == (0, 0, "standard")
    assert (
        usage.input_tokens
        == make_adapter().count_tokens(
            make_request({"model": "claude-sonnet-5", "messages": make_request().body["messages"], "tools": [WEATHER]})
        )[1]["input_tokens"]
    )


def test_empty_reply_costs_one_token() -> None:
    reply = make_adapter().make_reply(make_request(), FakeReply(()))
    assert (parse_message(reply).content, parse_message(reply).stop_reason) == ([], "end_turn")
    assert reply.body["usage"]["output_tokens"] == 1


def test_context_edits_are_reported_on_request() -> None:
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    requested = make_adapter().make_reply(make_request(headers=EDITS, context_management=edits), HELLO)
    assert requested.body["context_management"] == {"applied_edits": []}
    assert "context_management" not in make_adapter().make_reply(make_request(), HELLO).body


def test_transformations_are_reported_on_request() -> None:
    assert "input_transformations" not in make_adapter().make_reply(make_request(), HELLO).body
    reply = make_adapter().make_reply(make_request(headers=HEADERS | {"anthropic-beta": f"other-1, {BETA}"}), HELLO)
    assert BetaMessage.model_validate(json_roundtrip(reply.body), strict=True).input_transformations == []
    assert json_roundtrip(reply.events[0].data)["message"]["input_transformations"] == []
