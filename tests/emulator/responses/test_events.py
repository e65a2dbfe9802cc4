"""Streams: the recorded order of events, equal to the whole response."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.fake_models.base import FakeReply, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.request_types import ProviderFailure
from tests.emulator.responses.adapter_client import (
    HELLO,
    LOOKS_UP,
    TOOL,
    AdapterClient,
    decode_events,
    list_repeated,
    rebuild_output,
    summarize_types,
)

OPENING = ["created", "in_progress"]
TEXT = ["output_item.added", "content_part.added", "output_text.delta+", "output_text.done", "content_part.done", "output_item.done"]
REFUSAL = ["output_item.added", "content_part.added", "refusal.delta+", "refusal.done", "content_part.done", "output_item.done"]
REASONING = ["output_item.added", "output_item.done"]
PART = ["reasoning_summary_part.added", "reasoning_summary_text.delta+", "reasoning_summary_text.done", "reasoning_summary_part.done"]
CALL = ["output_item.added", "function_call_arguments.delta+", "function_call_arguments.done", "output_item.done"]
CUSTOM = ["output_item.added", "custom_tool_call_input.delta+", "custom_tool_call_input.done", "output_item.done"]

STREAMS: dict[str, tuple[dict[str, Any], FakeReply, list[str]]] = {
    "text": ({}, HELLO, [*OPENING, *TEXT, "completed"]),
    "reasoning and a call": ({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP, [*OPENING, *REASONING, *CALL, "completed"]),
    "reasoning with a summary": (
        {"model": "gpt-5", "reasoning": {"summary": "auto"}},
        FakeReply((ReplyThought("First this."), ReplyThought("Then that."), ReplyText("So."))),
        [*OPENING, "output_item.added", *PART, *PART, "output_item.done", *TEXT, "completed"],
    ),
    "reasoning, commentary and a call": (
        {"model": "gpt-5.5", "tools": [TOOL]},
        FakeReply((ReplyThought("Hm."), ReplyText("One moment."), ReplyCall("look_up"))),
        [*OPENING, *REASONING, *TEXT, *CALL, "completed"],
    ),
    "parallel calls": (
        {"model": "gpt-5", "tools": [TOOL]},
        FakeReply((ReplyCall("look_up", '{"order": "A"}'), ReplyCall("look_up", '{"order": "B"}'))),
        [*OPENING, *CALL, *CALL, "completed"],
    ),
    "a tool that takes text": (
        {"tools": [{"type": "custom", "name": "sql"}]},
        FakeReply((ReplyCall("sql", '{"input": "select 1 from orders"}'),)),
        [*OPENING, *CUSTOM, "completed"],
    ),
    "a refusal": ({}, FakeReply((ReplyRefusal("I cannot help with that."),)), [*OPENING, *REFUSAL, "completed"]),
    "nothing at all": ({}, FakeReply(()), [*OPENING, "completed"]),
    "no words": ({}, FakeReply((ReplyText(""),)), [*OPENING, *TEXT, "completed"]),
    "an answer cut by its limit": ({"max_output_tokens": 16}, FakeReply((ReplyText("word " * 40),)), [*OPENING, *TEXT, "incomplete"]),
    "an answer stopped by the filter": ({}, FakeReply((ReplyText("It is"),), "content_filter"), [*OPENING, *TEXT, "incomplete"]),
    "in the background": ({"background": True}, HELLO, ["created", "queued", "in_progress", *TEXT, "completed"]),
}


@pytest.mark.parametrize("name", STREAMS)
def test_events_are_in_recorded_order(name: str) -> None:
    body, fake_reply, expected = STREAMS[name]
    assert summarize_types(AdapterClient().stream(body, fake_reply)) == expected


@pytest.mark.parametrize("name", STREAMS)
def test_events_are_numbered_from_zero(name: str) -> None:
    events = AdapterClient().stream(*STREAMS[name][:2])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.parametrize("name", STREAMS)
def test_events_add_up_to_the_response(name: str) -> None:
    body, fake_reply, _ = STREAMS[name]
    events = AdapterClient().stream(body, fake_reply)
    final = events[-1]["response"]
    assert [_readable(item) for item in rebuild_output(events)] == [_readable(item) for item in final["output"]]
    whole = AdapterClient().post(body, fake_reply)
    assert {**whole, "output": [_readable(item) for item in whole["output"]]} == {
        **final,
        "output": [_readable(item) for item in final["output"]],
        "billing": {"payer": "developer"},
    }


def _readable(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "encrypted_content"}


@pytest.mark.parametrize("name", STREAMS)
def test_item_ids_are_consistent_across_events(name: str) -> None:
    events = AdapterClient().stream(*STREAMS[name][:2])
    ids = [item["id"] for item in events[-1]["response"]["output"]]
    for event in events:
        if "output_index" in event:
            assert event.get("item_id", event.get("item", {}).get("id")) == ids[event["output_index"]]
    assert list_repeated(ids) == []


def test_opening_response_has_no_output() -> None:
    """It also has no usage and no resolved service tier."""
    created, in_progress, *_, completed = AdapterClient().stream({})
    for event in (created, in_progress):
        response = event["response"]
        assert (response["status"], response["output"], response["usage"], response["completed_at"]) == ("in_progress", [], None, None)
        assert response["service_tier"] == "auto"
        assert response.keys() == completed["response"].keys()
    assert completed["response"]["service_tier"] == "default"


def test_added_call_has_no_arguments() -> None:
    added = next(
        event
        for event in AdapterClient().stream({"tools": [TOOL]}, FakeReply((ReplyCall("look_up", '{"order": "A"}'),)))
        if "item" in event
    )
    assert (added["item"]["arguments"], added["item"]["status"], added["item"]["name"]) == ("", "in_progress", "look_up")


def test_arguments_done_event_names_the_tool() -> None:
    events = AdapterClient().stream({"tools": [TOOL]}, FakeReply((ReplyCall("look_up"),)))
    done = next(event for event in events if event["type"] == "response.function_call_arguments.done")
    assert done.keys() == {"type", "sequence_number", "item_id", "output_index", "name", "arguments"}
    assert done["name"] == "look_up"


def test_deltas_are_padded_by_default() -> None:
    words = ReplyText("Some words of very different lengths, incomprehensibly.")
    deltas = [event for event in AdapterClient().stream({}, FakeReply((words,))) if "delta" in event]
    assert all((len(event["delta"]) + len(event["obfuscation"])) % 16 == 0 for event in deltas)


def test_request_can_turn_off_padding() -> None:
    events = AdapterClient().stream({"stream_options": {"include_obfuscation": False}})
    assert not any("obfuscation" in event for event in events)


def test_each_encrypted_content_of_reasoning_is_valid() -> None:
    """Reasoning is sent three times with different encrypted contents, and each is accepted later."""
    client = AdapterClient()
    events = client.stream({"model": "gpt-5", "tools": [TOOL], "store": False}, LOOKS_UP)
    call = events[-1]["response"]["output"][1]
    reasoning_items = [event["item"] for event in events if event.get("item", {}).get("type") == "reasoning"]
    reasoning_items.append(events[-1]["response"]["output"][0])
    assert len({item["encrypted_content"] for item in reasoning_items}) == 3
    for item in reasoning_items:
        response = {"type": "function_call_output", "call_id": call["call_id"], "output": "shipped"}
        client.post({"model": "gpt-5", "tools": [TOOL], "store": False, "input": [item, call, response]})


# -- streams that fail -------------------------------------------------------------------------------------------------

FAILURES = {
    "server_error": "server_error",
    "overloaded": "server_is_overloaded",
    "timeout": "server_error",
    "rate_limit": "rate_limit_exceeded",
    "quota": "insufficient_quota",
    "context_length": "context_length_exceeded",
    "content_filter": "invalid_prompt",
    "something else": "server_error",
}


def _make_failing_events(
    kind: str, after_events: int = 2, *, is_flat: bool = False, body: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    client = AdapterClient()
    request = client.make_request({"stream": True, **(body or {})})
    client.adapter.acquire_locks(request)
    reply = client.adapter.make_reply(request, HELLO)
    return decode_events(
        client.adapter.make_failing_stream(request, reply, ProviderFailure(kind, 500, retry_after=11.054), after_events, is_flat)
    )


@pytest.mark.parametrize(("kind", "code"), FAILURES.items())
def test_failing_stream_opens_then_reports_error(kind: str, code: str) -> None:
    created, in_progress, error, failed = _make_failing_events(kind)
    assert [event["type"] for event in (created, in_progress, error, failed)] == [
        "response.created",
        "response.in_progress",
        "error",
        "response.failed",
    ]
    assert [event["sequence_number"] for event in (created, in_progress, error, failed)] == [0, 1, 2, 3]
    response = failed["response"]
    assert (response["status"], response["output"], response["usage"]) == ("failed", [], None)
    assert response["error"] == {"code": code, "message": error["error"]["message"]}
    assert response["id"] == created["response"]["id"]


def test_error_event_is_nested_by_default() -> None:
    assert _make_failing_events("quota")[2] == {
        "type": "error",
        "sequence_number": 2,
        "error": {
            "type": "insufficient_quota",
            "code": "insufficient_quota",
            "message": "You exceeded your current quota, please check your plan and billing details. For more information on this error, "
            "read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors.",
            "param": None,
        },
    }


def test_error_event_can_be_flat() -> None:
    error = _make_failing_events("server_error", is_flat=True)[2]
    assert error.keys() == {"type", "sequence_number", "code", "message", "param"}
    assert error["code"] == "server_error"


def test_rate_limit_event_has_retry_time() -> None:
    assert "Please try again in 11.054s." in _make_failing_events("rate_limit")[-1]["response"]["error"]["message"]


@pytest.mark.parametrize(("after_events", "expected_count"), [(-1, 2), (0, 2), (1, 2), (2, 2), (5, 5), (8, 8), (1000, None)])
def test_stream_fails_after_the_requested_events(after_events: int, expected_count: int | None) -> None:
    """It never fails before it opened, or after its end."""
    events = _make_failing_events("server_error", after_events)
    assert summarize_types(events)[-2:] == ["error", "failed"]
    assert expected_count is None or len(events) == expected_count + 2
    assert "response.completed" not in {event["type"] for event in events}
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_background_stream_is_queued_before_failing() -> None:
    assert summarize_types(_make_failing_events("server_error", body={"background": True})) == [
        "created",
        "queued",
        "in_progress",
        "error",
        "failed",
    ]


def test_too_long_input_fails_inside_the_stream() -> None:
    client = AdapterClient()
    events = client.stream({"input": "word " * 130_000})
    assert summarize_types(events) == ["created", "in_progress", "error", "failed"]
    assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
    id = events[-1]["response"]["id"]
    assert client.expect_rejection({"previous_response_id": id}).rule_ids == ["S1"]
