"""A streamed message is decoded to the same reply as the unstreamed message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.core.facts import Call, OutputText, Refusal
from legato.core.model_reply import ModelReply
from legato.errors import ModelFailed
from legato.providers.formats.anthropic.decode import decode_reply
from legato.providers.formats.anthropic.encode import encode_request
from legato.providers.formats.anthropic.stream import AnthropicStreamDecoder
from legato.providers.formats.request_options import RequestOptions
from tests.providers.formats.anthropic.conversations import (
    BINDING_MODEL,
    CITATIONS,
    make_message_group,
    make_request,
    make_turn_context,
    search_blocks,
    text_block,
    tool_use_block,
)

ENCODED_REQUEST = encode_request(
    make_request(make_turn_context("a", "look"), [make_message_group(0, "Hi")]), RequestOptions(model=BINDING_MODEL), "o", stream=True
)
THINKING = {"type": "thinking", "thinking": "Let me think about this.", "signature": "c2lnbmF0dXJl"}
REDACTED_THINKING = {"type": "redacted_thinking", "data": "c2VjcmV0"}
USAGE = {"input_tokens": 12, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 3, "output_tokens": 40}


def make_message(*content: dict[str, Any], stop: str = "end_turn", **members: Any) -> dict[str, Any]:
    usage = {**USAGE, "output_tokens_details": {"thinking_tokens": 5}}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": BINDING_MODEL,
        "content": list(content),
        "stop_reason": stop,
        "usage": usage,
        **members,
    }


def stream_events(body: dict[str, Any], dice: Random) -> Iterator[dict[str, Any]]:
    """Yield the events that the API would stream for a message, in pieces of any size."""
    begun = {**body, "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1, "service_tier": "standard"}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(body["content"]):
        opening, deltas = stream_block(block, dice)
        yield {"type": "content_block_start", "index": index, "content_block": opening}
        yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": body["stop_reason"], "stop_sequence": None, "stop_details": body.get("stop_details")}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 40, "input_tokens": None, **body["usage"]}}
    yield {"type": "message_stop"}


def stream_block(block: dict[str, Any], dice: Random) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            cited = [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
            texts = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"], dice)]
            return {"type": "text", "text": ""} | ({"citations": []} if cited else {}), [*texts, *cited]
        case "thinking":
            thought = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], dice)]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*thought, signed]
        case "tool_use" | "server_tool_use":
            input_text = json.dumps(block["input"], indent=dice.choice((None, 1))) if block["input"] or dice.random() < 0.5 else ""
            parts = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(input_text, dice))]
            return {**block, "input": {}}, parts
        case "compaction":
            members = {name: block[name] for name in ("content", "encrypted_content") if name in block}
            return {"type": "compaction", "content": None}, [{"type": "compaction_delta", **members}]
        case _:
            return block, []


def _pieces(text: str, dice: Random) -> list[str]:
    pieces = []
    while text:
        size = dice.randint(1, 7)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def decode_streamed(body: dict[str, Any], seed: int = 0) -> tuple[ModelReply, str]:
    deltas: list[str] = []
    decoder = AnthropicStreamDecoder(deltas.append)
    for event in stream_events(body, Random(seed)):
        decoder.feed(json.dumps(event).encode())
    return decoder.build_reply(ENCODED_REQUEST, "o", "req_1"), "".join(deltas)


BLOCKS = st.lists(
    st.sampled_from(
        (
            THINKING,
            REDACTED_THINKING,
            text_block("Grüße, 世界! 🎉"),
            text_block("Found it.", citations=CITATIONS),
            tool_use_block("t1", "look", order="A-17", n=1.5, list=["é", None, {"a": True}]),
            tool_use_block("t2", "look"),
            *search_blocks(),
            {"type": "compaction", "content": "They asked for a teapot.", "encrypted_content": "c2VhbA=="},
            {"type": "compaction", "content": None},
            {"type": "a_block_of_tomorrow", "x": 1},
        )
    ),
    max_size=6,
)


@given(BLOCKS, st.sampled_from(("end_turn", "tool_use", "max_tokens", "refusal", "pause_turn")), st.integers(0, 1000))
def test_stream_decodes_like_the_whole_message(content: list[dict[str, Any]], stop: str, seed: int) -> None:
    body = make_message(*content, stop=stop)
    reply, text = decode_streamed(body, seed)
    assert reply == decode_reply(body, ENCODED_REQUEST, "o", "req_1")
    assert text == "".join(item.text for item in reply.items if isinstance(item, (OutputText, Refusal)))


def test_last_event_has_members_of_the_reply() -> None:
    whole = {
        "container": {"id": "container_1"},
        "context_management": {"applied_edits": [{"type": "compact_20260112"}]},
        "stop_sequence": "END",
    }
    body = make_message(text_block("So"), stop="stop_sequence", **whole)
    begun = {**make_message(), "content": [], **dict.fromkeys(whole)}
    delta = {"stop_reason": "stop_sequence", "stop_sequence": "END", "container": {"id": "container_1"}}
    decoder = AnthropicStreamDecoder(lambda text: None)
    for event in (
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": text_block("So")},
        {"type": "message_delta", "delta": delta, "context_management": whole["context_management"], "usage": body["usage"]},
        {"type": "message_stop"},
    ):
        decoder.feed(json.dumps(event).encode())
    assert decoder.build_reply(ENCODED_REQUEST, "o", "req_1") == decode_reply(body, ENCODED_REQUEST, "o", "req_1")


def test_unknown_delta_extends_the_members_it_names() -> None:
    decoder = AnthropicStreamDecoder(lambda text: None)
    for event in (
        {"type": "message_start", "message": make_message()},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "a_block_of_tomorrow", "data": "a"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "a_delta_of_tomorrow", "data": "b", "more": [1], "none": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "a_delta_of_tomorrow", "data": "c"}},
        {"type": "message_stop"},
    ):
        decoder.feed(json.dumps(event).encode())
    assert decoder.build_message()["content"] == [{"type": "a_block_of_tomorrow", "data": "abc", "more": [1]}]


def test_stop_reason_comes_at_the_end() -> None:
    details = {"type": "refusal", "category": None, "explanation": "Not this."}
    reply, _ = decode_streamed(make_message(stop="refusal", stop_details=details))
    assert reply.items == (Refusal("Not this."),)
    assert reply.finish == "filter"


def test_truncated_arguments_stay_text() -> None:
    decoder = AnthropicStreamDecoder(lambda text: None)
    for event in (
        {"type": "message_start", "message": make_message()},
        {"type": "content_block_start", "index": 0, "content_block": tool_use_block("t", "look")},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"id": "A'}},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ):
        decoder.feed(json.dumps(event).encode())
    reply = decoder.build_reply(ENCODED_REQUEST, "o")
    assert reply.items == (Call("look", '{"id": "A', "t"),)
    assert reply.finish == "length"


def test_truncated_stream_is_a_retryable_failure() -> None:
    every = list(stream_events(make_message(THINKING, text_block("Hello there."), tool_use_block("t", "look", a=1)), Random(1)))
    for length in range(len(every)):
        decoder = AnthropicStreamDecoder(lambda text: None)
        for event in every[:length]:
            decoder.feed(json.dumps(event).encode())
        with pytest.raises(ModelFailed, match="ended before") as failure:
            decoder.build_reply(ENCODED_REQUEST, "o")
        assert failure.value.retryable


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [("overloaded_error", True), ("api_error", True), ("rate_limit_error", True), ("invalid_request_error", False)],
)
def test_error_event_raises_that_error(kind: str, retryable: bool) -> None:
    decoder = AnthropicStreamDecoder(lambda text: None)
    every = list(stream_events(make_message(text_block("Hello")), Random(1)))
    for event in (*every[:4], {"type": "error", "error": {"type": kind, "message": "No more."}}):
        decoder.feed(json.dumps(event).encode())
    with pytest.raises(ModelFailed, match="No more") as failure:
        decoder.build_reply(ENCODED_REQUEST, "o")
    assert failure.value.retryable is retryable
    assert failure.value.reason == kind


@pytest.mark.parametrize(
    "event",
    [
        {"type": "an_event_of_tomorrow"},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "lost"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "a_delta_of_tomorrow", "x": 1}},
        {"type": "content_block_delta", "index": 0},
        {"type": "message_delta"},
        [],
        "text",
    ],
)
def test_unknown_events_raise_no_error(event: Any) -> None:
    body = make_message(text_block("Hello"))
    decoder = AnthropicStreamDecoder(lambda text: None)
    every = list(stream_events(body, Random(1)))
    for each in (*every[:3], event, *every[3:]):
        decoder.feed(json.dumps(each).encode())
    assert decoder.build_reply(ENCODED_REQUEST, "o") == decode_reply(body, ENCODED_REQUEST, "o")
