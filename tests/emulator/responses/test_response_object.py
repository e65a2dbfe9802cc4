"""The response object: its members, ids, tokens and final status."""

from __future__ import annotations

import re
from typing import Any

import pytest
from openai.types.responses import Response

from legato.emulator.fake_models.base import FakeReply, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.ids import IdGenerator
from legato.emulator.responses.items import ItemIdGenerator, to_stored_item
from legato.emulator.tokens import count_tokens
from tests.emulator.responses.adapter_client import HELLO, LOOKS_UP, NOW, THOUGHTFUL, TOOL, AdapterClient, list_repeated, make_outputs

KEYS = {
    "id", "object", "created_at", "completed_at", "status", "background", "billing", "error", "incomplete_details", "instructions",
    "max_output_tokens", "max_tool_calls", "metadata", "model", "moderation", "output", "parallel_tool_calls", "presence_penalty",
    "frequency_penalty", "previous_response_id", "prompt_cache_key", "prompt_cache_retention", "reasoning", "safety_identifier",
    "service_tier", "store", "temperature", "text", "tool_choice", "tools", "tool_usage", "top_logprobs", "top_p", "truncation",
    "usage", "user",
}  # fmt: skip


def test_response_has_the_recorded_keys() -> None:
    assert AdapterClient().post({}).keys() == KEYS


def test_streamed_response_has_no_billing() -> None:
    assert AdapterClient().stream({})[-1]["response"].keys() == KEYS - {"billing"}


def test_response_names_its_conversation() -> None:
    client = AdapterClient()
    _, conversation = client.adapter.conversation_endpoints.create(client.make_request(), {})
    response = client.post({"conversation": conversation["id"]})
    assert response["conversation"] == {"id": conversation["id"]}
    assert response["previous_response_id"] is None
    assert response.keys() == KEYS | {"conversation"}


def test_request_parameters_are_echoed() -> None:
    body: dict[str, Any] = {
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
    response = AdapterClient().post({**body, "tools": [TOOL]})
    assert {key: response[key] for key in body} == body


def test_missing_parameters_have_defaults() -> None:
    response = AdapterClient().post({"metadata": None, "temperature": None, "text": None})
    assert (response["metadata"], response["temperature"], response["top_p"], response["store"]) == ({}, 1.0, 1.0, True)
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert (response["tool_choice"], response["truncation"], response["service_tier"]) == ("auto", "disabled", "default")


def test_tool_is_echoed_with_defaults() -> None:
    closed = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}
    tool = {"type": "function", "name": "f", "parameters": closed}
    assert AdapterClient().post({"tools": [tool]})["tools"] == [{**tool, "description": None, "strict": True}]


def test_response_has_the_dated_model_name() -> None:
    assert AdapterClient().post({"model": "gpt-4o"})["model"] == "gpt-4o-2024-08-06"


@pytest.mark.parametrize(("tier", "expected"), [("auto", "default"), ("default", "default"), ("flex", "flex"), ("fast", "priority")])
def test_service_tier_is_resolved(tier: str, expected: str) -> None:
    assert AdapterClient().post({"service_tier": tier})["service_tier"] == expected


def test_ids_look_like_the_providers() -> None:
    response = AdapterClient().post(
        {"model": "gpt-5", "tools": [TOOL]}, FakeReply((ReplyThought("Hm."), ReplyText("Let me see."), ReplyCall("look_up")))
    )
    ids = [response["id"], *(item["id"] for item in response["output"])]
    for id, prefix in zip(ids, ("resp", "rs", "msg", "fc"), strict=True):
        assert re.fullmatch(rf"{prefix}_[0-9a-f]{{50}}", id)
    assert len({id.partition("_")[2][:26] for id in ids}) == 1  # of one response: a common head
    assert re.fullmatch(r"call_[A-Za-z0-9]{24}", response["output"][2]["call_id"])


def test_no_id_occurs_twice() -> None:
    client = AdapterClient()
    ids = []
    for _ in range(50):
        response = client.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
        ids += [response["id"], *(item["id"] for item in response["output"]), response["output"][1]["call_id"]]
    assert list_repeated(ids) == []


