"""Replies as chat completions and as chunks, parsed with the SDK's types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.emulator.fake_models.base import FakeReply, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.storage import ProviderStorage
from legato.emulator.tokens import count_tokens
from legato.providers.rules.chat.rules import ChatRuleSwitches
from tests.emulator.chat.request_factory import (
    WEATHER,
    accumulate_choices,
    json_roundtrip,
    list_choices,
    make_adapter,
    make_request,
    parse_chunks,
    parse_completion,
)

HELLO = FakeReply((ReplyText("Hello, how can I help you today?"),))
CALLS = FakeReply((ReplyCall("get_weather", '{"city": "Oslo"}'), ReplyCall("get_weather", '{"city": "Rome"}')))


def test_text_becomes_one_choice() -> None:
    reply = make_adapter().make_reply(make_request(), HELLO)
    completion = parse_completion(reply)
    assert completion.id.startswith("chatcmpl-")
    assert len(completion.id) == len("chatcmpl-") + 29
    assert completion.created == 1_790_000_000
    assert completion.model == "gpt-4o-2024-08-06"
    assert completion.service_tier == "default"
    assert completion.system_fingerprint is not None
    assert completion.system_fingerprint.startswith("fp_")
    assert reply.body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello, how can I help you today?", "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]


def test_completion_has_the_recorded_keys() -> None:
    assert list(make_adapter().make_reply(make_request(), HELLO).body) == [
        "id",
        "object",
        "created",
        "model",
        "choices",
        "usage",
        "service_tier",
        "system_fingerprint",
    ]


@pytest.mark.parametrize(
    ("fake_reply", "options"),
    [
        (HELLO, {}),
        (FakeReply((ReplyText("Let me look."), *CALLS.items)), {"tools": [WEATHER]}),
        (CALLS, {"tools": [WEATHER]}),
        (FakeReply((ReplyThought("Hm."), ReplyText("One."), ReplyText("Two."))), {}),
        (FakeReply((ReplyRefusal("I can't help with that."),)), {}),
        (FakeReply(()), {}),
        (FakeReply((ReplyText("  leading and trailing \n\n"),)), {}),
        (FakeReply((ReplyText("Grüße 👩‍👩‍👧 " * 20),)), {"max_tokens": 9}),
        (FakeReply((ReplyCall("get_weather", '{"city": "Oslo'),), finish="length"), {"tools": [WEATHER]}),
        (FakeReply((ReplyCall("get_weather", ""),)), {"tools": [WEATHER]}),
        (FakeReply((ReplyText("Stopped"),), finish="content_filter"), {}),
        (FakeReply((ReplyCall("f", '{"a": 1}'),)), {"functions": [{"name": "f"}]}),
        (CALLS, {"tools": [WEATHER], "n": 3}),
        (HELLO, {"n": 2, "stream_options": {"include_usage": True}}),
    ],
)
def test_stream_equals_the_whole_message(fake_reply: FakeReply, options: dict[str, Any]) -> None:
    reply = make_adapter().make_reply(make_request(stream=True, **options), fake_reply)
    parse_completion(reply)
    assert accumulate_choices(reply) == list_choices(reply)
    assert {(chunk.id, chunk.model, chunk.created, chunk.system_fingerprint) for chunk in parse_chunks(reply)} == {
        (reply.body["id"], reply.body["model"], reply.body["created"], reply.body["system_fingerprint"])
    }


def test_stream_starts_with_role_ends_with_done() -> None:
    """The stream begins with the role, and ends with the finish reason and `[DONE]`."""
    deltas = [chunk.choices[0] for chunk in parse_chunks(make_adapter().make_reply(make_request(stream=True), HELLO))]
    assert deltas[0].delta.model_dump(exclude_unset=True) == {"role": "assistant", "content": "", "refusal": None}
    assert [choice.delta.content for choice in deltas[1:4]] == ["Hello,", " how", " can"]
    assert deltas[-1].delta.model_dump(exclude_unset=True) == {}
    assert [choice.finish_reason for choice in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert deltas[-1].finish_reason == "stop"


def test_call_stream_starts_with_id_and_name() -> None:
    events = make_adapter().make_reply(make_request(stream=True, tools=[WEATHER]), CALLS).events
    calls = [call for event in events[1:-2] for call in json_roundtrip(event.data)["choices"][0]["delta"]["tool_calls"]]
    assert calls[0].keys() == {"index", "id", "type", "function"}
    assert calls[0]["function"] == {"name": "get_weather", "arguments": ""}
    assert calls[1] == {"index": 0, "function": {"arguments": '{"city":'}}
    assert [call["index"] for call in calls] == sorted(call["index"] for call in calls)


def test_parallel_calls_have_different_ids() -> None:
    reply = make_adapter().make_reply(make_request(tools=[WEATHER]), CALLS)
    choice = parse_completion(reply).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    calls = reply.body["choices"][0]["message"]["tool_calls"]
    assert [json.loads(call["function"]["arguments"])["city"] for call in calls] == ["Oslo", "Rome"]
    assert len({call["id"] for call in calls}) == 2
    assert all(call["id"].startswith("call_") and len(call["id"]) == 29 for call in calls)


def test_call_id_of_fake_model_is_used() -> None:
    fake_reply = FakeReply((ReplyCall("get_weather", "{}", "call_0"), ReplyCall("get_weather", "{}", "call_0")))
    calls = make_adapter().make_reply(make_request(tools=[WEATHER]), fake_reply).body["choices"][0]["message"]["tool_calls"]
    assert [call["id"] for call in calls] == ["call_0", "call_0"]


def test_restarted_emulator_repeats_no_call_id() -> None:
    request = make_request(tools=[WEATHER])
    calls = make_adapter().make_reply(request, CALLS).body["choices"][0]["message"]["tool_calls"]
    history = [*request.body["messages"], {"role": "assistant", "tool_calls": calls}]
    again = make_adapter().make_reply(make_request(tools=[WEATHER], messages=history), CALLS).body["choices"][0]["message"]["tool_calls"]
    assert len({call["id"] for call in calls + again}) == 4


def test_call_forced_by_name_finishes_with_stop() -> None:
    forced = {"type": "function", "function": {"name": "get_weather"}}
    assert (
        parse_completion(make_adapter().make_reply(make_request(tools=[WEATHER], tool_choice=forced), CALLS)).choices[0].finish_reason
        == "stop"
    )
    assert (
        parse_completion(make_adapter().make_reply(make_request(tools=[WEATHER], tool_choice="required"), CALLS)).choices[0].finish_reason
        == "tool_calls"
    )


def test_deprecated_functions_get_deprecated_calls() -> None:
    choice = parse_completion(make_adapter().make_reply(make_request(functions=[{"name": "get_weather"}]), CALLS)).choices[0]
    assert choice.finish_reason == "function_call"
    assert choice.message.tool_calls is None
    assert choice.message.function_call is not None
    assert choice.message.function_call.arguments == '{"city": "Oslo"}'


def test_custom_tool_gets_text_input() -> None:
    tools = [{"type": "custom", "custom": {"name": "sql"}}]
    reply = make_adapter().make_reply(
        make_request(tools=tools, stream=True), FakeReply((ReplyCall("sql", '{"input": "SELECT 1"}'), ReplyCall("sql", "DROP")))
    )
    message = parse_completion(reply).choices[0].message.model_dump(exclude_unset=True)
    assert [call["custom"] for call in message["tool_calls"]] == [
        {"name": "sql", "input": "SELECT 1"},
        {"name": "sql", "input": "DROP"},
    ]
    pieces = [call for event in reply.events[1:-2] for call in json_roundtrip(event.data)["choices"][0]["delta"]["tool_calls"]]
    assert "".join(piece["custom"]["input"] for piece in pieces if piece["index"] == 0) == "SELECT 1"


def test_refusal_is_not_content() -> None:
    message = parse_completion(make_adapter().make_reply(make_request(), FakeReply((ReplyRefusal("No."),)))).choices[0].message
    assert (message.content, message.refusal) == (None, "No.")


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_too_long_reply_is_cut(field: str) -> None:
    long = "Every order that was placed before noon leaves the warehouse on the same day. " * 5
    reply = make_adapter().make_reply(make_request(**{field: 12}), FakeReply((ReplyText(long),)))
    choice = parse_completion(reply).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.content is not None
    assert long.startswith(choice.message.content)
    assert 0 < count_tokens(choice.message.content) <= 12
    assert reply.body["usage"]["completion_tokens"] == count_tokens(choice.message.content)


def test_reply_of_exact_limit_is_whole() -> None:
    fake_reply = FakeReply((ReplyText("Hello there, friend."),))
    assert (
        parse_completion(make_adapter().make_reply(make_request(max_tokens=count_tokens("Hello there, friend.")), fake_reply))
        .choices[0]
        .finish_reason
        == "stop"
    )


def test_call_is_cut_at_the_limit() -> None:
    fake_reply = FakeReply((ReplyCall("get_weather", json.dumps({"city": "Llanfairpwllgwyngyll " * 10})), ReplyCall("get_weather", "{}")))
    choice = parse_completion(make_adapter().make_reply(make_request(tools=[WEATHER], max_tokens=20), fake_reply)).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.tool_calls is not None
    assert len(choice.message.tool_calls) == 1


def test_reasoning_spends_tokens_invisibly() -> None:
    thought = "I should look at the order first, then at the parcel, then at the address that the customer gave."
    reply = make_adapter().make_reply(
        make_request(max_completion_tokens=10), FakeReply((ReplyThought(thought), ReplyText("It is on its way.")))
    )
    choice = parse_completion(reply).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("length", "")
    details = reply.body["usage"]["completion_tokens_details"]
    assert 0 < details["reasoning_tokens"] == reply.body["usage"]["completion_tokens"] <= 10


def test_compatible_server_shows_its_reasoning() -> None:
    fake_reply = FakeReply((ReplyThought("Let me look at the order."), ReplyText("It is on its way.")))
    reply = make_adapter(switches=ChatRuleSwitches(shows_reasoning=True)).make_reply(make_request(stream=True), fake_reply)
    message = reply.body["choices"][0]["message"]
    deltas = [event.data["choices"][0]["delta"] for event in reply.events[:-1]]
    assert (message["reasoning_content"], message["content"]) == ("Let me look at the order.", "It is on its way.")
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Let me look at the order."
    assert "reasoning_content" not in make_adapter().make_reply(make_request(), fake_reply).body["choices"][0]["message"]


@pytest.mark.parametrize(("stop", "left"), [("today", "Hello, how can I help you "), (["zzz", "how"], "Hello, "), ("", None), ([], None)])
def test_stop_sequence_ends_the_text(stop: object, left: str | None) -> None:
    choice = parse_completion(make_adapter().make_reply(make_request(stop=stop), HELLO)).choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.content == (left or "Hello, how can I help you today?")


def test_filtered_reply_has_its_finish_reason() -> None:
    assert (
        parse_completion(make_adapter().make_reply(make_request(), FakeReply((ReplyText("Well"),), finish="content_filter")))
        .choices[0]
        .finish_reason
        == "content_filter"
    )


def test_usage_totals_are_consistent() -> None:
    fake_reply = FakeReply((ReplyThought("Let me think about it."), ReplyText("Done."), ReplyCall("get_weather", "{}")))
    reply = make_adapter().make_reply(make_request(tools=[WEATHER], n=2), fake_reply)
    usage = parse_completion(reply).usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 2 * count_tokens("Let me think about it.")
    assert usage.completion_tokens == 2 * (
        count_tokens("Let me think about it.") + count_tokens("Done.") + count_tokens("get_weather") + count_tokens("{}")
    )
    assert usage.prompt_tokens_details is not None
    assert (usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens_details.audio_tokens) == (0, 0)


def test_longer_prompt_has_more_tokens() -> None:
    short = make_adapter().make_reply(make_request(), HELLO).body["usage"]["prompt_tokens"]
    tools = make_adapter().make_reply(make_request(tools=[WEATHER]), HELLO).body["usage"]["prompt_tokens"]
    assert 0 < short < tools


def test_requested_usage_has_its_own_chunk() -> None:
    reply = make_adapter().make_reply(make_request(stream=True, stream_options={"include_usage": True}), HELLO)
    *others, last = parse_chunks(reply)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.model_dump(exclude_none=True) == reply.body["usage"]
    assert all(json_roundtrip(event.data)["usage"] is None for event in reply.events[:-2])
    assert all(chunk.usage is None for chunk in others)


def test_stream_without_include_usage_has_none() -> None:
    assert all(
        "usage" not in json_roundtrip(event.data) for event in make_adapter().make_reply(make_request(stream=True), HELLO).events[:-1]
    )


def test_chunks_are_padded_by_default() -> None:
    assert all(chunk.obfuscation for chunk in parse_chunks(make_adapter().make_reply(make_request(stream=True), HELLO)))
    plain = make_adapter().make_reply(make_request(stream=True, stream_options={"include_obfuscation": False}), HELLO)
    assert all(chunk.obfuscation is None for chunk in parse_chunks(plain))


def test_each_choice_has_its_own_seed() -> None:
    request = make_request(n=3, seed=40)
    adapter = make_adapter()
    assert [prompt.seed for prompt in adapter.make_prompts(request)] == [40, 41, 42]
    reply = adapter.make_reply(request, *(FakeReply((ReplyText(f"Choice {prompt.seed}"),)) for prompt in adapter.make_prompts(request)))
    assert [choice.message.content for choice in parse_completion(reply).choices] == ["Choice 40", "Choice 41", "Choice 42"]
    assert accumulate_choices(reply) == list_choices(reply)


def test_single_reply_repeats_for_every_choice() -> None:
    choices = make_adapter().make_reply(make_request(n=3, tools=[WEATHER]), FakeReply((ReplyCall("get_weather"),))).body["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert len({choice["message"]["tool_calls"][0]["id"] for choice in choices}) == 3


@pytest.mark.parametrize(("tier", "expected"), [("auto", "default"), ("flex", "flex"), ("fast", "priority"), ("priority", "priority")])
def test_service_tier_is_the_serving_one(tier: str, expected: str) -> None:
    assert parse_completion(make_adapter().make_reply(make_request(service_tier=tier), HELLO)).service_tier == expected


def test_azure_reply_has_filter_results() -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
    reply = make_adapter().make_reply(make_request(body, is_azure=True, deployment="gpt-4o"), HELLO)
    assert parse_completion(reply).model == "gpt-4o-2024-08-06"
    assert reply.body["prompt_filter_results"][0]["content_filter_results"]["hate"] == {"filtered": False, "severity": "safe"}
    assert reply.body["choices"][0]["content_filter_results"]["violence"]["filtered"] is False
    first = json_roundtrip(reply.events[0].data)
    assert (first["choices"], first["id"], first["object"]) == ([], "", "")
    assert first["prompt_filter_results"] == reply.body["prompt_filter_results"]
    assert json_roundtrip(reply.events[1].data)["choices"][0]["content_filter_results"] == {}


def test_stored_completion_belongs_to_its_account() -> None:
    storage = ProviderStorage()
    adapter = make_adapter(storage)
    for store in (True, False, None):
        request = make_request(store=store)
        reply = adapter.make_reply(request, HELLO)
        adapter.acquire_locks(request)
        adapter.store_reply(request, reply)
        adapter.release_locks(request)
        assert storage.get("org-test", "chat.completion", reply.body["id"]) == (reply.body if store else None)
        assert storage.get("org-other", "chat.completion", reply.body["id"]) is None
