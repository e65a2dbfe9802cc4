"""A streamed message records what the same message in one piece would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.core.facts import Call, Refusal, Words
from legato.core.model_reply import Reply
from legato.errors import ModelFailed
from legato.providers.formats.anthropic.compile import compile_request
from legato.providers.formats.anthropic.read import read_reply
from legato.providers.formats.anthropic.stream import StreamReader
from legato.providers.formats.options import Options
from tests.providers.anthropic.talks import BINDS, CITED, asked, frame, said, search, use, words

COMPILED = compile_request(asked(frame("a", "look"), [said(0, "Hi")]), Options(model=BINDS), "o", stream=True)
THINKING = {"type": "thinking", "thinking": "Let me think about this.", "signature": "c2lnbmF0dXJl"}
HIDDEN = {"type": "redacted_thinking", "data": "c2VjcmV0"}
USAGE = {"input_tokens": 12, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 3, "output_tokens": 40}


def message(*content: dict[str, Any], stop: str = "end_turn", **members: Any) -> dict[str, Any]:
    usage = {**USAGE, "output_tokens_details": {"thinking_tokens": 5}}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": BINDS,
        "content": list(content),
        "stop_reason": stop,
        "usage": usage,
        **members,
    }


def events(body: dict[str, Any], dice: Random) -> Iterator[dict[str, Any]]:
    """The stream that the API would send for a message, in pieces of any size."""
    begun = {**body, "content": [], "stop_reason": None, "usage": {**USAGE, "output_tokens": 1, "service_tier": "standard"}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(body["content"]):
        opening, deltas = _opened(block, dice)
        yield {"type": "content_block_start", "index": index, "content_block": opening}
        yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": body["stop_reason"], "stop_sequence": None, "stop_details": body.get("stop_details")}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 40, "input_tokens": None, **body["usage"]}}
    yield {"type": "message_stop"}


def _opened(block: dict[str, Any], dice: Random) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            cited = [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
            said = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"], dice)]
            return {"type": "text", "text": ""} | ({"citations": []} if cited else {}), [*said, *cited]
        case "thinking":
            thought = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], dice)]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*thought, signed]
        case "tool_use" | "server_tool_use":
            written = json.dumps(block["input"], indent=dice.choice((None, 1))) if block["input"] or dice.random() < 0.5 else ""
            parts = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(written, dice))]
            return {**block, "input": {}}, parts
        case "compaction":
            given = {name: block[name] for name in ("content", "encrypted_content") if name in block}
            return {"type": "compaction", "content": None}, [{"type": "compaction_delta", **given}]
        case _:
            return block, []


def _pieces(text: str, dice: Random) -> list[str]:
    pieces = []
    while text:
        size = dice.randint(1, 7)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def streamed(body: dict[str, Any], seed: int = 0) -> tuple[Reply, str]:
    shown: list[str] = []
    reader = StreamReader(shown.append)
    for event in events(body, Random(seed)):
        reader.take(json.dumps(event).encode())
    return reader.reply(COMPILED, "o", "req_1"), "".join(shown)


BLOCKS = st.lists(
    st.sampled_from(
        (
            THINKING,
            HIDDEN,
            words("Grüße, 世界! 🎉"),
            words("Found it.", citations=CITED),
            use("t1", "look", order="A-17", n=1.5, list=["é", None, {"a": True}]),
            use("t2", "look"),
            *search(),
            {"type": "compaction", "content": "They asked for a teapot.", "encrypted_content": "c2VhbA=="},
            {"type": "compaction", "content": None},
            {"type": "a_block_of_tomorrow", "x": 1},
        )
    ),
    max_size=6,
)


@given(BLOCKS, st.sampled_from(("end_turn", "tool_use", "max_tokens", "refusal", "pause_turn")), st.integers(0, 1000))
def test_a_stream_is_read_as_the_whole_would_be(content: list[dict[str, Any]], stop: str, seed: int) -> None:
    body = message(*content, stop=stop)
    reply, shown = streamed(body, seed)
    assert reply == read_reply(body, COMPILED, "o", "req_1")
    assert shown == "".join(item.text for item in reply.items if isinstance(item, (Words, Refusal)))


def test_what_the_end_of_a_stream_says_of_the_whole_reply_is_read() -> None:
    whole = {
        "container": {"id": "container_1"},
        "context_management": {"applied_edits": [{"type": "compact_20260112"}]},
        "stop_sequence": "END",
    }
    body = message(words("So"), stop="stop_sequence", **whole)
    begun = {**message(), "content": [], **dict.fromkeys(whole)}
    delta = {"stop_reason": "stop_sequence", "stop_sequence": "END", "container": {"id": "container_1"}}
    reader = StreamReader(lambda text: None)
    for event in (
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": words("So")},
        {"type": "message_delta", "delta": delta, "context_management": whole["context_management"], "usage": body["usage"]},
        {"type": "message_stop"},
    ):
        reader.take(json.dumps(event).encode())
    assert reader.reply(COMPILED, "o", "req_1") == read_reply(body, COMPILED, "o", "req_1")


def test_a_delta_of_tomorrow_adds_to_the_members_that_it_names() -> None:
    reader = StreamReader(lambda text: None)
    for event in (
        {"type": "message_start", "message": message()},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "a_block_of_tomorrow", "data": "a"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "a_delta_of_tomorrow", "data": "b", "more": [1], "none": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "a_delta_of_tomorrow", "data": "c"}},
        {"type": "message_stop"},
    ):
        reader.take(json.dumps(event).encode())
    assert reader.body()["content"] == [{"type": "a_block_of_tomorrow", "data": "abc", "more": [1]}]


def test_a_reply_that_was_stopped_says_so_at_the_end() -> None:
    details = {"type": "refusal", "category": None, "explanation": "Not this."}
    reply, _ = streamed(message(stop="refusal", stop_details=details))
    assert reply.items == (Refusal("Not this."),)
    assert reply.finish == "filter"


def test_arguments_that_broke_off_are_kept_as_the_model_wrote_them() -> None:
    reader = StreamReader(lambda text: None)
    for event in (
        {"type": "message_start", "message": message()},
        {"type": "content_block_start", "index": 0, "content_block": use("t", "look")},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"id": "A'}},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ):
        reader.take(json.dumps(event).encode())
    reply = reader.reply(COMPILED, "o")
    assert reply.items == (Call("look", '{"id": "A', "t"),)
    assert reply.finish == "length"


def test_a_stream_that_ends_early_is_a_failure_that_may_pass_wherever_it_ends() -> None:
    every = list(events(message(THINKING, words("Hello there."), use("t", "look", a=1)), Random(1)))
    for length in range(len(every)):
        reader = StreamReader(lambda text: None)
        for event in every[:length]:
            reader.take(json.dumps(event).encode())
        with pytest.raises(ModelFailed, match="ended before") as failure:
            reader.reply(COMPILED, "o")
        assert failure.value.retryable


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [("overloaded_error", True), ("api_error", True), ("rate_limit_error", True), ("invalid_request_error", False)],
)
def test_an_error_in_the_stream_is_that_error(kind: str, retryable: bool) -> None:
    reader = StreamReader(lambda text: None)
    every = list(events(message(words("Hello")), Random(1)))
    for event in (*every[:4], {"type": "error", "error": {"type": kind, "message": "No more."}}):
        reader.take(json.dumps(event).encode())
    with pytest.raises(ModelFailed, match="No more") as failure:
        reader.reply(COMPILED, "o")
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
def test_events_that_are_not_known_break_nothing(event: Any) -> None:
    body = message(words("Hello"))
    reader = StreamReader(lambda text: None)
    every = list(events(body, Random(1)))
    for each in (*every[:3], event, *every[3:]):
        reader.take(json.dumps(each).encode())
    assert reader.reply(COMPILED, "o") == read_reply(body, COMPILED, "o")