def test_call_id_of_fake_model_is_used() -> None:
    assert AdapterClient().post({"tools": [TOOL]}, FakeReply((ReplyCall("look_up", id="call_0"),)))["output"][0]["call_id"] == "call_0"


def test_items_have_the_recorded_members() -> None:
    reasoning, message = AdapterClient().post({"model": "gpt-5"}, THOUGHTFUL)["output"]
    assert reasoning.keys() == {"id", "type", "summary", "encrypted_content"}
    assert message == {
        "id": message["id"],
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Hello there."}],
    }
    call = AdapterClient().post({"tools": [TOOL]}, FakeReply((ReplyCall("look_up", "{}"),)))["output"][0]
    assert call.keys() == {"id", "type", "status", "arguments", "call_id", "name"}


def test_newer_models_mark_message_phases() -> None:
    assert AdapterClient().post({"model": "gpt-5.5"})["output"][0]["phase"] == "final_answer"
    both = FakeReply((ReplyText("One moment."), ReplyCall("look_up")))
    assert AdapterClient().post({"model": "gpt-5.5", "tools": [TOOL]}, both)["output"][0]["phase"] == "commentary"
    assert "phase" not in AdapterClient().post({"model": "gpt-5"})["output"][0]


def test_summary_is_only_given_on_request() -> None:
    assert AdapterClient().post({"model": "gpt-5"}, THOUGHTFUL)["output"][0]["summary"] == []
    summary = AdapterClient().post({"model": "gpt-5", "reasoning": {"summary": "auto"}}, THOUGHTFUL)["output"][0]["summary"]
    assert summary == [{"type": "summary_text", "text": "The user greets me."}]


def test_refusal_is_a_completed_message() -> None:
    response = AdapterClient().post({}, FakeReply((ReplyRefusal("I cannot help with that."),)))
    assert response["status"] == "completed"
    assert response["output"][0]["content"] == [{"type": "refusal", "refusal": "I cannot help with that."}]
    assert Response.model_validate(response).output_text == ""


def test_one_call_without_parallel_calls() -> None:
    fake_reply = FakeReply((ReplyCall("look_up", '{"order": "A"}'), ReplyCall("look_up", '{"order": "B"}')))
    assert len(AdapterClient().post({"tools": [TOOL]}, fake_reply)["output"]) == 2
    (only,) = AdapterClient().post({"tools": [TOOL], "parallel_tool_calls": False}, fake_reply)["output"]
    assert only["arguments"] == '{"order": "A"}'


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_output_tokens_count_text_and_reasoning() -> None:
    usage = AdapterClient().post({"model": "gpt-5"}, THOUGHTFUL)["usage"]
    assert usage["output_tokens_details"]["reasoning_tokens"] == count_tokens("The user greets me.")
    assert usage["output_tokens"] == count_tokens("The user greets me.") + count_tokens("Hello there.")
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_input_tokens_grow_with_the_input() -> None:
    words = "There is a parcel that never came. " * 5
    plain, longer = (AdapterClient().post({"input": text})["usage"]["input_tokens"] for text in ("Hi", words))
    assert longer - plain == count_tokens(words) - count_tokens("Hi")
    assert AdapterClient().post({"instructions": "Be brief."})["usage"]["input_tokens"] > plain
    assert AdapterClient().post({"tools": [TOOL]})["usage"]["input_tokens"] > plain


