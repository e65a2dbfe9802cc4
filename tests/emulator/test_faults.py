"""What can go wrong on demand, and what the official clients see of it."""

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
from legato.emulator.faults import KINDS
from tests.emulator.conftest import MODEL, complete, connect, fetch, respond, say

Test = TypeVar("Test", bound=Callable[..., None])
SHOWN: set[str] = set()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: list[Any] = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
CHAT_TOOLS: list[Any] = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
CLAUDE_TOOLS: list[Any] = [{"name": "get_weather", "input_schema": SCHEMA}]


def shows(kind: str) -> Callable[[Test], Test]:
    """This test shows what a fault of that kind does."""

    def note(test: Test) -> Test:
        SHOWN.add(kind)
        return test

    return note


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it holds; a server notices only after a while that a client is gone."""
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.01)


def test_every_kind_of_fault_is_shown_here() -> None:
    assert set(KINDS) == SHOWN


# -- before anything else ----------------------------------------------------------------------------------------------


@shows("rate_limit")
@pytest.mark.parametrize("stream", [False, True])
def test_a_rate_limit_says_when_to_come_back(client: openai.OpenAI, claude: anthropic.Anthropic, stream: bool) -> None:
    with pytest.raises(openai.RateLimitError) as limited:
        respond(client, "rate_limit retry_after=2.5", stream=stream)
    assert (limited.value.code, limited.value.type) == ("rate_limit_exceeded", "tokens")
    assert "Please try again in 2.5s." in limited.value.message
    headers = limited.value.response.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("3", "2500")
    with pytest.raises(openai.RateLimitError):
        complete(client, "rate_limit", stream=stream)
    with pytest.raises(anthropic.RateLimitError) as theirs:
        say(claude, "rate_limit retry_after=2", stream=stream)
    assert theirs.value.response.headers["retry-after"] == "2"


@shows("quota")
def test_an_empty_quota_is_no_time_to_wait(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.RateLimitError) as limited:
        respond(client, "quota")
    assert (limited.value.code, limited.value.type) == ("insufficient_quota", "insufficient_quota")
    assert "retry-after" not in limited.value.response.headers
    with pytest.raises(anthropic.BadRequestError, match="credit balance is too low"):
        say(claude, "quota")


@shows("server_error")
@pytest.mark.parametrize("status", [500, 502, 520])
def test_a_server_error_has_any_status(client: openai.OpenAI, claude: anthropic.Anthropic, status: int) -> None:
    with pytest.raises(openai.InternalServerError) as broken:
        respond(client, f"server_error status={status}")
    assert (broken.value.status_code, broken.value.type) == (status, "server_error")
    with pytest.raises(anthropic.InternalServerError) as theirs:
        say(claude, f"server_error status={status}")
    assert theirs.value.status_code == status


@shows("overloaded")
def test_an_overloaded_provider_has_no_room(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.InternalServerError) as full:
        complete(client, "overloaded retry_after=3")
    assert (full.value.status_code, full.value.response.headers["retry-after"]) == (503, "3")
    with pytest.raises(anthropic.APIStatusError, match="Overloaded") as theirs:
        say(claude, "overloaded")
    assert theirs.value.status_code == 529


@shows("timeout")
def test_a_timeout_is_the_clients_or_the_servers(client: openai.OpenAI, emulator: Emulator) -> None:
    with pytest.raises(openai.InternalServerError) as late:
        respond(client, "timeout seconds=0.05")
    assert late.value.status_code == 504
    with pytest.raises(openai.APITimeoutError):
        respond(client, "timeout seconds=0.3", timeout=0.1)
    eventually(lambda: emulator.exchanges[-1].fault == "timeout seconds=0.3")


@shows("unauthorized")
def test_a_key_may_be_refused(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.AuthenticationError) as refused:
        respond(client, "unauthorized")
    assert refused.value.code == "invalid_api_key"
    with pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"):
        say(claude, "unauthorized")


@shows("context_length")
def test_too_long_an_input_is_refused_or_fails_in_the_stream(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.BadRequestError) as long:
        respond(client, "context_length")
    assert (long.value.code, long.value.param) == ("context_length_exceeded", "input")
    with pytest.raises(openai.BadRequestError) as long:
        complete(client, "context_length", stream=True)
    assert (long.value.code, long.value.param) == ("context_length_exceeded", "messages")
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > \d+ maximum"):
        say(claude, "context_length")
    seen: list[str] = []
    with pytest.raises(openai.APIError, match="exceeds the context window") as inside:
        seen.extend(event.type for event in respond(client, "context_length", stream=True))
    assert seen == ["response.created", "response.in_progress"]
    assert inside.value.code == "context_length_exceeded"


@shows("filtered_input")
def test_a_prompt_may_be_flagged(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with pytest.raises(openai.BadRequestError) as flagged:
        respond(client, "filtered_input")
    assert flagged.value.code == "invalid_prompt"
    with pytest.raises(anthropic.BadRequestError, match="content filtering policy"):
        say(claude, "filtered_input")


@shows("hang_up")
@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_hangs_up_sends_no_byte(client: openai.OpenAI, emulator: Emulator, stream: bool) -> None:
    with pytest.raises(openai.APIConnectionError) as gone:
        respond(client, "hang_up", stream=stream)
    assert isinstance(gone.value.__cause__, httpx2.RemoteProtocolError)
    assert "without sending a response" in str(gone.value.__cause__)
    assert (emulator.exchanges[-1].status, emulator.exchanges[-1].whole) == (499, False)


# -- at what is stored -------------------------------------------------------------------------------------------------


@shows("locked")
def test_a_locked_conversation_is_free_again_for_the_next(client: openai.OpenAI) -> None:
    talk = client.conversations.create().id
    with pytest.raises(openai.BadRequestError) as locked:
        respond(client, "locked", conversation=talk)
    assert (locked.value.code, locked.value.param) == ("conversation_locked", "conversation")
    assert "Another process is currently operating on this conversation." in locked.value.message
    assert client.responses.create(model=MODEL, input="Hi", conversation=talk).status == "completed"


@shows("expired")
def test_an_expired_response_is_gone_for_good(client: openai.OpenAI) -> None:
    first = client.responses.create(model=MODEL, input="Hi").id
    for fault in ("expired", ""):
        with pytest.raises(openai.BadRequestError) as gone:
            respond(client, fault, previous_response_id=first)
        assert gone.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first)


def test_a_response_expires_by_itself_after_thirty_days() -> None:
    now = [1_795_000_000.0]
    with serve(clock=lambda: now[0]) as emulator, connect(emulator) as client:
        first = client.responses.create(model=MODEL, input="Hi").id
        now[0] += 29 * 86_400
        assert client.responses.retrieve(first).id == first
        now[0] += 2 * 86_400
        with pytest.raises(openai.BadRequestError) as gone:
            client.responses.create(model=MODEL, input="Hi", previous_response_id=first)
        assert gone.value.code == "previous_response_not_found"


# -- at what is said ---------------------------------------------------------------------------------------------------


@shows("incomplete")
def test_a_reply_is_cut_short_by_the_token_limit(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    response = respond(client, "incomplete")
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert respond(client, "incomplete", stream=False).output[-1].status == "incomplete"
    assert [event.type for event in respond(client, "incomplete", stream=True)][-1] == "response.incomplete"
    assert response.output_text == "You sa"  # of "You said: Hi"
    assert complete(client, "incomplete").choices[0].finish_reason == "length"
    assert say(claude, "incomplete").stop_reason == "max_tokens"


def test_a_call_that_is_cut_short_has_arguments_that_are_no_json(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    whole, cut = respond(client, "incomplete", tools=TOOLS).output
    assert (json.loads(whole.arguments), cut.arguments) == ({"city": "Oslo"}, '{"city":')
    message = complete(client, "incomplete", tools=CHAT_TOOLS).choices[0].message
    assert message.tool_calls[1].function.arguments == '{"city":'
    events = say(claude, "incomplete", tools=CLAUDE_TOOLS, stream=True)
    deltas = [event.delta.partial_json for event in events if event.type == "content_block_delta" and event.index == 1]
    assert "".join(deltas) == '{"city":'


@shows("refusal")
def test_a_model_may_decline(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    part = respond(client, "refusal").output[0].content[0]
    assert (part.type, part.refusal) == ("refusal", "I'm sorry, but I can't help with that.")
    deltas = [event.delta for event in respond(client, "refusal", stream=True) if event.type == "response.refusal.delta"]
    assert "".join(deltas) == part.refusal
    assert complete(client, "refusal").choices[0].message.refusal == part.refusal
    assert say(claude, "refusal").stop_reason == "refusal"


@shows("content_filter")
def test_a_reply_is_stopped_by_the_content_filter(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    assert respond(client, "content_filter").incomplete_details.reason == "content_filter"
    assert complete(client, "content_filter").choices[0].finish_reason == "content_filter"
    assert say(claude, "content_filter").stop_reason == "refusal"


@shows("duplicate_call_ids")
def test_all_calls_of_a_reply_have_one_id(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    response = respond(client, "duplicate_call_ids", tools=TOOLS)
    assert len(response.output) == 2
    assert len({item.id for item in response.output}) == 2
    assert len({item.call_id for item in response.output}) == 1
    assert len({call.id for call in complete(client, "duplicate_call_ids", tools=CHAT_TOOLS).choices[0].message.tool_calls}) == 1
    assert len({block.id for block in say(claude, "duplicate_call_ids", tools=CLAUDE_TOOLS).content}) == 1


@shows("constant_call_ids")
def test_calls_have_the_same_id_in_every_reply(client: openai.OpenAI) -> None:
    seen = [item.call_id for _ in range(2) for item in respond(client, "constant_call_ids id=call_7", tools=TOOLS).output]
    assert seen == ["call_7"] * 4


@shows("unknown_tool")
def test_a_model_calls_what_nobody_gave_it(client: openai.OpenAI) -> None:
    assert {item.name for item in respond(client, "unknown_tool", tools=TOOLS).output} == {"no_such_tool"}
    assert [item.type for item in respond(client, "unknown_tool name=shrug").output] == ["message", "function_call"]


@shows("broken_arguments")
def test_arguments_may_be_no_json(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    for item in respond(client, "broken_arguments", tools=TOOLS).output:
        with pytest.raises(json.JSONDecodeError):
            json.loads(item.arguments)
    deltas = [
        event.delta.partial_json
        for event in say(claude, "broken_arguments", tools=CLAUDE_TOOLS, stream=True)
        if event.type == "content_block_delta" and event.index == 0
    ]
    with pytest.raises(json.JSONDecodeError):
        json.loads("".join(deltas))


# -- at the stream -----------------------------------------------------------------------------------------------------


@shows("slow")
def test_events_come_slowly(client: openai.OpenAI) -> None:
    begun = time.monotonic()
    events = list(respond(client, "slow delay=0.02", stream=True))
    assert time.monotonic() - begun >= 0.02 * (len(events) - 1)
    assert events[-1].type == "response.completed"
    begun = time.monotonic()
    assert respond(client, "slow delay=0.02").status == "completed"
    assert time.monotonic() - begun >= 0.02 * (len(events) - 1)


@shows("cut")
def test_a_stream_that_is_cut_before_any_of_its_events_completes_nothing(client: openai.OpenAI, emulator: Emulator) -> None:
    whole = [event.type for event in client.responses.create(model=MODEL, input="Hi", stream=True)]
    for index in range(len(whole)):
        seen: list[str] = []
        with pytest.raises(openai.APIConnectionError):
            seen.extend(event.type for event in respond(client, f"cut event={index}", stream=True))
        assert seen == whole[:index]
        _nothing_is_kept(client, emulator)
    assert [event.type for event in respond(client, f"cut event={len(whole)}", stream=True)] == whole


def test_a_stream_that_is_cut_at_any_byte_completes_nothing(client: openai.OpenAI, emulator: Emulator) -> None:
    sizes = [len(data) for data in _raw(emulator, {"model": MODEL, "input": "Hi", "stream": True})]
    total = sum(sizes)
    for byte in {0, 1, sizes[0] - 1, sizes[0], total - sizes[-1], total - 2, total - 1, *range(7, total, total // 20)}:
        seen: list[str] = []
        with pytest.raises(openai.APIConnectionError):
            seen.extend(event.type for event in respond(client, f"cut byte={byte}", stream=True))
        assert "response.completed" not in seen
        _nothing_is_kept(client, emulator)


def test_an_answer_in_one_piece_is_cut_in_its_middle(client: openai.OpenAI, emulator: Emulator) -> None:
    for fault in ("cut", "cut byte=0", "cut byte=100", "cut event=3"):
        with pytest.raises(openai.APIConnectionError) as gone:
            respond(client, fault)
        assert "without sending complete message body" in str(gone.value.__cause__)
        _nothing_is_kept(client, emulator)
    assert respond(client, "cut byte=1000000").status == "completed"


def test_a_cut_stream_of_chunks_or_messages_has_no_end(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    reasons: list[Any] = []
    with pytest.raises(openai.APIConnectionError):
        reasons.extend(chunk.choices[0].finish_reason for chunk in complete(client, "cut", stream=True))
    assert set(reasons) == {None}
    kinds: list[str] = []
    with pytest.raises(httpx2.RemoteProtocolError):  # this client lets the transport's own error through
        kinds.extend(event.type for event in say(claude, "cut", stream=True))
    assert kinds[0] == "message_start"
    assert "message_stop" not in kinds


def test_a_break_on_purpose_is_not_logged_as_an_error(client: openai.OpenAI, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for fault in ("cut", "hang_up"):
            for stream in (False, True):
                with pytest.raises(openai.APIConnectionError):
                    list(respond(client, fault, stream=stream))
    assert caplog.records == []


@shows("error_event")
def test_a_nested_error_event_hides_the_failed_response_from_the_client(client: openai.OpenAI, emulator: Emulator) -> None:
    seen: list[str] = []
    with pytest.raises(openai.APIError) as broken:
        seen.extend(event.type for event in respond(client, "error_event", stream=True))
    assert type(broken.value) is openai.APIError
    assert broken.value.code == "server_error"
    assert seen == ["response.created", "response.in_progress"]
    events = _raw(emulator, {"model": MODEL, "input": "Hi", "stream": True}, "error_event")
    sent = [json.loads(event.partition(b"data: ")[2]) for event in events]
    assert [event["type"] for event in sent] == [*seen, "error", "response.failed"]
    assert sent[2]["error"].keys() == {"type", "code", "message", "param"}
    _nothing_is_kept(client, emulator)


def test_a_flat_error_event_is_followed_by_the_failed_response(client: openai.OpenAI, emulator: Emulator) -> None:
    events = list(respond(client, "error_event form=flat after=4 kind=rate_limit", stream=True))
    assert [event.type for event in events][-2:] == ["error", "response.failed"]
    assert len(events) == 6
    assert [event.sequence_number for event in events] == list(range(6))
    assert events[-2].code == events[-1].response.error.code == "rate_limit_exceeded"
    assert events[-1].response.status == "failed"
    _nothing_is_kept(client, emulator)


def test_an_error_event_of_chat_and_of_messages(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    chunks: list[Any] = []
    with pytest.raises(openai.APIError, match="The server had an error"):
        chunks.extend(complete(client, "error_event after=3", stream=True))
    assert len(chunks) == 3
    events: list[Any] = []
    with pytest.raises(anthropic.APIStatusError) as broken:
        events.extend(say(claude, "error_event kind=overloaded after=3", stream=True))
    assert broken.value.body == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert events[0].type == "message_start"


def test_an_answer_in_one_piece_has_the_error_as_its_status(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError):
        respond(client, "error_event")
    with pytest.raises(openai.RateLimitError):
        respond(client, "error_event kind=rate_limit")


# -- what a broken answer leaves behind --------------------------------------------------------------------------------


def test_a_conversation_is_free_again_after_a_stream_that_broke(client: openai.OpenAI) -> None:
    talk = client.conversations.create().id
    for fault in ("cut event=4", "cut byte=10", "error_event", "hang_up", "server_error"):
        with pytest.raises(openai.APIError):
            list(respond(client, fault, conversation=talk, stream=True))
        assert list(client.conversations.items.list(talk)) == []
    assert client.responses.create(model=MODEL, input="Hi", conversation=talk).status == "completed"
    assert len(list(client.conversations.items.list(talk))) == 2


def test_a_conversation_is_locked_while_a_stream_runs_and_free_after_its_client_hung_up(client: openai.OpenAI, emulator: Emulator) -> None:
    talk = client.conversations.create().id
    stream = respond(client, "slow delay=0.5", conversation=talk, stream=True)
    assert next(iter(stream)).type == "response.created"
    with pytest.raises(openai.BadRequestError) as locked:
        client.responses.create(model=MODEL, input="Me too", conversation=talk)
    assert locked.value.code == "conversation_locked"
    with pytest.raises(openai.BadRequestError):
        client.conversations.items.create(talk, items=[{"role": "user", "content": "Me too"}])
    stream.close()
    eventually(lambda: emulator.exchanges[-1].fault == "slow delay=0.5")
    assert not emulator.exchanges[-1].whole
    _nothing_is_kept(client, emulator)
    assert client.responses.create(model=MODEL, input="Now me", conversation=talk).status == "completed"
    assert len(list(client.conversations.items.list(talk))) == 2


# --


def _raw(emulator: Emulator, body: dict[str, Any], fault: str = "") -> list[bytes]:
    """The events of a stream as they travel."""
    headers = {"authorization": "Bearer sk-one"} | ({"x-legato-fault": fault} if fault else {})
    answer = fetch("POST", f"{emulator.openai_url}/responses", json=body, headers=headers)
    return [data + b"\n\n" for data in answer.content.split(b"\n\n") if data]


def _nothing_is_kept(client: openai.OpenAI, emulator: Emulator) -> None:
    """Of the newest exchange, which broke, there is no response."""
    exchange = emulator.exchanges[-1]
    assert exchange.reply is not None
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(exchange.reply["id"])
