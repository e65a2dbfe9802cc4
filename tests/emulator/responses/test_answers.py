"""The response object: its keys, its ids, its numbers, and how it ends."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openai.types.responses import Response

from legato.emulator.ids import Ids
from legato.emulator.minds.base import Refused, Say, Thought, Use, Words
from legato.emulator.responses.items import ItemIds, stored_form
from legato.emulator.tokens import count
from tests.emulator.responses.bench import HELLO, LOOKS_UP, NOW, THOUGHTFUL, TOOL, Bench, repeated, returned

KEYS = {
    "id", "object", "created_at", "completed_at", "status", "background", "billing", "error", "incomplete_details", "instructions",
    "max_output_tokens", "max_tool_calls", "metadata", "model", "moderation", "output", "parallel_tool_calls", "presence_penalty",
    "frequency_penalty", "previous_response_id", "prompt_cache_key", "prompt_cache_retention", "reasoning", "safety_identifier",
    "service_tier", "store", "temperature", "text", "tool_choice", "tools", "tool_usage", "top_logprobs", "top_p", "truncation",
    "usage", "user",
}  # fmt: skip


def test_a_response_has_the_recorded_keys() -> None:
    assert Bench().post({}).keys() == KEYS


def test_a_streamed_response_does_not_say_who_pays() -> None:
    assert Bench().stream({})[-1]["response"].keys() == KEYS - {"billing"}


def test_a_response_made_in_a_conversation_names_it_and_no_other_does() -> None:
    bench = Bench()
    _, conversation = bench.dialect.conversations.create(bench.ask(), {})
    answered = bench.post({"conversation": conversation["id"]})
    assert answered["conversation"] == {"id": conversation["id"]}
    assert answered["previous_response_id"] is None
    assert answered.keys() == KEYS | {"conversation"}


def test_what_was_asked_is_echoed() -> None:
    asked: dict[str, Any] = {
        "instructions": "Be brief.",
        "max_output_tokens": 500,
        "max_tool_calls": 3,
        "metadata": {"case": "7"},
        "parallel_tool_calls": False,
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "store": False,
        "temperature": 0.2,
        "tool_choice": "required",
        "top_p": 0.5,
        "truncation": "auto",
        "user": "u",
    }
    answered = Bench().post({**asked, "tools": [TOOL]})
    assert {key: answered[key] for key in asked} == asked


def test_what_was_not_asked_is_told_by_its_default() -> None:
    answered = Bench().post({"metadata": None, "temperature": None, "text": None})
    assert (answered["metadata"], answered["temperature"], answered["top_p"], answered["store"]) == ({}, 1.0, 1.0, True)
    assert answered["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert (answered["tool_choice"], answered["truncation"], answered["service_tier"]) == ("auto", "disabled", "default")


def test_a_tool_is_echoed_with_its_defaults() -> None:
    closed = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}
    tool = {"type": "function", "name": "f", "parameters": closed}
    assert Bench().post({"tools": [tool]})["tools"] == [{**tool, "description": None, "strict": True}]


def test_the_model_answers_under_its_dated_name() -> None:
    assert Bench().post({"model": "gpt-4o"})["model"] == "gpt-4o-2024-08-06"


@pytest.mark.parametrize(("asked", "told"), [("auto", "default"), ("default", "default"), ("flex", "flex"), ("fast", "priority")])
def test_the_tier_is_resolved(asked: str, told: str) -> None:
    assert Bench().post({"service_tier": asked})["service_tier"] == told


def test_ids_have_the_providers_shapes() -> None:
    answered = Bench().post({"model": "gpt-5", "tools": [TOOL]}, Say((Thought("Hm."), Words("Let me see."), Use("look_up"))))
    ids = [answered["id"], *(item["id"] for item in answered["output"])]
    for id, prefix in zip(ids, ("resp", "rs", "msg", "fc"), strict=True):
        assert re.fullmatch(rf"{prefix}_[0-9a-f]{{50}}", id)
    assert len({id.partition("_")[2][:26] for id in ids}) == 1  # of one response: a common head
    assert re.fullmatch(r"call_[A-Za-z0-9]{24}", answered["output"][2]["call_id"])


def test_no_id_is_used_twice() -> None:
    bench = Bench()
    ids = []
    for _ in range(50):
        answered = bench.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
        ids += [answered["id"], *(item["id"] for item in answered["output"]), answered["output"][1]["call_id"]]
    assert repeated(ids) == []


def test_a_call_keeps_the_id_that_it_was_given() -> None:
    assert Bench().post({"tools": [TOOL]}, Say((Use("look_up", id="call_0"),)))["output"][0]["call_id"] == "call_0"


def test_items_have_the_recorded_members() -> None:
    reasoning, message = Bench().post({"model": "gpt-5"}, THOUGHTFUL)["output"]
    assert reasoning.keys() == {"id", "type", "summary", "encrypted_content"}
    assert message == {
        "id": message["id"],
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Hello there."}],
    }
    call = Bench().post({"tools": [TOOL]}, Say((Use("look_up", "{}"),)))["output"][0]
    assert call.keys() == {"id", "type", "status", "arguments", "call_id", "name"}


def test_newer_models_say_whether_a_message_is_the_answer_or_commentary() -> None:
    assert Bench().post({"model": "gpt-5.5"})["output"][0]["phase"] == "final_answer"
    both = Say((Words("One moment."), Use("look_up")))
    assert Bench().post({"model": "gpt-5.5", "tools": [TOOL]}, both)["output"][0]["phase"] == "commentary"
    assert "phase" not in Bench().post({"model": "gpt-5"})["output"][0]


def test_a_summary_is_given_only_if_it_was_asked_for() -> None:
    assert Bench().post({"model": "gpt-5"}, THOUGHTFUL)["output"][0]["summary"] == []
    told = Bench().post({"model": "gpt-5", "reasoning": {"summary": "auto"}}, THOUGHTFUL)["output"][0]["summary"]
    assert told == [{"type": "summary_text", "text": "The user greets me."}]


def test_a_refusal_is_a_message_of_a_completed_response() -> None:
    answered = Bench().post({}, Say((Refused("I cannot help with that."),)))
    assert answered["status"] == "completed"
    assert answered["output"][0]["content"] == [{"type": "refusal", "refusal": "I cannot help with that."}]
    assert Response.model_validate(answered).output_text == ""


def test_without_parallel_calls_only_the_first_is_made() -> None:
    say = Say((Use("look_up", '{"order": "A"}'), Use("look_up", '{"order": "B"}')))
    assert len(Bench().post({"tools": [TOOL]}, say)["output"]) == 2
    (only,) = Bench().post({"tools": [TOOL], "parallel_tool_calls": False}, say)["output"]
    assert only["arguments"] == '{"order": "A"}'


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_output_tokens_are_those_of_what_was_said_and_thought() -> None:
    usage = Bench().post({"model": "gpt-5"}, THOUGHTFUL)["usage"]
    assert usage["output_tokens_details"]["reasoning_tokens"] == count("The user greets me.")
    assert usage["output_tokens"] == count("The user greets me.") + count("Hello there.")
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_input_tokens_grow_by_what_is_added() -> None:
    words = "There is a parcel that never came. " * 5
    plain, longer = (Bench().post({"input": text})["usage"]["input_tokens"] for text in ("Hi", words))
    assert longer - plain == count(words) - count("Hi")
    assert Bench().post({"instructions": "Be brief."})["usage"]["input_tokens"] > plain
    assert Bench().post({"tools": [TOOL]})["usage"]["input_tokens"] > plain


def test_a_chain_is_read_again_and_comes_from_the_cache() -> None:
    bench = Bench()
    first = bench.post({})
    assert first["usage"]["input_tokens_details"]["cached_tokens"] == 0
    second = bench.post({"previous_response_id": first["id"]})
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]
    assert 0 < second["usage"]["input_tokens_details"]["cached_tokens"] < second["usage"]["input_tokens"]
    third = bench.post({"previous_response_id": second["id"]})
    assert third["usage"]["input_tokens_details"]["cached_tokens"] > second["usage"]["input_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("other", [{"instructions": "You are another agent."}, {"tools": [TOOL]}, {"model": "gpt-4.1"}])
def test_another_frame_finds_nothing_in_the_cache(other: dict[str, Any]) -> None:
    bench = Bench()
    first = bench.post({})
    assert bench.post({"previous_response_id": first["id"], **other})["usage"]["input_tokens_details"]["cached_tokens"] == 0


# -- answers that are cut short ----------------------------------------------------------------------------------------


def test_an_answer_beyond_its_limit_is_incomplete() -> None:
    answered = Bench().post({"max_output_tokens": 20}, Say((Words("word " * 100),)))
    assert answered["status"] == "incomplete"
    assert answered["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answered["completed_at"] is None
    assert answered["output"][-1]["status"] == "incomplete"
    assert 0 < answered["usage"]["output_tokens"] <= 20
    assert ("word " * 100).startswith(answered["output"][0]["content"][0]["text"])


def test_an_answer_within_its_limit_is_complete() -> None:
    assert Bench().post({"max_output_tokens": 16})["status"] == "completed"


def test_thinking_may_use_up_the_whole_limit() -> None:
    answered = Bench().post({"model": "gpt-5", "max_output_tokens": 16}, Say((Thought("word " * 100), Words("Hello."))))
    assert [item["type"] for item in answered["output"]] == ["reasoning"]
    assert answered["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answered["usage"]["output_tokens_details"]["reasoning_tokens"] == answered["usage"]["output_tokens"]


def test_arguments_that_are_cut_are_no_json() -> None:
    arguments = '{"order": "' + "word " * 100 + '"}'
    call = Bench().post({"tools": [TOOL], "max_output_tokens": 16}, Say((Use("look_up", arguments),)))["output"][0]
    assert call["status"] == "incomplete"
    assert arguments.startswith(call["arguments"])
    assert len(call["arguments"]) < len(arguments)


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_a_model_may_be_stopped_for_reasons_of_its_own(finish: Any, reason: str) -> None:
    answered = Bench().post({}, Say(HELLO.items, finish))
    assert (answered["status"], answered["incomplete_details"]) == ("incomplete", {"reason": reason})
    assert answered["output"][-1]["status"] == "incomplete"


# -- again -------------------------------------------------------------------------------------------------------------


def _conversation(bench: Bench) -> list[dict[str, Any]]:
    first = bench.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
    second = bench.post({"model": "gpt-5", "previous_response_id": first["id"], "input": returned(first["output"])}, THOUGHTFUL)
    return [first, second, *bench.stream({"model": "gpt-5", "previous_response_id": second["id"]}, THOUGHTFUL)]


def test_the_same_seed_gives_the_same_answers_to_the_last_character() -> None:
    assert _conversation(Bench(seed=7)) == _conversation(Bench(seed=7))


def test_another_seed_gives_other_ids() -> None:
    assert Bench(seed=1).post({})["id"] != Bench(seed=2).post({})["id"]


def test_a_response_is_dated_by_the_request() -> None:
    answered = Bench().post({}, now=NOW + 5.7)
    assert (answered["created_at"], answered["completed_at"]) == (int(NOW) + 5, int(NOW) + 5)


@pytest.mark.parametrize(
    ("tools", "namespace"),
    [
        ([TOOL], None),
        ([{**TOOL, "defer_loading": True}], "look_up"),
        ([{"type": "namespace", "name": "orders", "description": "Orders.", "tools": [TOOL]}], "orders"),
        ([{"type": "namespace", "name": "orders", "description": "Orders.", "tools": [TOOL]}, TOOL], None),
    ],
    ids=["at the top", "loaded later", "in a namespace", "in both"],
)
def test_a_call_says_the_namespace_of_its_tool(tools: list[Any], namespace: str | None) -> None:
    (call,) = Bench().post({"tools": tools}, Say((Use("look_up", "{}"),)))["output"]
    assert call.get("namespace") == namespace


def test_a_format_without_a_description_is_told_with_none() -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    asked = {"type": "json_schema", "name": "order", "schema": schema, "strict": True}
    assert Bench().post({"text": {"format": asked}})["text"]["format"] == {"description": None, **asked}
    assert Bench().post({})["text"]["format"] == {"type": "text"}


def test_a_model_that_does_not_reason_has_no_mode_of_reasoning() -> None:
    assert Bench().post({"model": "gpt-4o"})["reasoning"] == {"effort": None, "summary": None, "context": None}
    assert Bench().post({"model": "gpt-5"})["reasoning"]["mode"] == "standard"


def test_stored_pictures_and_shell_calls_have_the_members_that_the_api_adds() -> None:
    ids = ItemIds(Ids(1), NOW)
    picture = {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]}
    assert stored_form(picture, ids)["content"][0]["detail"] == "auto"
    shell = stored_form({"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"]}}, ids)
    assert shell["action"] == {"timeout_ms": None, "max_output_length": None, "commands": ["ls"]}
    assert shell["environment"] is None