def test_chain_tokens_count_as_cached() -> None:
    client = AdapterClient()
    first = client.post({})
    assert first["usage"]["input_tokens_details"]["cached_tokens"] == 0
    second = client.post({"previous_response_id": first["id"]})
    assert second["usage"]["input_tokens"] > first["usage"]["input_tokens"]
    assert 0 < second["usage"]["input_tokens_details"]["cached_tokens"] < second["usage"]["input_tokens"]
    third = client.post({"previous_response_id": second["id"]})
    assert third["usage"]["input_tokens_details"]["cached_tokens"] > second["usage"]["input_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("other", [{"instructions": "You are another agent."}, {"tools": [TOOL]}, {"model": "gpt-4.1"}])
def test_changed_context_has_no_cached_tokens(other: dict[str, Any]) -> None:
    client = AdapterClient()
    first = client.post({})
    assert client.post({"previous_response_id": first["id"], **other})["usage"]["input_tokens_details"]["cached_tokens"] == 0


# -- replies that are cut short ---------------------------------------------------------------------------------------


def test_too_long_reply_is_incomplete() -> None:
    response = AdapterClient().post({"max_output_tokens": 20}, FakeReply((ReplyText("word " * 100),)))
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["completed_at"] is None
    assert response["output"][-1]["status"] == "incomplete"
    assert 0 < response["usage"]["output_tokens"] <= 20
    assert ("word " * 100).startswith(response["output"][0]["content"][0]["text"])


def test_reply_within_limit_is_complete() -> None:
    assert AdapterClient().post({"max_output_tokens": 16})["status"] == "completed"


def test_reasoning_may_exhaust_the_limit() -> None:
    response = AdapterClient().post(
        {"model": "gpt-5", "max_output_tokens": 16}, FakeReply((ReplyThought("word " * 100), ReplyText("Hello.")))
    )
    assert [item["type"] for item in response["output"]] == ["reasoning"]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == response["usage"]["output_tokens"]


def test_cut_arguments_are_incomplete() -> None:
    arguments = '{"order": "' + "word " * 100 + '"}'
    call = AdapterClient().post({"tools": [TOOL], "max_output_tokens": 16}, FakeReply((ReplyCall("look_up", arguments),)))["output"][0]
    assert call["status"] == "incomplete"
    assert arguments.startswith(call["arguments"])
    assert len(call["arguments"]) < len(arguments)


@pytest.mark.parametrize(("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_finish_reason_makes_response_incomplete(finish: Any, reason: str) -> None:
    response = AdapterClient().post({}, FakeReply(HELLO.items, finish))
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": reason})
    assert response["output"][-1]["status"] == "incomplete"


# -- seeds -------------------------------------------------------------------------------------------------------------


def _run_conversation(client: AdapterClient) -> list[dict[str, Any]]:
    first = client.post({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP)
    second = client.post({"model": "gpt-5", "previous_response_id": first["id"], "input": make_outputs(first["output"])}, THOUGHTFUL)
    return [first, second, *client.stream({"model": "gpt-5", "previous_response_id": second["id"]}, THOUGHTFUL)]


def test_same_seed_gives_identical_responses() -> None:
    assert _run_conversation(AdapterClient(seed=7)) == _run_conversation(AdapterClient(seed=7))


def test_another_seed_gives_other_ids() -> None:
    assert AdapterClient(seed=1).post({})["id"] != AdapterClient(seed=2).post({})["id"]


def test_response_has_the_requests_time() -> None:
    response = AdapterClient().post({}, now=NOW + 5.7)
    assert (response["created_at"], response["completed_at"]) == (int(NOW) + 5, int(NOW) + 5)


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
def test_call_has_its_tools_namespace(tools: list[Any], namespace: str | None) -> None:
    (call,) = AdapterClient().post({"tools": tools}, FakeReply((ReplyCall("look_up", "{}"),)))["output"]
    assert call.get("namespace") == namespace


def test_format_gets_a_null_description() -> None:
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    format = {"type": "json_schema", "name": "order", "schema": schema, "strict": True}
    assert AdapterClient().post({"text": {"format": format}})["text"]["format"] == {"description": None, **format}
    assert AdapterClient().post({})["text"]["format"] == {"type": "text"}


def test_reasoning_mode_needs_reasoning_model() -> None:
    assert AdapterClient().post({"model": "gpt-4o"})["reasoning"] == {"effort": None, "summary": None, "context": None}
    assert AdapterClient().post({"model": "gpt-5"})["reasoning"]["mode"] == "standard"


def test_stored_items_have_default_members() -> None:
    ids = ItemIdGenerator(IdGenerator(1), NOW)
    picture = {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]}
    assert to_stored_item(picture, ids)["content"][0]["detail"] == "auto"
    shell = to_stored_item({"type": "shell_call", "call_id": "call_1", "action": {"commands": ["ls"]}}, ids)
    assert shell["action"] == {"timeout_ms": None, "max_output_length": None, "commands": ["ls"]}
    assert shell["environment"] is None
