"""A stream of Chat Completions records what the same answer in one piece would, in whatever style a server streams; or it fails."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.core.facts import Call, Hosted, Item, Reasoning, Refusal, Usage, Words
from legato.core.model_reply import Reply
from legato.emulator.minds.base import Refused, Say, Thought, Use
from legato.emulator.minds.base import Words as Told
from legato.errors import ModelFailed
from legato.providers.formats.chat.read import read_reply
from legato.providers.formats.chat.stream import StreamReader
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.sse import EventReader
from tests.emulator.chat.asking import ask, dialect
from tests.providers.chat.styles import NAMES, STYLES, Piece, delta, function, several_calls, whole
from tests.providers.chat.test_read import JSON

SENT = Compiled(b"{}", {"wire_name": "Größe"}, losses=("something",))


def streamed(*data: Any, heard: list[str] | None = None) -> Reply:
    """The reply that these events make; those that are not text are chunks."""
    reader = StreamReader((heard if heard is not None else []).append)
    for each in data:
        reader.take(each.encode() if isinstance(each, str) else json.dumps(each).encode())
    return reader.reply(SENT, "o", "req_1")


DONE = "[DONE]"
END = delta("stop")

# -- the emulator's own streams ----------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
ARGUMENTS = st.one_of(st.just("{}"), st.dictionaries(WORDS, WORDS, max_size=3).map(json.dumps), st.sampled_from(["", '{"a": "', "[]"]))
SAYS = st.builds(
    Say,
    st.lists(
        st.one_of(
            st.builds(Told, WORDS),
            st.builds(Thought, WORDS),
            st.builds(Refused, WORDS),
            st.builds(Use, NAMES, ARGUMENTS, st.sampled_from(["", "call_1", "call_2"])),
        ),
        max_size=4,
    ).map(tuple),
    st.sampled_from(["stop", "length", "content_filter"]),
)


@given(SAYS, st.booleans())
def test_a_stream_and_the_whole_answer_are_one_reply(say: Say, azure: bool) -> None:
    answer = dialect().answer(ask(stream=True, stream_options={"include_usage": True}, azure=azure), say)
    heard: list[str] = []
    reader = StreamReader(heard.append)
    events = EventReader()
    for event in answer.events:
        for sent in events.feed(event.encode()):
            reader.take(sent.data)
    whole = read_reply(answer.body, SENT, "o", "req_1")
    assert reader.reply(SENT, "o", "req_1") == whole
    assert "".join(heard) == "".join(item.text for item in whole.items if isinstance(item, (Words, Refusal)))


@given(SAYS, st.data())
def test_a_stream_that_is_cut_before_its_reason_is_never_a_reply(say: Say, data: st.DataObject) -> None:
    events = dialect().answer(ask(stream=True, stream_options={"include_usage": True}), say).events
    last = next(number for number, event in enumerate(events) if isinstance(event.data, dict) and _ends(event.data))
    reader = StreamReader(lambda text: None)
    for event in events[: data.draw(st.integers(0, last))]:
        reader.take(json.dumps(event.data).encode())
    with pytest.raises(ModelFailed, match="ended before the reply did") as failure:
        reader.reply(SENT, "o")
    assert failure.value.retryable


def _ends(chunk: dict[str, Any]) -> bool:
    return any(choice["finish_reason"] for choice in chunk["choices"])


# -- the styles of servers ---------------------------------------------------------------------------------------------


@settings(max_examples=40)
@pytest.mark.parametrize("title", STYLES)
@given(calls=several_calls())
def test_calls_come_out_whole_in_every_style(title: str, calls: list[list[Piece]]) -> None:
    written = [{"id": pieces[0][1], "type": "function", "function": function(pieces[0][2], whole(pieces))} for pieces in calls]
    body = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": written}, "finish_reason": "tool_calls"}]}
    assert streamed(*STYLES[title](calls), delta("tool_calls"), DONE) == read_reply(body, SENT, "o", "req_1")


def call(name: str, arguments: Any = None, **members: Any) -> dict[str, Any]:
    return delta(tool_calls=[{**members, "function": function(name, arguments)}])


@pytest.mark.parametrize(
    ("chunks", "calls"),
    [
        pytest.param([call("f", '{"a":1}'), call("f", '{"a":1}')], [Call("f", '{"a":1}')] * 2, id="twice the same without ids"),
        pytest.param([call("f", "{}", index=0), call("g", "{}", index=0)], [Call("f"), Call("g")], id="whole, index 0, no ids"),
        pytest.param(
            [call("f", "{}", id="x"), call("g", '{"a":1}', id="x")], [Call("f", "{}", "x"), Call("g", '{"a":1}', "x")], id="one id"
        ),
        pytest.param([call("f", ""), call("g", "")], [Call("f"), Call("g")], id="without arguments"),
        pytest.param([call("f"), call("g")], [Call("f"), Call("g")], id="arguments left out"),
        pytest.param(
            [call("f", '{"a":', index=0, id="x"), call("f", "1}", index=0, id="x"), call("f", "", index=0, id="x")],
            [Call("f", '{"a":1}', "x")],
            id="a last piece that says nothing",
        ),
        pytest.param(
            [call("look", "", index=0, id="x"), delta(tool_calls=[{"index": 0, "function": function("_up", "{}")}])],
            [Call("look_up", "{}", "x")],
            id="a name in pieces",
        ),
        pytest.param(
            [delta(tool_calls=[{"index": 0, "id": "x"}]), call("f", "{}", index=0)], [Call("f", "{}", "x")], id="an id before the name"
        ),
        pytest.param(
            [call("f", "{}", index=1, id="y"), call("g", "{}", index=0, id="x")], [Call("g", "{}", "x"), Call("f", "{}", "y")], id="order"
        ),
        pytest.param([call("f", '{"a', index=0, id="x")], [Call("f", '{"a', "x")], id="arguments that break off"),
        pytest.param(
            [delta(function_call={"name": "f", "arguments": ""}), delta(function_call={"arguments": '{"a":1}'})],
            [Call("f", '{"a":1}')],
            id="the old kind",
        ),
        pytest.param([delta(tool_calls=[]), delta(tool_calls=None), delta(tool_calls=["x"])], [], id="no calls at all"),
    ],
)
def test_calls_of_other_shapes_are_told_apart(chunks: list[dict[str, Any]], calls: list[Item]) -> None:
    assert list(streamed(*chunks, END, DONE).items) == calls


# -- words and the rest ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunks", "items"),
    [
        pytest.param([delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo")], [Words("Hello")], id="words"),
        pytest.param(
            [delta(reasoning_content="H"), delta(reasoning_content="m."), delta(content="Hi")],
            [Reasoning("Hm."), Words("Hi")],
            id="reasoning",
        ),
        pytest.param([delta(reasoning="H", reasoning_content="H"), delta(reasoning="m.")], [Reasoning("Hm.")], id="reasoning twice"),
        pytest.param([delta(refusal="N"), delta(refusal="o.")], [Refusal("No.")], id="a refusal"),
        pytest.param(
            [
                delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "H"}]}]),
                delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "m."}]}]),
                delta(content=[{"type": "text", "text": "H"}]),
                delta(content="i"),
            ],
            [Reasoning("Hm."), Words("Hi")],
            id="parts",
        ),
        pytest.param(
            [delta(content="Hi"), delta(annotations=[{"url": "u"}])], [Words("Hi", notes='[{"url":"u"}]')], id="citations after the words"
        ),
        pytest.param(
            [delta(audio={"id": "a1", "data": "AA"}), delta(audio={"data": "BB", "expires_at": 1})],
            [Hosted("audio", '{"data":"AABB","expires_at":1,"id":"a1"}', "a1")],
            id="audio",
        ),
        pytest.param(
            [{"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "stop"}]}, delta(content="A")],
            [Words("A")],
            id="two choices",
        ),
        pytest.param([{"choices": [{"delta": {"content": "A"}}]}], [Words("A")], id="a choice without an index"),
        pytest.param([delta(content="A"), {"choices": [{"index": 0, "message": {"content": "A"}}]}], [Words("A")], id="the whole after it"),
        pytest.param([delta(content="A"), {"choices": None}, {}, {"choices": [{}]}, "", "  "], [Words("A")], id="chunks that say nothing"),
    ],
)
def test_pieces_are_put_together(chunks: list[Any], items: list[Item]) -> None:
    heard: list[str] = []
    assert list(streamed(*chunks, END, DONE, heard=heard).items) == items
    assert "".join(heard) == "".join(item.text for item in items if isinstance(item, (Words, Refusal)))


def test_what_is_told_about_a_reply_is_taken_from_wherever_it_stands() -> None:
    first = {"id": "", "model": "", "choices": [], "prompt_filter_results": []}
    counting = {**delta(content="Hi"), "id": "c1", "model": "m-1", "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    last = {"id": "c1", "model": "m-1", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    assert streamed(first, counting, {**END, "usage": None}, last, DONE) == Reply(
        items=(Words("Hi"),),
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
def test_the_reason_of_the_end_is_that_of_the_whole(reason: str, finish: str) -> None:
    assert streamed(delta(content="Hi"), delta(reason)).finish == finish


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([delta(content="Hi"), delta("stop")], id="a reason and no [DONE]"),
        pytest.param([delta(content="Hi"), DONE], id="[DONE] and no reason"),
        pytest.param([delta("stop", content="Hi"), DONE], id="a reason beside the last words"),
        pytest.param([delta("", content="H"), delta("null", content="i"), DONE], id="reasons that are none"),
        pytest.param(
            [delta(content="Hi"), {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}], id="a reason without a delta"
        ),
    ],
)
def test_either_sign_of_the_end_is_enough(chunks: list[Any]) -> None:
    assert streamed(*chunks).items == (Words("Hi"),)


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([], id="nothing"),
        pytest.param([delta(content="Hal")], id="half of the words"),
        pytest.param([call("f", "{}", index=0, id="x")], id="a call that looks whole"),
        pytest.param([delta("null", content="Hal")], id="no reason"),
        pytest.param([{"choices": [], "usage": {"prompt_tokens": 1}}, DONE], id="[DONE] and nothing said"),
    ],
)
def test_a_stream_without_an_end_is_a_failure_that_may_pass(chunks: list[Any]) -> None:
    with pytest.raises(ModelFailed, match="ended before the reply did") as failure:
        streamed(*chunks)
    assert failure.value.retryable


@pytest.mark.parametrize(
    ("frame", "says", "retryable", "reason"),
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
        pytest.param(delta("error"), "without saying why", True, "", id="as a reason"),
        pytest.param({"choices": [{"delta": {}, "error": {"message": "Gone", "code": 502}}]}, "502 Gone", True, "", id="inside a choice"),
    ],
)
def test_an_error_in_a_stream_is_the_end_of_it(frame: dict[str, Any], says: str, retryable: bool, reason: str) -> None:
    for chunks in ([frame], [delta(content="Hal"), frame], [delta(content="Hal"), frame, delta("stop"), DONE]):
        with pytest.raises(ModelFailed) as failure:
            streamed(*chunks)
        assert says in failure.value.summary
        assert (failure.value.retryable, failure.value.reason) == (retryable, reason)


def test_a_chunk_that_is_no_json_is_a_failure_that_may_pass() -> None:
    with pytest.raises(ModelFailed, match="no JSON") as failure:
        streamed(delta(content="Hi"), '{"choices": [')
    assert failure.value.retryable


@given(st.lists(JSON, max_size=4))
def test_whatever_comes_is_a_reply_or_a_failure_of_the_model(chunks: list[Any]) -> None:
    for told in (chunks, [{"choices": [{"delta": chunk}]} for chunk in chunks], [{"choices": chunks}]):
        with suppress(ModelFailed):
            assert isinstance(streamed(*map(json.dumps, told), END), Reply)


def test_a_long_stream_costs_what_its_length_does() -> None:
    pieces = 60_000
    reader = StreamReader(lambda text: None)
    start = call("f", "", index=0, id="x")
    for chunk in (start, *[delta(content="some words ", tool_calls=[{"index": 0, "function": {"arguments": "0123456789"}}])] * pieces, END):
        reader.take(json.dumps(chunk).encode())
    words, made = reader.reply(SENT, "o").items
    assert isinstance(words, Words)
    assert isinstance(made, Call)
    assert (len(words.text), len(made.arguments)) == (11 * pieces, 10 * pieces)


# -- what else servers stream ------------------------------------------------------------------------------------------


def piece(**members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members}]}


def test_a_streamed_custom_call_stays_one() -> None:
    first = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "sel"}}
    reply = streamed(piece(tool_calls=[first]), piece(tool_calls=[{"index": 0, "custom": {"input": "ect"}}]), END, DONE)
    assert reply.items == (Call("sql", "select", "call_1", extra='{"type":"custom"}'),)


def test_a_streamed_call_keeps_its_signature() -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "look_up", "arguments": "{}"}, "extra_content": {"google": {"x": "y"}}}
    assert streamed(piece(tool_calls=[call]), END).items == (
        Call("look_up", "{}", "call_1", extra='{"extra_content":{"google":{"x":"y"}}}'),
    )


def test_streamed_reasoning_details_are_joined_in_order() -> None:
    text = {"type": "reasoning.text", "index": 0}
    seal = {"type": "reasoning.encrypted", "index": 1, "data": "gA"}
    said = [{**text, "text": words} for words in ("Let me", " see.", "")]
    pieces = [*said, {**text, "signature": "Ev"}, seal, seal]
    reply = streamed(*(piece(reasoning_details=[each]) for each in pieces), piece(content="Hi"), END)
    reasoning = reply.items[0]
    assert isinstance(reasoning, Reasoning)
    assert reasoning.text == "Let me see."
    assert json.loads(reasoning.encrypted) == {"reasoning_details": [{**text, "text": "Let me see.", "signature": "Ev"}, seal, seal]}


def test_a_stream_that_a_filter_ends_is_a_reply() -> None:
    first = {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}
    taken = {"choices": [{"index": 0, "content_filter_results": {"hate": {"filtered": True}}}], "id": "c", "model": "m"}
    reply = streamed(first, taken, DONE)
    assert (reply.items, reply.finish, reply.model) == ((), "filter", "m")


def test_streamed_further_choices_are_a_loss() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "B"}, "logprobs": None}]}
    reply = streamed(piece(content="A"), other, other, END, DONE)
    assert (reply.items, reply.losses[1:]) == ((Words("A"),), ("1 further choice of the reply: an agent says one thing at a time",))


def test_usage_of_groq_is_read_from_its_member() -> None:
    usage = {"x_groq": {"id": "req_1", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, "choices": []}
    assert streamed(piece(content="A"), END, usage, DONE).usage == Usage(3, 4)


def test_what_is_spoken_is_heard_as_it_comes() -> None:
    heard: list[str] = []
    parts = [{"id": "audio_1", "transcript": "Go"}, {"data": "AA"}, {"transcript": "od"}, {"expires_at": 5}]
    reply = streamed(*(piece(audio=part) for part in parts), END, DONE, heard=heard)
    assert (heard, reply.items[0]) == (["Go", "od"], Words("Good"))
