"""Decoding of replies of the Messages API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.core.facts import Call, HostedToolUse, OutputText, Reasoning, Refusal, Usage
from legato.core.model_reply import ModelReply
from legato.core.turn_context import ToolSpec, TurnContext
from legato.errors import ModelFailed
from legato.providers.formats.anthropic.decode import continue_turn, decode_reply, decode_usage, join_messages
from legato.providers.formats.anthropic.encode import encode_request
from legato.providers.formats.anthropic.thinking_replay import binds_thinking
from legato.providers.formats.request_options import RequestOptions
from tests.providers.formats.anthropic.conversations import (
    BINDING_MODEL,
    CITATIONS,
    Conversation,
    decode_body,
    make_message_group,
    make_request,
    make_turn_context,
    search_blocks,
    text_block,
    thinking_block,
    tool_use_block,
)

ENCODED_REQUEST = encode_request(
    make_request(make_turn_context("a", "look"), [make_message_group(0, "Hi")]), RequestOptions(model=BINDING_MODEL), "o", stream=False
)


def decode(*content: dict[str, Any], stop: str = "end_turn", **members: Any) -> ModelReply:
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(content), "stop_reason": stop, **members}
    return decode_reply(body, ENCODED_REQUEST, "o", "req_1")


def test_text_thinking_and_calls_are_decoded() -> None:
    reply = decode(
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "secret"},
        text_block("Let me look.", citations=CITATIONS),
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"z": 1, "a": [1.0]}, "caller": {"type": "direct"}},
        stop="tool_use",
    )
    assert reply.items[0] == Reasoning("Hm.", "sig")
    assert reply.items[1] == Reasoning(encrypted="secret", redacted=True)
    assert isinstance(reply.items[2], OutputText)
    assert reply.items[2].text == "Let me look."
    assert json.loads(reply.items[2].citations) == CITATIONS
    assert reply.items[3] == Call("look", '{"z":1,"a":[1.0]}', "toolu_1")
    assert (reply.finish, reply.model, reply.response_id, reply.origin, reply.request_id) == ("stop", "m", "msg_1", "o", "req_1")
    assert not reply.stored
    assert reply.stored_digest


def test_call_keeps_its_caller_unless_direct() -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    by_code, by_model = decode(
        {**tool_use_block("t"), "caller": caller, "toolset_name": "computer"}, {**tool_use_block("u"), "caller": {"type": "direct"}}
    ).items
    assert isinstance(by_code, Call)
    assert isinstance(by_model, Call)
    assert json.loads(by_code.extra) == {"caller": caller, "toolset_name": "computer"}
    assert by_model.extra == ""


def test_reply_members_are_recorded_beside_the_items() -> None:
    container = {"id": "container_1", "expires_at": "2026-11-19T12:00:00Z", "skills": None}
    edits = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3, "cleared_input_tokens": 900}]}
    reply = decode(text_block("a"), stop="stop_sequence", stop_sequence="END", container=container, context_management=edits)
    assert json.loads(reply.extra) == {"container": container, "context_management": edits, "stop_sequence": "END"}
    assert decode(text_block("a"), container=None, context_management={"applied_edits": []}, stop_sequence=None).extra == ""


def test_original_tool_name_is_restored() -> None:
    request = encode_request(
        make_request(TurnContext("a", tools=(ToolSpec("Größe"),)), [make_message_group(0, "Hi")]),
        RequestOptions(model=BINDING_MODEL),
        "o",
        stream=False,
    )
    (sent_name,) = request.tool_names
    call = decode_reply({"content": [tool_use_block("t", sent_name), tool_use_block("u", "never_declared")]}, request, "o").items
    assert [item.tool for item in call if isinstance(item, Call)] == ["Größe", "never_declared"]


def test_empty_texts_are_not_recorded() -> None:
    assert decode(text_block(""), text_block("a")).items == (OutputText("a"),)


def test_hosted_blocks_are_recorded_unchanged() -> None:
    unknown = {"type": "a_block_of_tomorrow", "x": 1}
    reply = decode(*search_blocks(), unknown)
    assert [item.kind for item in reply.items if isinstance(item, HostedToolUse)] == [
        "server_tool_use",
        "web_search_tool_result",
        "a_block_of_tomorrow",
    ]
    assert [json.loads(item.body) for item in reply.items if isinstance(item, HostedToolUse)] == [*search_blocks(), unknown]


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("tool_use", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("refusal", "filter"),
        ("a reason of tomorrow", "stop"),
    ],
)
def test_stop_reason_becomes_the_finish(stop: str, finish: str) -> None:
    assert decode(text_block("So"), stop=stop).finish == finish


def test_refused_reply_has_no_text_and_no_calls() -> None:
    reply = decode(text_block("I could"), tool_use_block("t", "look"), stop="refusal")
    assert [type(item) for item in reply.items] == [Refusal, HostedToolUse]


def test_empty_refused_reply_has_the_providers_explanation() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "This is not allowed."}
    assert decode(stop="refusal", stop_details=details).items == (Refusal("This is not allowed."),)
    assert decode(stop="refusal", stop_details=None).items == ()


def test_input_includes_cache_reads_and_writes() -> None:
    usage = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    assert decode_usage(usage) == Usage(input=125, output=7, cached=100, reasoning=3, written=20)
    assert decode_usage(None) == Usage()


@pytest.mark.parametrize("body", [None, [], {}, {"content": None}, {"content": "text"}])
def test_body_without_content_is_a_retryable_failure(body: Any) -> None:
    with pytest.raises(ModelFailed) as failure:
        decode_reply(body, ENCODED_REQUEST, "o")
    assert failure.value.retryable


def test_error_body_raises_that_error() -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ModelFailed, match="Overloaded") as failure:
        decode_reply(body, ENCODED_REQUEST, "o")
    assert failure.value.retryable
    assert failure.value.reason == "overloaded_error"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text"},
        {"type": "text", "text": 7},
        {"type": "tool_use"},
        {"type": "tool_use", "name": None, "input": None, "id": 7},
        {"type": "thinking"},
        {"type": None},
        {},
        "not a block",
    ],
)
def test_malformed_blocks_raise_no_error(block: Any) -> None:
    assert isinstance(decode(block, text_block("a")), ModelReply)


@pytest.mark.parametrize(
    ("sample", "usage"),
    [
        ({"type": "message", "input_tokens": 5, "output_tokens": 1}, Usage(input=15, output=2, cached=10)),
        (
            {"type": "compaction", "input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 50},
            Usage(input=165, output=9, cached=60),
        ),
        ({"type": "advisor_message", "model": "m2", "input_tokens": 40, "output_tokens": 8}, Usage(input=55, output=10, cached=10)),
        ("no object", Usage(input=15, output=2, cached=10)),
    ],
)
def test_samples_beside_the_reply_are_counted(sample: Any, usage: Usage) -> None:
    assert decode_usage({"input_tokens": 5, "cache_read_input_tokens": 10, "output_tokens": 2, "iterations": [sample]}) == usage


# -- the history before the reply --------------------------------------------------------------------------------------


def test_unreplayable_reply_has_no_history_digest() -> None:
    sig = {"type": "thinking", "thinking": "x", "signature": "s"}
    assert decode(sig, text_block("a")).stored_digest
    assert decode(text_block("a"), *search_blocks(), tool_use_block("t", "look", a=1), sig, text_block("b")).stored_digest
    assert not decode(text_block(" "), sig, text_block("b")).stored_digest  # blank text is not replayed
    assert not decode(search_blocks()[0], sig, text_block("b")).stored_digest  # nor is a use without its result
    assert decode(
        {**tool_use_block("t"), "caller": {"type": "code_execution_20260120", "tool_id": "x"}}, sig, text_block("b")
    ).stored_digest
    assert not decode({**tool_use_block("t"), "a_member_of_tomorrow": 1}, sig, text_block("b")).stored_digest


def test_equal_requests_have_equal_history_digests() -> None:
    conversation = Conversation.between("a", "b").add_message()
    digests = []
    for agent in ("a", "a", "b"):
        conversation.encode_request(agent)
        assert conversation.last_request is not None
        digests.append(decode_reply({"content": [text_block("x")]}, conversation.last_request, "o").stored_digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("model", "bound"),
    [
        ("claude-3-5-sonnet-20241022", False),
        ("claude-opus-4-20250514", False),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", False),
        ("claude-opus-4-8", False),
        ("claude-sonnet-5", False),
        ("claude-opus-5-20260724", False),
        ("claude-fable-5-1", True),
        ("claude-opus-5.5", True),
        ("claude-haiku-5-5@20261019", True),
        ("claude-sonnet-6", True),
        ("claude-sonnet-10", True),
        ("another-model", True),
    ],
)
def test_unknown_models_bind_their_thinking(model: str, bound: bool) -> None:
    assert binds_thinking(model) is bound


# -- paused turns ------------------------------------------------------------------------------------------------------


def test_paused_turn_is_continued_as_one_message() -> None:
    first = {
        "id": "m1",
        "content": [thinking_block(), *search_blocks()],
        "stop_reason": "pause_turn",
        "usage": {"input_tokens": 5, "output_tokens": 2},
    }
    second = {
        "id": "m2",
        "content": [text_block("So.")],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 4, "output_tokens_details": {"thinking_tokens": 1}},
    }
    before, after = decode_body(ENCODED_REQUEST), decode_body(continue_turn(ENCODED_REQUEST, first))
    assert after["messages"] == [*before["messages"], {"role": "assistant", "content": first["content"]}]
    reply = decode_reply(join_messages(first, second), ENCODED_REQUEST, "o")
    assert [type(item) for item in reply.items] == [Reasoning, HostedToolUse, HostedToolUse, OutputText]
    assert (reply.finish, reply.response_id) == ("stop", "m2")
    assert reply.usage == Usage(input=18, output=3, cached=4, reasoning=1)


def test_paused_turn_keeps_container_and_counts_samples() -> None:
    sample = {"type": "compaction", "input_tokens": 70, "output_tokens": 4}
    first = {
        "content": search_blocks(),
        "stop_reason": "pause_turn",
        "container": {"id": "container_1"},
        "usage": {"input_tokens": 5, "output_tokens": 2, "iterations": [sample]},
    }
    second = {
        "content": [text_block("So.")],
        "stop_reason": "end_turn",
        "container": None,
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    assert decode_body(continue_turn(ENCODED_REQUEST, first))["container"] == "container_1"
    skilled = RequestOptions(model=BINDING_MODEL, extra={"container": {"skills": [{"type": "anthropic", "skill_id": "pptx"}]}})
    request = encode_request(make_request(make_turn_context("a"), [make_message_group(0, "Hi")]), skilled, "o", stream=False)
    assert decode_body(continue_turn(request, first))["container"] == {**skilled.extra["container"], "id": "container_1"}
    reply = decode_reply(join_messages(first, second), ENCODED_REQUEST, "o")
    assert json.loads(reply.extra) == {"container": {"id": "container_1"}}
    assert reply.usage == Usage(input=84, output=7)
