"""The effects of faults, as the official clients see them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

import anthropic
import httpx2
import openai
import pytest

from legato.emulator import Emulator, serve
from legato.emulator.faults import FAULT_KINDS
from tests.emulator.conftest import MODEL, create_completion, create_message, create_response, fetch, make_openai_client

Test = TypeVar("Test", bound=Callable[..., None])
TESTED_KINDS: set[str] = set()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[Any] = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
CLAUDE_TOOLS: list[Any] = [{"name": "get_weather", "input_schema": SCHEMA}]


def covers_fault(kind: str) -> Callable[[Test], Test]:
    """Mark a test as one for a kind of fault."""

    def register(test: Test) -> Test:
        TESTED_KINDS.add(kind)
        return test

    return register


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait until a condition is true. A server takes a while to notice that a client is gone."""
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.01)


def test_every_fault_kind_has_a_test() -> None:
    assert set(FAULT_KINDS) == TESTED_KINDS


# -- stage: before -----------------------------------------------------------------------------------------------------


@covers_fault("rate_limit")
@pytest.mark.parametrize("stream", [False, True])
def test_rate_limit_has_retry_time(client: openai.OpenAI, claude: anthropic.Anthropic, stream: bool) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        create_response(client, "rate_limit retry_after=2.5", stream=stream)
    assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "tokens")
    assert "Please try again in 2.5s." in caught.value.message
    headers = caught.value.response.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("3", "2500")
    with pytest.raises(openai.RateLimitError):
        create_completion(client, "rate_limit", stream=stream)
    with pytest.raises(anthropic.RateLimitError) as other:
        create_message(claude, "rate_limit retry_after=2", stream=stream)
    assert other.value.response.headers["retry-after"] == "2"


