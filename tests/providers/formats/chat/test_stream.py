"""A stream of Chat Completions, in any server's style, is decoded to the same reply as the unstreamed answer, or fails."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.core.facts import Call, HostedToolUse, OutputText, Reasoning, Refusal, ReplyItem, Usage
from legato.core.model_reply import ModelReply
from legato.emulator.fake_models.base import FakeReply, ReplyCall, ReplyRefusal, ReplyThought
from legato.emulator.fake_models.base import ReplyText as Told
from legato.errors import ModelFailed
from legato.providers.formats.chat.decode import decode_reply
from legato.providers.formats.chat.stream import ChatStreamDecoder
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.sse_decoder import SSEDecoder
from tests.emulator.chat.request_factory import make_adapter, make_request
from tests.providers.formats.chat.streaming_styles import (
    STREAMED_TOOL_NAMES,
    STREAMING_STYLES,
    CallPiece,
    delta_chunk,
    function_member,
    join_arguments,
    several_calls,
)
from tests.providers.formats.chat.test_decode import JSON

ENCODED_REQUEST = EncodedRequest(b"{}", {"wire_name": "Größe"}, losses=("something",))


def decode_chunks(*data: Any, deltas: list[str] | None = None) -> ModelReply:
    """Decode the reply in these events, each a text or a chunk."""
    decoder = ChatStreamDecoder((deltas if deltas is not None else []).append)
    for each in data:
        decoder.feed(each.encode() if isinstance(each, str) else json.dumps(each).encode())
    return decoder.build_reply(ENCODED_REQUEST, "o", "req_1")


DONE_MARKER = "[DONE]"
LAST_CHUNK = delta_chunk("stop")

# -- the emulator's own streams ----------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
ARGUMENTS = st.one_of(st.just("{}"), st.dictionaries(WORDS, WORDS, max_size=3).map(json.dumps), st.sampled_from(["", '{"a": "', "[]"]))
SAID_TEXTS = st.builds(
    FakeReply,
    st.lists(
        st.one_of(
            st.builds(Told, WORDS),
            st.builds(ReplyThought, WORDS),
            st.builds(ReplyRefusal, WORDS),
            st.builds(ReplyCall, STREAMED_TOOL_NAMES, ARGUMENTS, st.sampled_from(["", "call_1", "call_2"])),
        ),
        max_size=4,
    ).map(tuple),
    st.sampled_from(["stop", "length", "content_filter"]),
)


@given(SAID_TEXTS, st.booleans())
def test_stream_and_whole_answer_are_one_reply(say: FakeReply, azure: bool) -> None:
    answer = make_adapter().make_reply(make_request(stream=True, stream_options={"include_usage": True}, is_azure=azure), say)
    deltas: list[str] = []
    decoder = ChatStreamDecoder(deltas.append)
    events = SSEDecoder()
    for event in answer.events:
        for sse_event in events.feed(event.encode()):
            decoder.feed(sse_event.data)
    whole = decode_reply(answer.body, ENCODED_REQUEST, "o", "req_1")
    assert decoder.build_reply(ENCODED_REQUEST, "o", "req_1") == whole
    assert "".join(deltas) == "".join(item.text for item in whole.items if isinstance(item, (OutputText, Refusal)))


@given(SAID_TEXTS, st.data())
def test_stream_without_finish_reason_is_no_reply(say: FakeReply, data: st.DataObject) -> None:
    events = make_adapter().make_reply(make_request(stream=True, stream_options={"include_usage": True}), say).events
    last = next(number for number, event in enumerate(events) if isinstance(event.data, dict) and _ends(event.data))
    decoder = ChatStreamDecoder(lambda text: None)
    for event in events[: data.draw(st.integers(0, last))]:
        decoder.feed(json.dumps(event.data).encode())
    with pytest.raises(ModelFailed, match="ended before the reply did") as failure:
        decoder.build_reply(ENCODED_REQUEST, "o")
    assert failure.value.retryable


def _ends(chunk: dict[str, Any]) -> bool:
    return any(choice["finish_reason"] for choice in chunk["choices"])


# -- the styles of servers ---------------------------------------------------------------------------------------------


@settings(max_examples=40)
@pytest.mark.parametrize("title", STREAMING_STYLES)
@given(calls=several_calls())
def test_calls_are_whole_in_every_style(title: str, calls: list[list[CallPiece]]) -> None:
    tool_calls = [
        {"id": pieces[0][1], "type": "function", "function": function_member(pieces[0][2], join_arguments(pieces))} for pieces in calls
    ]
    body = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": tool_calls}, "finish_reason": "tool_calls"}]}
    assert decode_chunks(*STREAMING_STYLES[title](calls), delta_chunk("tool_calls"), DONE_MARKER) == decode_reply(
        body, ENCODED_REQUEST, "o", "req_1"
    )


def call_chunk(name: str, arguments: Any = None, **members: Any) -> dict[str, Any]:
    return delta_chunk(tool_calls=[{**members, "function": function_member(name, arguments)}])


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        pytest.param([call_chunk("f", '{"a":1}'), call_chunk("f", '{"a":1}')], [Call("f", '{"a":1}')] * 2, id="twice the same without ids"),
        pytest.param([call_chunk("f", "{}", index=0), call_chunk("g", "{}", index=0)], [Call("f"), Call("g")], id="whole, index 0, no ids"),
        pytest.param(
            [call_chunk("f", "{}", id="x"), call_chunk("g", '{"a":1}', id="x")],
            [Call("f", "{}", "x"), Call("g", '{"a":1}', "x")],
            id="one id",
        ),
        pytest.param([call_chunk("f", ""), call_chunk("g", "")], [Call("f"), Call("g")], id="without arguments"),
        pytest.param([call_chunk("f"), call_chunk("g")], [Call("f"), Call("g")], id="arguments left out"),
        pytest.param(
            [call_chunk("f", '{"a":', index=0, id="x"), call_chunk("f", "1}", index=0, id="x"), call_chunk("f", "", index=0, id="x")],
            [Call("f", '{"a":1}', "x")],
            id="a last piece that says nothing",
        ),
        pytest.param(
            [call_chunk("look", "", index=0, id="x"), delta_chunk(tool_calls=[{"index": 0, "function": function_member("_up", "{}")}])],
            [Call("look_up", "{}", "x")],
            id="a name in pieces",
        ),
        pytest.param(
            [delta_chunk(tool_calls=[{"index": 0, "id": "x"}]), call_chunk("f", "{}", index=0)],
            [Call("f", "{}", "x")],
            id="an id before the name",
        ),
        pytest.param(
            [call_chunk("f", "{}", index=1, id="y"), call_chunk("g", "{}", index=0, id="x")],
            [Call("g", "{}", "x"), Call("f", "{}", "y")],
            id="order",
        ),
        pytest.param([call_chunk("f", '{"a', index=0, id="x")], [Call("f", '{"a', "x")], id="arguments that break off"),
        pytest.param(
            [delta_chunk(function_call={"name": "f", "arguments": ""}), delta_chunk(function_call={"arguments": '{"a":1}'})],
            [Call("f", '{"a":1}')],
            id="the old kind",
        ),
        pytest.param([delta_chunk(tool_calls=[]), delta_chunk(tool_calls=None), delta_chunk(tool_calls=["x"])], [], id="no calls at all"),
    ],
)
def test_calls_of_odd_shapes_are_separated(chunks: list[dict[str, Any]], calls: list[ReplyItem]) -> None:
    assert list(decode_chunks(*chunks, LAST_CHUNK, DONE_MARKER).items) == calls


# -- texts and other members -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "items"),
    [
        pytest.param(
            [delta_chunk(role="assistant", content=""), delta_chunk(content="Hel"), delta_chunk(content="lo")],
            [OutputText("Hello")],
            id="words",
        ),
        pytest.param(
            [delta_chunk(reasoning_content="H"), delta_chunk(reasoning_content="m."), delta_chunk(content="Hi")],
            [Reasoning("Hm."), OutputText("Hi")],
            id="reasoning",
        ),
        pytest.param(
            [delta_chunk(reasoning="H", reasoning_content="H"), delta_chunk(reasoning="m.")], [Reasoning("Hm.")], id="reasoning twice"
        ),
        pytest.param([delta_chunk(refusal="N"), delta_chunk(refusal="o.")], [Refusal("No.")], id="a refusal"),
        pytest.param(
            [
                delta_chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "H"}]}]),
                delta_chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "m."}]}]),
                delta_chunk(content=[{"type": "text", "text": "H"}]),
                delta_chunk(content="i"),
            ],
            [Reasoning("Hm."), OutputText("Hi")],
            id="parts",
        ),
        pytest.param(
            [delta_chunk(content="Hi"), delta_chunk(annotations=[{"url": "u"}])],
            [OutputText("Hi", citations='[{"url":"u"}]')],
            id="citations after the words",
        ),
        pytest.param(
            [delta_chunk(audio={"id": "a1", "data": "AA"}), delta_chunk(audio={"data": "BB", "expires_at": 1})],
            [HostedToolUse("audio", '{"data":"AABB","expires_at":1,"id":"a1"}', "a1")],
            id="audio",
        ),
        pytest.param(
            [{"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "stop"}]}, delta_chunk(content="A")],
            [OutputText("A")],
            id="two choices",
        ),
        pytest.param([{"choices": [{"delta": {"content": "A"}}]}], [OutputText("A")], id="a choice without an index"),
        pytest.param(
            [delta_chunk(content="A"), {"choices": [{"index": 0, "message": {"content": "A"}}]}], [OutputText("A")], id="the whole after it"
        ),
        pytest.param(
            [delta_chunk(content="A"), {"choices": None}, {}, {"choices": [{}]}, "", "  "], [OutputText("A")], id="chunks that say nothing"
        ),
    ],
)
def test_streamed_pieces_are_joined(chunks: list[Any], items: list[ReplyItem]) -> None:
    deltas: list[str] = []
    assert list(decode_chunks(*chunks, LAST_CHUNK, DONE_MARKER, deltas=deltas).items) == items
    assert "".join(deltas) == "".join(item.text for item in items if isinstance(item, (OutputText, Refusal)))


def test_reply_members_are_found_in_any_chunk() -> None:
    first = {"id": "", "model": "", "choices": [], "prompt_filter_results": []}
    counting = {**delta_chunk(content="Hi"), "id": "c1", "model": "m-1", "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    last = {"id": "c1", "model": "m-1", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    assert decode_chunks(first, counting, {**LAST_CHUNK, "usage": None}, last, DONE_MARKER) == ModelReply(
        items=(OutputText("Hi"),),
        usage=Usage(5, 2),
        model="m-1",
        response_id="c1",
        origin="o",
        request_id="req_1",
        losses=("something",),
    )


@pytest.mark.parametrize(
    ("reason", "finish"), [("length", "length"), ("content_filter", "filter"), ("tool_calls", "stop"), ("STOP", "stop")]
)
def test_finish_reason_equals_the_whole_answers(reason: str, finish: str) -> None:
    assert decode_chunks(delta_chunk(content="Hi"), delta_chunk(reason)).finish == finish


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([delta_chunk(content="Hi"), delta_chunk("stop")], id="a reason and no [DONE]"),
        pytest.param([delta_chunk(content="Hi"), DONE_MARKER], id="[DONE] and no reason"),
        pytest.param([delta_chunk("stop", content="Hi"), DONE_MARKER], id="a reason beside the last words"),
        pytest.param([delta_chunk("", content="H"), delta_chunk("null", content="i"), DONE_MARKER], id="reasons that are none"),
        pytest.param(
            [delta_chunk(content="Hi"), {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}], id="a reason without a delta"
        ),
    ],
)
def test_either_end_mark_is_enough(chunks: list[Any]) -> None:
    assert decode_chunks(*chunks).items == (OutputText("Hi"),)


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([], id="nothing"),
        pytest.param([delta_chunk(content="Hal")], id="half of the words"),
        pytest.param([call_chunk("f", "{}", index=0, id="x")], id="a call that looks whole"),
        pytest.param([delta_chunk("null", content="Hal")], id="no reason"),
        pytest.param([{"choices": [], "usage": {"prompt_tokens": 1}}, DONE_MARKER], id="[DONE] and nothing said"),
    ],
)
def test_endless_stream_is_a_retryable_failure(chunks: list[Any]) -> None:
    with pytest.raises(ModelFailed, match="ended before the reply did") as failure:
        decode_chunks(*chunks)
    assert failure.value.retryable


@pytest.mark.parametrize(
    ("event", "message", "retryable", "reason"),
    [
        pytest.param({"error": {"message": "Oops", "type": "server_error", "code": None}}, "Oops", True, "server_error", id="OpenAI's"),
        pytest.param({"error": {"message": "Slow down", "code": "rate_limit_exceeded"}}, "Slow", True, "rate_limit_exceeded", id="a limit"),
        pytest.param(
            {"error": {"message": "Bad", "type": "BadRequestError", "code": 400}}, "400 Bad", False, "BadRequestError", id="vLLM's"
        ),
        pytest.param({"error": "out of memory"}, "out of memory", True, "", id="a text"),
        pytest.param(
            {"error": {"message": "Gone", "code": 502}, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]},
            "502 Gone",
            True,
            "",
            id="beside a choice",
        ),
        pytest.param(delta_chunk("error"), "without saying why", True, "", id="as a reason"),
        pytest.param({"choices": [{"delta": {}, "error": {"message": "Gone", "code": 502}}]}, "502 Gone", True, "", id="inside a choice"),
    ],
)
def test_error_event_ends_the_stream(event: dict[str, Any], message: str, retryable: bool, reason: str) -> None:
    for chunks in ([event], [delta_chunk(content="Hal"), event], [delta_chunk(content="Hal"), event, delta_chunk("stop"), DONE_MARKER]):
        with pytest.raises(ModelFailed) as failure:
            decode_chunks(*chunks)
        assert message in failure.value.summary
        assert (failure.value.retryable, failure.value.reason) == (retryable, reason)


def test_invalid_json_chunk_is_a_retryable_failure() -> None:
    with pytest.raises(ModelFailed, match="invalid JSON") as failure:
        decode_chunks(delta_chunk(content="Hi"), '{"choices": [')
    assert failure.value.retryable


@given(st.lists(JSON, max_size=4))
def test_any_json_is_reply_or_model_failure(chunks: list[Any]) -> None:
    for stream in (chunks, [{"choices": [{"delta": chunk}]} for chunk in chunks], [{"choices": chunks}]):
        with suppress(ModelFailed):
            assert isinstance(decode_chunks(*map(json.dumps, stream), LAST_CHUNK), ModelReply)


def test_long_stream_costs_linear_work() -> None:
    pieces = 60_000
    decoder = ChatStreamDecoder(lambda text: None)
    start = call_chunk("f", "", index=0, id="x")
    for chunk in (
        start,
        *[delta_chunk(content="some words ", tool_calls=[{"index": 0, "function": {"arguments": "0123456789"}}])] * pieces,
        LAST_CHUNK,
    ):
        decoder.feed(json.dumps(chunk).encode())
    words, streamed_call = decoder.build_reply(ENCODED_REQUEST, "o").items
    assert isinstance(words, OutputText)
    assert isinstance(streamed_call, Call)
    assert (len(words.text), len(streamed_call.arguments)) == (11 * pieces, 10 * pieces)


# -- other streamed members --------------------------------------------------------------------------------------------


def make_piece(**members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members}]}


def test_streamed_custom_call_stays_custom() -> None:
    first = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "sel"}}
    reply = decode_chunks(
        make_piece(tool_calls=[first]), make_piece(tool_calls=[{"index": 0, "custom": {"input": "ect"}}]), LAST_CHUNK, DONE_MARKER
    )
    assert reply.items == (Call("sql", "select", "call_1", extra='{"type":"custom"}'),)


def test_a_streamed_call_keeps_its_signature() -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "look_up", "arguments": "{}"}, "extra_content": {"google": {"x": "y"}}}
    assert decode_chunks(make_piece(tool_calls=[call]), LAST_CHUNK).items == (
        Call("look_up", "{}", "call_1", extra='{"extra_content":{"google":{"x":"y"}}}'),
    )


def test_streamed_reasoning_details_are_joined_in_order() -> None:
    text = {"type": "reasoning.text", "index": 0}
    seal = {"type": "reasoning.encrypted", "index": 1, "data": "gA"}
    text_pieces = [{**text, "text": words} for words in ("Let me", " see.", "")]
    pieces = [*text_pieces, {**text, "signature": "Ev"}, seal, seal]
    reply = decode_chunks(*(make_piece(reasoning_details=[each]) for each in pieces), make_piece(content="Hi"), LAST_CHUNK)
    reasoning = reply.items[0]
    assert isinstance(reasoning, Reasoning)
    assert reasoning.text == "Let me see."
    assert json.loads(reasoning.encrypted) == {"reasoning_details": [{**text, "text": "Let me see.", "signature": "Ev"}, seal, seal]}


def test_stream_ended_by_a_filter_is_a_reply() -> None:
    first = {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}
    filtered = {"choices": [{"index": 0, "content_filter_results": {"hate": {"filtered": True}}}], "id": "c", "model": "m"}
    reply = decode_chunks(first, filtered, DONE_MARKER)
    assert (reply.items, reply.finish, reply.model) == ((), "filter", "m")


def test_streamed_further_choices_are_a_loss() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "B"}, "logprobs": None}]}
    reply = decode_chunks(make_piece(content="A"), other, other, LAST_CHUNK, DONE_MARKER)
    assert (reply.items, reply.losses[1:]) == ((OutputText("A"),), ("1 further choice of the reply: an agent uses one choice per reply",))


def test_usage_of_groq_is_read_from_its_member() -> None:
    usage = {"x_groq": {"id": "req_1", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, "choices": []}
    assert decode_chunks(make_piece(content="A"), LAST_CHUNK, usage, DONE_MARKER).usage == Usage(3, 4)


def test_audio_transcript_is_emitted_as_it_comes() -> None:
    deltas: list[str] = []
    parts = [{"id": "audio_1", "transcript": "Go"}, {"data": "AA"}, {"transcript": "od"}, {"expires_at": 5}]
    reply = decode_chunks(*(make_piece(audio=part) for part in parts), LAST_CHUNK, DONE_MARKER, deltas=deltas)
    assert (deltas, reply.items[0]) == (["Go", "od"], OutputText("Good"))
