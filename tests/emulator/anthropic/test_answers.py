"""What the model says, as a message and as its events, in the SDK's own types."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.beta import BetaMessage

from legato.emulator.minds.base import Refused, Say, Thought, Use, Words
from legato.emulator.tokens import count
from tests.emulator.anthropic.asking import ADAPTIVE, BETA, HEADERS, WEATHER, accumulated, ask, dialect, names, parsed, wired

EDITS = HEADERS | {"anthropic-beta": "context-management-2025-06-27"}
HELLO = Say((Words("Hello, how can I help you today?"),))
CALLS = Say((Use("get_weather", '{"city": "Oslo"}'), Use("get_weather", '{"city": "Rome"}')))
THOUGHTFUL = Say((Thought("The user wants the weather."), Words("Let me look."), *CALLS.items))


def test_a_text_is_a_message_with_one_block() -> None:
    answer = dialect().answer(ask(), HELLO)
    message = parsed(answer)
    assert message.id.startswith("msg_01")
    assert len(message.id) == len("msg_01") + 22
    assert (message.model, message.role, message.stop_reason, message.stop_sequence) == ("claude-sonnet-5", "assistant", "end_turn", None)
    assert answer.body["content"] == [{"type": "text", "text": "Hello, how can I help you today?"}]


def test_an_alias_is_answered_with_the_dated_name() -> None:
    assert parsed(dialect().answer(ask(model="claude-sonnet-4-5"), HELLO)).model == "claude-sonnet-4-5-20250929"


@pytest.mark.parametrize(
    ("say", "request_"),
    [
        (HELLO, {}),
        (CALLS, {"tools": [WEATHER]}),
        (THOUGHTFUL, {"tools": [WEATHER], "thinking": ADAPTIVE}),
        (THOUGHTFUL, {"tools": [WEATHER], "thinking": {"type": "adaptive", "display": "omitted"}}),
        (THOUGHTFUL, {"tools": [WEATHER]}),
        (Say((Thought("One."), Words("Two."), Thought("Three."), Words("Four."))), {"thinking": ADAPTIVE}),
        (Say((Refused("I can't help with that."),)), {}),
        (Say(()), {}),
        (Say((Words(""),)), {}),
        (Say((Use("get_weather", "{}"),)), {"tools": [WEATHER]}),
        (Say((Words("Grüße 👩‍👩‍👧 " * 20),)), {"max_tokens": 9}),
        (Say((Words("Stopped"),), finish="content_filter"), {}),
        (Say((Words("One END two"),)), {"stop_sequences": ["END"]}),
        (HELLO, {"context_management": {"edits": []}, "headers": EDITS}),
    ],
)
def test_the_stream_and_the_whole_answer_are_the_same_message(say: Say, request_: dict[str, Any]) -> None:
    answer = dialect().answer(ask(stream=True, **request_), say)
    parsed(answer)
    assert accumulated(answer) == wired(answer.body)


def test_a_text_streams_in_the_order_of_the_protocol() -> None:
    assert names(dialect().answer(ask(stream=True), HELLO)) == [
        "message_start",
        "content_block_start",
        "ping",
        "text_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_thinking_and_calls_stream_in_the_order_of_the_protocol() -> None:
    assert names(dialect().answer(ask(stream=True, tools=[WEATHER], thinking=ADAPTIVE), THOUGHTFUL)) == [
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


def test_a_stream_begins_with_an_empty_message_and_tells_the_end_in_its_delta() -> None:
    events = [wired(event.data) for event in dialect().answer(ask(stream=True), HELLO).events]
    assert (events[0]["message"]["content"], events[0]["message"]["stop_reason"]) == ([], None)
    assert events[0]["message"]["usage"]["input_tokens"] > 0
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None, "stop_details": None}
    assert events[-2]["usage"]["output_tokens"] == count("Hello, how can I help you today?")
    assert events[-1] == {"type": "message_stop"}


def test_parallel_calls_have_ids_of_their_own_and_objects_as_input() -> None:
    answer = dialect().answer(ask(tools=[WEATHER]), CALLS)
    message = parsed(answer)
    assert message.stop_reason == "tool_use"
    assert [block["input"] for block in answer.body["content"]] == [{"city": "Oslo"}, {"city": "Rome"}]
    ids = [block["id"] for block in answer.body["content"]]
    assert len(set(ids)) == 2
    assert all(id.startswith("toolu_01") and len(id) == 30 for id in ids)


def test_an_id_that_the_mind_gives_is_used() -> None:
    blocks = dialect().answer(ask(tools=[WEATHER]), Say((Use("get_weather", "{}", "call_0"),) * 2)).body["content"]
    assert [block["id"] for block in blocks] == ["call_0", "call_0"]


def test_an_emulator_that_is_started_anew_repeats_no_id_of_the_conversation() -> None:
    asked = ask(tools=[WEATHER])
    calls = dialect().answer(asked, CALLS).body["content"]
    history = [*asked.body["messages"], {"role": "assistant", "content": calls}]
    again = dialect().answer(ask(tools=[WEATHER], messages=history), CALLS).body["content"]
    assert len({call["id"] for call in calls + again}) == 4


def test_a_call_without_arguments_streams_an_empty_piece_only() -> None:
    events = dialect().answer(ask(stream=True, tools=[WEATHER]), Say((Use("get_weather", "{}"),))).events
    assert [wired(event.data)["delta"] for event in events if event.name == "content_block_delta"] == [
        {"type": "input_json_delta", "partial_json": ""}
    ]


@pytest.mark.parametrize("arguments", ["", "no JSON", "[1]", '{"city": "Os'])
def test_arguments_that_are_no_object_are_an_empty_input_and_stream_as_they_are(arguments: str) -> None:
    answer = dialect().answer(ask(stream=True, tools=[WEATHER]), Say((Use("get_weather", arguments),)))
    assert parsed(answer).content[0].model_dump()["input"] == {}
    deltas = [wired(event.data)["delta"] for event in answer.events if event.name == "content_block_delta"]
    assert "".join(delta["partial_json"] for delta in deltas) == arguments


def test_thinking_is_signed_when_it_is_asked_for_and_left_out_when_it_is_not() -> None:
    thinking = dialect().answer(ask(thinking=ADAPTIVE, tools=[WEATHER]), THOUGHTFUL).body["content"][0]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "The user wants the weather.")
    assert len(thinking["signature"]) > 100
    assert dialect().answer(ask(tools=[WEATHER]), THOUGHTFUL).body["content"][0]["type"] == "text"
    disabled = dialect().answer(ask(tools=[WEATHER], thinking={"type": "disabled"}), THOUGHTFUL)
    assert disabled.body["content"][0]["type"] == "text"


def test_thinking_that_is_not_shown_still_has_its_signature() -> None:
    answer = dialect().answer(ask(thinking={"type": "adaptive", "display": "omitted"}), Say((Thought("Secret."), Words("Hi."))))
    assert answer.body["content"][0]["thinking"] == ""
    assert answer.body["content"][0]["signature"]
    assert "thinking_delta" not in names(answer)
    assert answer.body["usage"]["output_tokens_details"]["thinking_tokens"] == count("Secret.")


def test_a_refusal_says_so_in_the_stop_reason() -> None:
    message = parsed(dialect().answer(ask(), Say((Refused("I can't help with that."),))))
    assert message.stop_reason == "refusal"
    assert message.stop_details is not None
    assert message.stop_details.type == "refusal"
    assert parsed(dialect().answer(ask(), Say((Words("Well"),), finish="content_filter"))).stop_reason == "refusal"


def test_an_answer_longer_than_its_limit_is_cut_and_says_so() -> None:
    long = "Every order that was placed before noon leaves the warehouse on the same day. " * 5
    answer = dialect().answer(ask(max_tokens=12), Say((Words(long), Use("get_weather"))))
    assert parsed(answer).stop_reason == "max_tokens"
    (block,) = answer.body["content"]
    assert long.startswith(block["text"])
    assert 0 < answer.body["usage"]["output_tokens"] == count(block["text"]) <= 12


def test_a_call_that_is_cut_keeps_what_is_complete_in_it() -> None:
    say = Say((Use("get_weather", '{"city": "Oslo", "days": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]}'),))
    answer = dialect().answer(ask(max_tokens=20, tools=[WEATHER]), say)
    assert parsed(answer).stop_reason == "max_tokens"
    assert answer.body["content"][0]["input"]["city"] == "Oslo"
    assert len(answer.body["content"][0]["input"]["days"]) < 15


def test_thinking_spends_the_limit() -> None:
    say = Say((Thought("I should look at the order first, then at the parcel, then at the address."), Words("Hello")))
    answer = dialect().answer(ask(max_tokens=8, thinking=ADAPTIVE), say)
    assert parsed(answer).stop_reason == "max_tokens"
    assert [block["type"] for block in answer.body["content"]] == ["thinking"]


def test_a_stop_sequence_ends_the_text_before_itself_and_is_named() -> None:
    say = Say((Words("One END two STOP three"), Use("get_weather")))
    message = parsed(dialect().answer(ask(stop_sequences=["STOP", "END"], tools=[WEATHER]), say))
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
    assert [block.model_dump()["text"] for block in message.content] == ["One "]


def test_stop_sequences_do_not_end_thinking_or_calls() -> None:
    say = Say((Thought("END"), Use("get_weather", '{"city": "END"}')))
    message = parsed(dialect().answer(ask(stop_sequences=["END"], tools=[WEATHER], thinking=ADAPTIVE), say))
    assert message.stop_reason == "tool_use"


def test_the_usage_adds_up() -> None:
    answer = dialect().answer(ask(tools=[WEATHER], thinking=ADAPTIVE), THOUGHTFUL)
    usage = parsed(answer).usage
    thinking = count("The user wants the weather.")
    calls = 2 * count("get_weather") + count('{"city": "Oslo"}') + count('{"city": "Rome"}')
    assert usage.output_tokens == thinking + count("Let me look.") + calls
    assert usage.output_tokens_details is not None
    assert usage.output_tokens_details.thinking_tokens == thinking
    assert (usage.cache_creation_input_tokens, usage.cache_read_input_tokens, usage.service_tier) == (0, 0, "standard")
    assert (
        usage.input_tokens
        == dialect().count_tokens(ask({"model": "claude-sonnet-5", "messages": ask().body["messages"], "tools": [WEATHER]}))[1][
            "input_tokens"
        ]
    )


def test_an_empty_answer_still_costs_a_token() -> None:
    answer = dialect().answer(ask(), Say(()))
    assert (parsed(answer).content, parsed(answer).stop_reason) == ([], "end_turn")
    assert answer.body["usage"]["output_tokens"] == 1


def test_edits_of_the_context_are_reported_to_who_asked_for_them_only() -> None:
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    asked_for = dialect().answer(ask(headers=EDITS, context_management=edits), HELLO)
    assert asked_for.body["context_management"] == {"applied_edits": []}
    assert "context_management" not in dialect().answer(ask(), HELLO).body


def test_transformations_are_reported_to_who_asked_for_them_only() -> None:
    assert "input_transformations" not in dialect().answer(ask(), HELLO).body
    answer = dialect().answer(ask(headers=HEADERS | {"anthropic-beta": f"other-1, {BETA}"}), HELLO)
    assert BetaMessage.model_validate(wired(answer.body), strict=True).input_transformations == []
    assert wired(answer.events[0].data)["message"]["input_transformations"] == []