@covers_fault("quota")
def test_quota_has_no_retry_time(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        create_response(client, "quota")
    assert (caught.value.code, caught.value.type) == ("insufficient_quota", "insufficient_quota")
    assert "retry-after" not in caught.value.response.headers
    with pytest.raises(anthropic.BadRequestError, match="credit balance is too low"):
        create_message(claude, "quota")


@covers_fault("server_error")
@pytest.mark.parametrize("status", [500, 502, 520])
def test_server_error_may_have_any_status(client: openai.OpenAI, claude: anthropic.Anthropic, status: int) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        create_response(client, f"server_error status={status}")
    assert (caught.value.status_code, caught.value.type) == (status, "server_error")
    with pytest.raises(anthropic.InternalServerError) as other:
        create_message(claude, f"server_error status={status}")
    assert other.value.status_code == status


@covers_fault("overloaded")
def test_overloaded_has_its_status(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        create_completion(client, "overloaded retry_after=3")
    assert (caught.value.status_code, caught.value.response.headers["retry-after"]) == (503, "3")
    with pytest.raises(anthropic.APIStatusError, match="Overloaded") as other:
        create_message(claude, "overloaded")
    assert other.value.status_code == 529


@covers_fault("timeout")
def test_timeout_occurs_at_client_or_server(client: openai.OpenAI, emulator: Emulator) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        create_response(client, "timeout seconds=0.05")
    assert caught.value.status_code == 504
    with pytest.raises(openai.APITimeoutError):
        create_response(client, "timeout seconds=0.3", timeout=0.1)
    wait_until(lambda: emulator.exchanges[-1].fault == "timeout seconds=0.3")


@covers_fault("unauthorized")
def test_unauthorized_raises_authentication_error(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        create_response(client, "unauthorized")
    assert caught.value.code == "invalid_api_key"
    with pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"):
        create_message(claude, "unauthorized")


@covers_fault("context_length")
def test_context_length_error_or_failing_stream(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        create_response(client, "context_length")
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")
    with pytest.raises(openai.BadRequestError) as caught:
        create_completion(client, "context_length", stream=True)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > \d+ maximum"):
        create_message(claude, "context_length")
    event_types: list[str] = []
    with pytest.raises(openai.APIError, match="exceeds the context window") as caught:
        event_types.extend(event.type for event in create_response(client, "context_length", stream=True))
    assert event_types == ["response.created", "response.in_progress"]
    assert caught.value.code == "context_length_exceeded"


@covers_fault("filtered_input")
def test_filtered_input_is_bad_request(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        create_response(client, "filtered_input")
    assert caught.value.code == "invalid_prompt"
    with pytest.raises(anthropic.BadRequestError, match="content filtering policy"):
        create_message(claude, "filtered_input")


@covers_fault("hang_up")
@pytest.mark.parametrize("stream", [False, True])
def test_hang_up_sends_no_byte(client: openai.OpenAI, emulator: Emulator, stream: bool) -> None:
    with pytest.raises(openai.APIConnectionError) as caught:
        create_response(client, "hang_up", stream=stream)
    assert isinstance(caught.value.__cause__, httpx2.RemoteProtocolError)
    assert "without sending a response" in str(caught.value.__cause__)
    assert (emulator.exchanges[-1].status, emulator.exchanges[-1].is_complete) == (499, False)


# -- stage: state ------------------------------------------------------------------------------------------------------


@covers_fault("locked")
def test_locked_affects_one_request_only(client: openai.OpenAI) -> None:
    conversation = client.conversations.create().id
    with pytest.raises(openai.BadRequestError) as caught:
        create_response(client, "locked", conversation=conversation)
    assert (caught.value.code, caught.value.param) == ("conversation_locked", "conversation")
    assert "Another process is currently operating on this conversation." in caught.value.message
    assert client.responses.create(model=MODEL, input="Hi", conversation=conversation).status == "completed"


@covers_fault("expired")
def test_expired_response_stays_expired(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="Hi").id
    for fault in ("expired", ""):
        with pytest.raises(openai.BadRequestError) as caught:
            create_response(client, fault, previous_response_id=first)
        assert caught.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first)


def test_response_expires_after_thirty_days() -> None:
    now = [1_795_000_000.0]
    with serve(clock=lambda: now[0]) as emulator, make_openai_client(emulator) as client:
        first = client.responses.create(model=MODEL, input="Hi").id
        now[0] += 29 * 86_400
        assert client.responses.retrieve(first).id == first
        now[0] += 2 * 86_400
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model=MODEL, input="Hi", previous_response_id=first)
        assert caught.value.code == "previous_response_not_found"


# -- stage: reply ------------------------------------------------------------------------------------------------------


@covers_fault("incomplete")
def test_incomplete_cuts_the_reply_short(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    response = create_response(client, "incomplete")
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert create_response(client, "incomplete", stream=False).output[-1].status == "incomplete"
    assert [event.type for event in create_response(client, "incomplete", stream=True)][-1] == "response.incomplete"
    assert response.output_text == "You sa"  # of "You said: Hi"
    assert create_completion(client, "incomplete").choices[0].finish_reason == "length"
    assert create_message(claude, "incomplete").stop_reason == "max_tokens"


def test_incomplete_call_has_invalid_json(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    complete, incomplete = create_response(client, "incomplete", tools=TOOLS).output
    assert (json.loads(complete.arguments), incomplete.arguments) == ({"city": "Oslo"}, '{"city":')
    message = create_completion(client, "incomplete", tools=CHAT_TOOLS).choices[0].message
    assert message.tool_calls[1].function.arguments == '{"city":'
    events = create_message(claude, "incomplete", tools=CLAUDE_TOOLS, stream=True)
    deltas = [event.delta.partial_json for event in events if event.type == "content_block_delta" and event.index == 1]
    assert "".join(deltas) == '{"city":'


@covers_fault("refusal")
def test_refusal_declines_the_request(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    part = create_response(client, "refusal").output[0].content[0]
    assert (part.type, part.refusal) == ("refusal", "I'm sorry, but I can't help with that.")
    deltas = [event.delta for event in create_response(client, "refusal", stream=True) if event.type == "response.refusal.delta"]
    assert "".join(deltas) == part.refusal
    assert create_completion(client, "refusal").choices[0].message.refusal == part.refusal
    assert create_message(claude, "refusal").stop_reason == "refusal"


@covers_fault("content_filter")
def test_content_filter_stops_the_reply(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    assert create_response(client, "content_filter").incomplete_details.reason == "content_filter"
    assert create_completion(client, "content_filter").choices[0].finish_reason == "content_filter"
    assert create_message(claude, "content_filter").stop_reason == "refusal"


@covers_fault("duplicate_call_ids")
def test_duplicate_call_ids_within_a_reply(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    response = create_response(client, "duplicate_call_ids", tools=TOOLS)
    assert len(response.output) == 2
    assert len({item.id for item in response.output}) == 2
    assert len({item.call_id for item in response.output}) == 1
    assert len({call.id for call in create_completion(client, "duplicate_call_ids", tools=CHAT_TOOLS).choices[0].message.tool_calls}) == 1
    assert len({block.id for block in create_message(claude, "duplicate_call_ids", tools=CLAUDE_TOOLS).content}) == 1


@covers_fault("constant_call_ids")
def test_constant_call_ids_across_replies(client: openai.OpenAI) -> None:
    event_types = [item.call_id for _ in range(2) for item in create_response(client, "constant_call_ids id=call_7", tools=TOOLS).output]
    assert event_types == ["call_7"] * 4


@covers_fault("unknown_tool")
def test_unknown_tool_is_called(client: openai.OpenAI) -> None:
    assert {item.name for item in create_response(client, "unknown_tool", tools=TOOLS).output} == {"no_such_tool"}
    assert [item.type for item in create_response(client, "unknown_tool name=shrug").output] == ["message", "function_call"]


@covers_fault("broken_arguments")
def test_broken_arguments_are_no_json(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    for item in create_response(client, "broken_arguments", tools=TOOLS).output:
        with pytest.raises(json.JSONDecodeError):
            json.loads(item.arguments)
    deltas = [
        event.delta.partial_json
        for event in create_message(claude, "broken_arguments", tools=CLAUDE_TOOLS, stream=True)
        if event.type == "content_block_delta" and event.index == 0
    ]
    with pytest.raises(json.JSONDecodeError):
        json.loads("".join(deltas))


# -- stage: stream -----------------------------------------------------------------------------------------------------


@covers_fault("slow")
def test_slow_delays_every_event(client: openai.OpenAI) -> None:
    started_at = time.monotonic()
    events = list(create_response(client, "slow delay=0.02", stream=True))
    assert time.monotonic() - started_at >= 0.02 * (len(events) - 1)
    assert events[-1].type == "response.completed"
    started_at = time.monotonic()
    assert create_response(client, "slow delay=0.02").status == "completed"
    assert time.monotonic() - started_at >= 0.02 * (len(events) - 1)


@covers_fault("cut")
def test_stream_cut_at_event_stores_nothing(client: openai.OpenAI, emulator: Emulator) -> None:
    complete = [event.type for event in client.responses.create(model=MODEL, input="Hi", stream=True)]
    for index in range(len(complete)):
        event_types: list[str] = []
        with pytest.raises(openai.APIConnectionError):
            event_types.extend(event.type for event in create_response(client, f"cut event={index}", stream=True))
        assert event_types == complete[:index]
        _check_nothing_is_stored(client, emulator)
    assert [event.type for event in create_response(client, f"cut event={len(complete)}", stream=True)] == complete


def test_stream_cut_at_byte_stores_nothing(client: openai.OpenAI, emulator: Emulator) -> None:
    sizes = [len(data) for data in _read_raw_events(emulator, {"model": MODEL, "input": "Hi", "stream": True})]
    total = sum(sizes)
    for byte in {0, 1, sizes[0] - 1, sizes[0], total - sizes[-1], total - 2, total - 1, *range(7, total, total // 20)}:
        event_types: list[str] = []
        with pytest.raises(openai.APIConnectionError):
            event_types.extend(event.type for event in create_response(client, f"cut byte={byte}", stream=True))
        assert "response.completed" not in event_types
        _check_nothing_is_stored(client, emulator)


def test_whole_reply_is_cut_in_the_middle(client: openai.OpenAI, emulator: Emulator) -> None:
    for fault in ("cut", "cut byte=0", "cut byte=100", "cut event=3"):
        with pytest.raises(openai.APIConnectionError) as caught:
            create_response(client, fault)
        assert "without sending complete message body" in str(caught.value.__cause__)
        _check_nothing_is_stored(client, emulator)
    assert create_response(client, "cut byte=1000000").status == "completed"


def test_cut_chat_and_message_streams_lack_end(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    reasons: list[Any] = []
    with pytest.raises(openai.APIConnectionError):
        reasons.extend(chunk.choices[0].finish_reason for chunk in create_completion(client, "cut", stream=True))
    assert set(reasons) == {None}
    types: list[str] = []
    with pytest.raises(httpx2.RemoteProtocolError):  # this client raises the transport's own error
        types.extend(event.type for event in create_message(claude, "cut", stream=True))
    assert types[0] == "message_start"
    assert "message_stop" not in types


def test_intended_break_is_not_logged(client: openai.OpenAI, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for fault in ("cut", "hang_up"):
            for stream in (False, True):
                with pytest.raises(openai.APIConnectionError):
                    list(create_response(client, fault, stream=stream))
    assert caplog.records == []


@covers_fault("error_event")
def test_nested_error_event_hides_failed_response(client: openai.OpenAI, emulator: Emulator) -> None:
    event_types: list[str] = []
    with pytest.raises(openai.APIError) as caught:
        event_types.extend(event.type for event in create_response(client, "error_event", stream=True))
    assert type(caught.value) is openai.APIError
    assert caught.value.code == "server_error"
    assert event_types == ["response.created", "response.in_progress"]
    events = _read_raw_events(emulator, {"model": MODEL, "input": "Hi", "stream": True}, "error_event")
    payloads = [json.loads(event.partition(b"data: ")[2]) for event in events]
    assert [event["type"] for event in payloads] == [*event_types, "error", "response.failed"]
    assert payloads[2]["error"].keys() == {"type", "code", "message", "param"}
    _check_nothing_is_stored(client, emulator)


def test_flat_error_event_precedes_failed_response(client: openai.OpenAI, emulator: Emulator) -> None:
    events = list(create_response(client, "error_event form=flat after=4 kind=rate_limit", stream=True))
    assert [event.type for event in events][-2:] == ["error", "response.failed"]
    assert len(events) == 6
    assert [event.sequence_number for event in events] == list(range(6))
    assert events[-2].code == events[-1].response.error.code == "rate_limit_exceeded"
    assert events[-1].response.status == "failed"
    _check_nothing_is_stored(client, emulator)


def test_error_event_of_chat_and_messages(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    chunks: list[Any] = []
    with pytest.raises(openai.APIError, match="The server had an error"):
        chunks.extend(create_completion(client, "error_event after=3", stream=True))
    assert len(chunks) == 3
    events: list[Any] = []
    with pytest.raises(anthropic.APIStatusError) as caught:
        events.extend(create_message(claude, "error_event kind=overloaded after=3", stream=True))
    assert caught.value.body == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert events[0].type == "message_start"


def test_whole_reply_has_the_error_status(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError):
        create_response(client, "error_event")
    with pytest.raises(openai.RateLimitError):
        create_response(client, "error_event kind=rate_limit")


# -- state after a broken reply ----------------------------------------------------------------------------------------


def test_broken_stream_releases_the_conversation(client: openai.OpenAI) -> None:
    conversation = client.conversations.create().id
    for fault in ("cut event=4", "cut byte=10", "error_event", "hang_up", "server_error"):
        with pytest.raises(openai.APIError):
            list(create_response(client, fault, conversation=conversation, stream=True))
        assert list(client.conversations.items.list(conversation)) == []
    assert client.responses.create(model=MODEL, input="Hi", conversation=conversation).status == "completed"
    assert len(list(client.conversations.items.list(conversation))) == 2


def test_running_stream_locks_the_conversation(client: openai.OpenAI, emulator: Emulator) -> None:
    """The lock is released after the client hung up."""
    conversation = client.conversations.create().id
    stream = create_response(client, "slow delay=0.5", conversation=conversation, stream=True)
    assert next(iter(stream)).type == "response.created"
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=MODEL, input="Me too", conversation=conversation)
    assert caught.value.code == "conversation_locked"
    with pytest.raises(openai.BadRequestError):
        client.conversations.items.create(conversation, items=[{"role": "user", "content": "Me too"}])
    stream.close()
    wait_until(lambda: emulator.exchanges[-1].fault == "slow delay=0.5")
    assert not emulator.exchanges[-1].is_complete
    _check_nothing_is_stored(client, emulator)
    assert client.responses.create(model=MODEL, input="Now me", conversation=conversation).status == "completed"
    assert len(list(client.conversations.items.list(conversation))) == 2


# -- helpers -------------------------------------------------------------------------------------------------------


def _read_raw_events(emulator: Emulator, body: dict[str, Any], fault: str = "") -> list[bytes]:
    """Return the raw events of a stream."""
    headers = {"authorization": "Bearer sk-one"} | ({"x-legato-fault": fault} if fault else {})
    response = fetch("POST", f"{emulator.openai_url}/responses", json=body, headers=headers)
    return [data + b"\n\n" for data in response.content.split(b"\n\n") if data]


def _check_nothing_is_stored(client: openai.OpenAI, emulator: Emulator) -> None:
    """Check that there is no response of the newest exchange, which broke."""
    exchange = emulator.exchanges[-1]
    assert exchange.reply_body is not None
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(exchange.reply_body["id"])
