"""What the model says, as a chat completion and as its chunks, in the SDK's own types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.emulator.minds.base import Refused, Say, Thought, Use, Words
from legato.emulator.shelf import Shelf
from legato.emulator.tokens import count
from legato.providers.rules.chat.laws import Profile
from tests.emulator.chat.asking import WEATHER, accumulated, ask, chunks, dialect, parsed, whole, wired

HELLO = Say((Words("Hello, how can I help you today?"),))
CALLS = Say((Use("get_weather", '{"city": "Oslo"}'), Use("get_weather", '{"city": "Rome"}')))


def test_a_text_is_a_completion_with_one_choice() -> None:
    answer = dialect().answer(ask(), HELLO)
    completion = parsed(answer)
    assert completion.id.startswith("chatcmpl-")
    assert len(completion.id) == len("chatcmpl-") + 29
    assert completion.created == 1_790_000_000
    assert completion.model == "gpt-4o-2024-08-06"
    assert completion.service_tier == "default"
    assert completion.system_fingerprint is not None
    assert completion.system_fingerprint.startswith("fp_")
    assert answer.body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello, how can I help you today?", "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]


def test_the_keys_of_a_completion_are_those_of_the_wire() -> None:
    assert list(dialect().answer(ask(), HELLO).body) == [
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
    ("say", "request_"),
    [
        (HELLO, {}),
        (Say((Words("Let me look."), *CALLS.items)), {"tools": [WEATHER]}),
        (CALLS, {"tools": [WEATHER]}),
        (Say((Thought("Hm."), Words("One."), Words("Two."))), {}),
        (Say((Refused("I can't help with that."),)), {}),
        (Say(()), {}),
        (Say((Words("  leading and trailing \n\n"),)), {}),
        (Say((Words("Grüße 👩‍👩‍👧 " * 20),)), {"max_tokens": 9}),
        (Say((Use("get_weather", '{"city": "Oslo'),), finish="length"), {"tools": [WEATHER]}),
        (Say((Use("get_weather", ""),)), {"tools": [WEATHER]}),
        (Say((Words("Stopped"),), finish="content_filter"), {}),
        (Say((Use("f", '{"a": 1}'),)), {"functions": [{"name": "f"}]}),
        (CALLS, {"tools": [WEATHER], "n": 3}),
        (HELLO, {"n": 2, "stream_options": {"include_usage": True}}),
    ],
)
def test_the_stream_and_the_whole_answer_are_the_same_message(say: Say, request_: dict[str, Any]) -> None:
    answer = dialect().answer(ask(stream=True, **request_), say)
    parsed(answer)
    assert accumulated(answer) == whole(answer)
    assert {(chunk.id, chunk.model, chunk.created, chunk.system_fingerprint) for chunk in chunks(answer)} == {
        (answer.body["id"], answer.body["model"], answer.body["created"], answer.body["system_fingerprint"])
    }


def test_a_stream_begins_with_the_role_and_ends_with_the_reason_and_done() -> None:
    deltas = [chunk.choices[0] for chunk in chunks(dialect().answer(ask(stream=True), HELLO))]
    assert deltas[0].delta.model_dump(exclude_unset=True) == {"role": "assistant", "content": "", "refusal": None}
    assert [choice.delta.content for choice in deltas[1:4]] == ["Hello,", " how", " can"]
    assert deltas[-1].delta.model_dump(exclude_unset=True) == {}
    assert [choice.finish_reason for choice in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert deltas[-1].finish_reason == "stop"


def test_a_call_is_streamed_with_its_id_and_name_first_and_its_arguments_after() -> None:
    events = dialect().answer(ask(stream=True, tools=[WEATHER]), CALLS).events
    calls = [call for event in events[1:-2] for call in wired(event.data)["choices"][0]["delta"]["tool_calls"]]
    assert calls[0].keys() == {"index", "id", "type", "function"}
    assert calls[0]["function"] == {"name": "get_weather", "arguments": ""}
    assert calls[1] == {"index": 0, "function": {"arguments": '{"city":'}}
    assert [call["index"] for call in calls] == sorted(call["index"] for call in calls)


def test_parallel_calls_have_ids_of_their_own() -> None:
    answer = dialect().answer(ask(tools=[WEATHER]), CALLS)
    choice = parsed(answer).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    calls = answer.body["choices"][0]["message"]["tool_calls"]
    assert [json.loads(call["function"]["arguments"])["city"] for call in calls] == ["Oslo", "Rome"]
    assert len({call["id"] for call in calls}) == 2
    assert all(call["id"].startswith("call_") and len(call["id"]) == 29 for call in calls)


def test_an_id_that_the_mind_gives_is_used() -> None:
    say = Say((Use("get_weather", "{}", "call_0"), Use("get_weather", "{}", "call_0")))
    calls = dialect().answer(ask(tools=[WEATHER]), say).body["choices"][0]["message"]["tool_calls"]
    assert [call["id"] for call in calls] == ["call_0", "call_0"]


def test_an_emulator_that_is_started_anew_repeats_no_id_of_the_conversation() -> None:
    asked = ask(tools=[WEATHER])
    calls = dialect().answer(asked, CALLS).body["choices"][0]["message"]["tool_calls"]
    history = [*asked.body["messages"], {"role": "assistant", "tool_calls": calls}]
    again = dialect().answer(ask(tools=[WEATHER], messages=history), CALLS).body["choices"][0]["message"]["tool_calls"]
    assert len({call["id"] for call in calls + again}) == 4


def test_a_call_that_was_forced_by_name_ends_with_stop() -> None:
    forced = {"type": "function", "function": {"name": "get_weather"}}
    assert parsed(dialect().answer(ask(tools=[WEATHER], tool_choice=forced), CALLS)).choices[0].finish_reason == "stop"
    assert parsed(dialect().answer(ask(tools=[WEATHER], tool_choice="required"), CALLS)).choices[0].finish_reason == "tool_calls"


def test_deprecated_functions_are_called_in_the_deprecated_way() -> None:
    choice = parsed(dialect().answer(ask(functions=[{"name": "get_weather"}]), CALLS)).choices[0]
    assert choice.finish_reason == "function_call"
    assert choice.message.tool_calls is None
    assert choice.message.function_call is not None
    assert choice.message.function_call.arguments == '{"city": "Oslo"}'


def test_a_custom_tool_gets_text_in_place_of_arguments() -> None:
    tools = [{"type": "custom", "custom": {"name": "sql"}}]
    answer = dialect().answer(ask(tools=tools, stream=True), Say((Use("sql", '{"input": "SELECT 1"}'), Use("sql", "DROP"))))
    message = parsed(answer).choices[0].message.model_dump(exclude_unset=True)
    assert [call["custom"] for call in message["tool_calls"]] == [
        {"name": "sql", "input": "SELECT 1"},
        {"name": "sql", "input": "DROP"},
    ]
    pieces = [call for event in answer.events[1:-2] for call in wired(event.data)["choices"][0]["delta"]["tool_calls"]]
    assert "".join(piece["custom"]["input"] for piece in pieces if piece["index"] == 0) == "SELECT 1"


def test_a_refusal_is_not_content() -> None:
    message = parsed(dialect().answer(ask(), Say((Refused("No."),)))).choices[0].message
    assert (message.content, message.refusal) == (None, "No.")


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_an_answer_longer_than_its_limit_is_cut_and_says_so(field: str) -> None:
    long = "Every order that was placed before noon leaves the warehouse on the same day. " * 5
    answer = dialect().answer(ask(**{field: 12}), Say((Words(long),)))
    choice = parsed(answer).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.content is not None
    assert long.startswith(choice.message.content)
    assert 0 < count(choice.message.content) <= 12
    assert answer.body["usage"]["completion_tokens"] == count(choice.message.content)


def test_an_answer_as_long_as_its_limit_is_whole() -> None:
    say = Say((Words("Hello there, friend."),))
    assert parsed(dialect().answer(ask(max_tokens=count("Hello there, friend.")), say)).choices[0].finish_reason == "stop"


def test_a_call_is_cut_where_the_tokens_run_out() -> None:
    say = Say((Use("get_weather", json.dumps({"city": "Llanfairpwllgwyngyll " * 10})), Use("get_weather", "{}")))
    choice = parsed(dialect().answer(ask(tools=[WEATHER], max_tokens=20), say)).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.tool_calls is not None
    assert len(choice.message.tool_calls) == 1


def test_thinking_spends_the_limit_and_is_not_shown() -> None:
    thought = "I should look at the order first, then at the parcel, then at the address that the customer gave."
    answer = dialect().answer(ask(max_completion_tokens=10), Say((Thought(thought), Words("It is on its way."))))
    choice = parsed(answer).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("length", "")
    details = answer.body["usage"]["completion_tokens_details"]
    assert 0 < details["reasoning_tokens"] == answer.body["usage"]["completion_tokens"] <= 10


def test_a_compatible_server_shows_what_it_thought_whole_and_streamed() -> None:
    say = Say((Thought("Let me look at the order."), Words("It is on its way.")))
    answer = dialect(profile=Profile(shows_reasoning=True)).answer(ask(stream=True), say)
    message = answer.body["choices"][0]["message"]
    deltas = [event.data["choices"][0]["delta"] for event in answer.events[:-1]]
    assert (message["reasoning_content"], message["content"]) == ("Let me look at the order.", "It is on its way.")
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Let me look at the order."
    assert "reasoning_content" not in dialect().answer(ask(), say).body["choices"][0]["message"]


@pytest.mark.parametrize(("stop", "left"), [("today", "Hello, how can I help you "), (["zzz", "how"], "Hello, "), ("", None), ([], None)])
def test_a_stop_sequence_ends_the_text_before_itself(stop: object, left: str | None) -> None:
    choice = parsed(dialect().answer(ask(stop=stop), HELLO)).choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.content == (left or "Hello, how can I help you today?")


def test_what_the_filter_stopped_says_so() -> None:
    assert parsed(dialect().answer(ask(), Say((Words("Well"),), finish="content_filter"))).choices[0].finish_reason == "content_filter"


def test_the_usage_adds_up() -> None:
    say = Say((Thought("Let me think about it."), Words("Done."), Use("get_weather", "{}")))
    answer = dialect().answer(ask(tools=[WEATHER], n=2), say)
    usage = parsed(answer).usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 2 * count("Let me think about it.")
    assert usage.completion_tokens == 2 * (count("Let me think about it.") + count("Done.") + count("get_weather") + count("{}"))
    assert usage.prompt_tokens_details is not None
    assert (usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens_details.audio_tokens) == (0, 0)


def test_a_longer_prompt_has_more_tokens() -> None:
    short = dialect().answer(ask(), HELLO).body["usage"]["prompt_tokens"]
    tools = dialect().answer(ask(tools=[WEATHER]), HELLO).body["usage"]["prompt_tokens"]
    assert 0 < short < tools


def test_the_usage_comes_in_a_chunk_of_its_own_when_it_is_asked_for() -> None:
    answer = dialect().answer(ask(stream=True, stream_options={"include_usage": True}), HELLO)
    *others, last = chunks(answer)
    assert last.choices == []
    assert last.usage is not None
    assert last.usage.model_dump(exclude_none=True) == answer.body["usage"]
    assert all(wired(event.data)["usage"] is None for event in answer.events[:-2])
    assert all(chunk.usage is None for chunk in others)


def test_the_usage_is_not_in_a_stream_that_did_not_ask_for_it() -> None:
    assert all("usage" not in wired(event.data) for event in dialect().answer(ask(stream=True), HELLO).events[:-1])


def test_chunks_are_filled_up_unless_the_caller_says_no() -> None:
    assert all(chunk.obfuscation for chunk in chunks(dialect().answer(ask(stream=True), HELLO)))
    plain = dialect().answer(ask(stream=True, stream_options={"include_obfuscation": False}), HELLO)
    assert all(chunk.obfuscation is None for chunk in chunks(plain))


def test_each_choice_is_said_by_its_own_seed() -> None:
    asked = ask(n=3, seed=40)
    room = dialect()
    assert [prompt.seed for prompt in room.prompts(asked)] == [40, 41, 42]
    answer = room.answer(asked, *(Say((Words(f"Choice {prompt.seed}"),)) for prompt in room.prompts(asked)))
    assert [choice.message.content for choice in parsed(answer).choices] == ["Choice 40", "Choice 41", "Choice 42"]
    assert accumulated(answer) == whole(answer)


def test_one_thing_said_is_said_for_every_choice_with_calls_of_their_own() -> None:
    choices = dialect().answer(ask(n=3, tools=[WEATHER]), Say((Use("get_weather"),))).body["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert len({choice["message"]["tool_calls"][0]["id"] for choice in choices}) == 3


@pytest.mark.parametrize(("asked", "served"), [("auto", "default"), ("flex", "flex"), ("fast", "priority"), ("priority", "priority")])
def test_the_service_tier_is_the_one_that_served(asked: str, served: str) -> None:
    assert parsed(dialect().answer(ask(service_tier=asked), HELLO)).service_tier == served


def test_azure_says_what_its_filters_found() -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
    answer = dialect().answer(ask(body, azure=True, deployment="gpt-4o"), HELLO)
    assert parsed(answer).model == "gpt-4o-2024-08-06"
    assert answer.body["prompt_filter_results"][0]["content_filter_results"]["hate"] == {"filtered": False, "severity": "safe"}
    assert answer.body["choices"][0]["content_filter_results"]["violence"]["filtered"] is False
    first = wired(answer.events[0].data)
    assert (first["choices"], first["id"], first["object"]) == ([], "", "")
    assert first["prompt_filter_results"] == answer.body["prompt_filter_results"]
    assert wired(answer.events[1].data)["choices"][0]["content_filter_results"] == {}


def test_a_stored_completion_is_kept_for_its_account_alone() -> None:
    shelf = Shelf()
    room = dialect(shelf)
    for store in (True, False, None):
        asked = ask(store=store)
        answer = room.answer(asked, HELLO)
        room.begin(asked)
        room.keep(asked, answer)
        room.end(asked)
        assert shelf.get("org-test", "chat.completion", answer.body["id"]) == (answer.body if store else None)
        assert shelf.get("org-other", "chat.completion", answer.body["id"]) is None
