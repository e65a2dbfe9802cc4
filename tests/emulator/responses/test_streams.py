"""Streams have the order of recorded ones, and say the same as the whole answer."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.asks import Failure
from legato.emulator.minds.base import Refused, Say, Thought, Use, Words
from tests.emulator.responses.bench import HELLO, LOOKS_UP, TOOL, Bench, rebuild, repeated, told, types

OPENING = ["created", "in_progress"]
TEXT = ["output_item.added", "content_part.added", "output_text.delta+", "output_text.done", "content_part.done", "output_item.done"]
REFUSAL = ["output_item.added", "content_part.added", "refusal.delta+", "refusal.done", "content_part.done", "output_item.done"]
REASONING = ["output_item.added", "output_item.done"]
PART = ["reasoning_summary_part.added", "reasoning_summary_text.delta+", "reasoning_summary_text.done", "reasoning_summary_part.done"]
CALL = ["output_item.added", "function_call_arguments.delta+", "function_call_arguments.done", "output_item.done"]
CUSTOM = ["output_item.added", "custom_tool_call_input.delta+", "custom_tool_call_input.done", "output_item.done"]

STREAMS: dict[str, tuple[dict[str, Any], Say, list[str]]] = {
    "text": ({}, HELLO, [*OPENING, *TEXT, "completed"]),
    "reasoning and a call": ({"model": "gpt-5", "tools": [TOOL]}, LOOKS_UP, [*OPENING, *REASONING, *CALL, "completed"]),
    "reasoning with a summary": (
        {"model": "gpt-5", "reasoning": {"summary": "auto"}},
        Say((Thought("First this."), Thought("Then that."), Words("So."))),
        [*OPENING, "output_item.added", *PART, *PART, "output_item.done", *TEXT, "completed"],
    ),
    "reasoning, commentary and a call": (
        {"model": "gpt-5.5", "tools": [TOOL]},
        Say((Thought("Hm."), Words("One moment."), Use("look_up"))),
        [*OPENING, *REASONING, *TEXT, *CALL, "completed"],
    ),
    "parallel calls": (
        {"model": "gpt-5", "tools": [TOOL]},
        Say((Use("look_up", '{"order": "A"}'), Use("look_up", '{"order": "B"}'))),
        [*OPENING, *CALL, *CALL, "completed"],
    ),
    "a tool that takes text": (
        {"tools": [{"type": "custom", "name": "sql"}]},
        Say((Use("sql", '{"input": "select 1 from orders"}'),)),
        [*OPENING, *CUSTOM, "completed"],
    ),
    "a refusal": ({}, Say((Refused("I cannot help with that."),)), [*OPENING, *REFUSAL, "completed"]),
    "nothing at all": ({}, Say(()), [*OPENING, "completed"]),
    "no words": ({}, Say((Words(""),)), [*OPENING, *TEXT, "completed"]),
    "an answer cut by its limit": ({"max_output_tokens": 16}, Say((Words("word " * 40),)), [*OPENING, *TEXT, "incomplete"]),
    "an answer stopped by the filter": ({}, Say((Words("It is"),), "content_filter"), [*OPENING, *TEXT, "incomplete"]),
    "in the background": ({"background": True}, HELLO, ["created", "queued", "in_progress", *TEXT, "completed"]),
}


@pytest.mark.parametrize("name", STREAMS)
def test_events_come_in_the_recorded_order(name: str) -> None:
    body, say, expected = STREAMS[name]
    assert types(Bench().stream(body, say)) == expected


@pytest.mark.parametrize("name", STREAMS)
def test_events_are_numbered_from_nought(name: str) -> None:
    events = Bench().stream(*STREAMS[name][:2])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.parametrize("name", STREAMS)
def test_the_events_add_up_to_the_answer(name: str) -> None:
    body, say, _ = STREAMS[name]
    events = Bench().stream(body, say)
    final = events[-1]["response"]
    assert [_readable(item) for item in rebuild(events)] == [_readable(item) for item in final["output"]]
    whole = Bench().post(body, say)
    assert {**whole, "output": [_readable(item) for item in whole["output"]]} == {
        **final,
        "output": [_readable(item) for item in final["output"]],
        "billing": {"payer": "developer"},
    }


def _readable(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "encrypted_content"}


@pytest.mark.parametrize("name", STREAMS)
def test_an_items_id_is_the_same_in_all_its_events_and_no_other_items(name: str) -> None:
    events = Bench().stream(*STREAMS[name][:2])
    ids = [item["id"] for item in events[-1]["response"]["output"]]
    for event in events:
        if "output_index" in event:
            assert event.get("item_id", event.get("item", {}).get("id")) == ids[event["output_index"]]
    assert repeated(ids) == []


def test_a_response_begins_without_output_usage_or_a_resolved_tier() -> None:
    created, in_progress, *_, completed = Bench().stream({})
    for event in (created, in_progress):
        response = event["response"]
        assert (response["status"], response["output"], response["usage"], response["completed_at"]) == ("in_progress", [], None, None)
        assert response["service_tier"] == "auto"
        assert response.keys() == completed["response"].keys()
    assert completed["response"]["service_tier"] == "default"


def test_a_call_begins_without_arguments() -> None:
    added = next(event for event in Bench().stream({"tools": [TOOL]}, Say((Use("look_up", '{"order": "A"}'),))) if "item" in event)
    assert (added["item"]["arguments"], added["item"]["status"], added["item"]["name"]) == ("", "in_progress", "look_up")


def test_the_end_of_arguments_names_the_tool_but_not_the_call() -> None:
    events = Bench().stream({"tools": [TOOL]}, Say((Use("look_up"),)))
    done = next(event for event in events if event["type"] == "response.function_call_arguments.done")
    assert done.keys() == {"type", "sequence_number", "item_id", "output_index", "name", "arguments"}
    assert done["name"] == "look_up"


def test_deltas_are_padded_so_that_their_length_tells_nothing() -> None:
    words = Words("Some words of very different lengths, incomprehensibly.")
    deltas = [event for event in Bench().stream({}, Say((words,))) if "delta" in event]
    assert all((len(event["delta"]) + len(event["obfuscation"])) % 16 == 0 for event in deltas)


def test_deltas_are_not_padded_if_the_request_does_without() -> None:
    events = Bench().stream({"stream_options": {"include_obfuscation": False}})
    assert not any("obfuscation" in event for event in events)


def test_the_three_tellings_of_reasoning_have_three_blobs_and_all_are_accepted_later() -> None:
    bench = Bench()
    events = bench.stream({"model": "gpt-5", "tools": [TOOL], "store": False}, LOOKS_UP)
    call = events[-1]["response"]["output"][1]
    tellings = [event["item"] for event in events if event.get("item", {}).get("type") == "reasoning"]
    tellings.append(events[-1]["response"]["output"][0])
    assert len({item["encrypted_content"] for item in tellings}) == 3
    for item in tellings:
        answered = {"type": "function_call_output", "call_id": call["call_id"], "output": "shipped"}
        bench.post({"model": "gpt-5", "tools": [TOOL], "store": False, "input": [item, call, answered]})


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


def _failing(kind: str, after: int = 2, *, flat: bool = False, body: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    bench = Bench()
    ask = bench.ask({"stream": True, **(body or {})})
    bench.dialect.begin(ask)
    answer = bench.dialect.answer(ask, HELLO)
    return told(bench.dialect.fail_stream(ask, answer, Failure(kind, 500, retry_after=11.054), after, flat))


@pytest.mark.parametrize(("kind", "code"), FAILURES.items())
def test_a_stream_that_fails_opens_then_says_why_then_ends_failed(kind: str, code: str) -> None:
    created, in_progress, error, failed = _failing(kind)
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


def test_an_error_is_nested_as_on_the_wire() -> None:
    assert _failing("quota")[2] == {
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


def test_an_error_is_flat_as_in_the_documents() -> None:
    error = _failing("server_error", flat=True)[2]
    assert error.keys() == {"type", "sequence_number", "code", "message", "param"}
    assert error["code"] == "server_error"


def test_a_rate_limit_inside_a_stream_says_in_its_text_when_to_come_back() -> None:
    assert "Please try again in 11.054s." in _failing("rate_limit")[-1]["response"]["error"]["message"]


@pytest.mark.parametrize(("after", "before"), [(-1, 2), (0, 2), (1, 2), (2, 2), (5, 5), (8, 8), (1000, None)])
def test_a_stream_fails_after_as_many_events_as_asked_but_never_before_it_opened_or_after_its_end(after: int, before: int | None) -> None:
    events = _failing("server_error", after)
    assert types(events)[-2:] == ["error", "failed"]
    assert before is None or len(events) == before + 2
    assert "response.completed" not in {event["type"] for event in events}
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_stream_in_the_background_is_queued_before_it_fails() -> None:
    assert types(_failing("server_error", body={"background": True})) == ["created", "queued", "in_progress", "error", "failed"]


def test_a_stream_that_is_too_long_for_the_model_fails_on_its_way_and_is_not_kept() -> None:
    bench = Bench()
    events = bench.stream({"input": "word " * 130_000})
    assert types(events) == ["created", "in_progress", "error", "failed"]
    assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
    id = events[-1]["response"]["id"]
    assert bench.refused({"previous_response_id": id}).clauses == ["S1"]
