"""What of a message of the Messages API is recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legato.core.facts import Call, Hosted, Reasoning, Refusal, Usage, Words
from legato.core.model_reply import Reply
from legato.core.turn_context import Frame, ToolSpec
from legato.errors import ModelFailed
from legato.providers.formats.anthropic.compile import compile_request
from legato.providers.formats.anthropic.past import binds
from legato.providers.formats.anthropic.read import continued, joined, read_reply, usage_of
from legato.providers.formats.options import Options
from tests.providers.anthropic.talks import BINDS, CITED, Desk, asked, body_of, frame, said, search, thinks, use, words

COMPILED = compile_request(asked(frame("a", "look"), [said(0, "Hi")]), Options(model=BINDS), "o", stream=False)


def read(*content: dict[str, Any], stop: str = "end_turn", **members: Any) -> Reply:
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(content), "stop_reason": stop, **members}
    return read_reply(body, COMPILED, "o", "req_1")


def test_words_thinking_and_calls_are_what_they_are() -> None:
    reply = read(
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "secret"},
        words("Let me look.", citations=CITED),
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"z": 1, "a": [1.0]}, "caller": {"type": "direct"}},
        stop="tool_use",
    )
    assert reply.items[0] == Reasoning("Hm.", "sig")
    assert reply.items[1] == Reasoning(encrypted="secret", redacted=True)
    assert isinstance(reply.items[2], Words)
    assert reply.items[2].text == "Let me look."
    assert json.loads(reply.items[2].notes) == CITED
    assert reply.items[3] == Call("look", '{"z":1,"a":[1.0]}', "toolu_1")
    assert (reply.finish, reply.model, reply.response_id, reply.origin, reply.request_id) == ("stop", "m", "msg_1", "o", "req_1")
    assert not reply.stored
    assert reply.held


def test_a_call_keeps_who_made_it_unless_the_model_did() -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    by_code, by_model = read({**use("t"), "caller": caller, "toolset_name": "computer"}, {**use("u"), "caller": {"type": "direct"}}).items
    assert isinstance(by_code, Call)
    assert isinstance(by_model, Call)
    assert json.loads(by_code.extra) == {"caller": caller, "toolset_name": "computer"}
    assert by_model.extra == ""


def test_what_is_said_of_a_whole_reply_is_recorded_beside_its_items() -> None:
    container = {"id": "container_1", "expires_at": "2026-11-19T12:00:00Z", "skills": None}
    edits = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3, "cleared_input_tokens": 900}]}
    reply = read(words("a"), stop="stop_sequence", stop_sequence="END", container=container, context_management=edits)
    assert json.loads(reply.extra) == {"container": container, "context_management": edits, "stop_sequence": "END"}
    assert read(words("a"), container=None, context_management={"applied_edits": []}, stop_sequence=None).extra == ""


def test_a_tool_has_its_own_name_again() -> None:
    compiled = compile_request(asked(Frame("a", tools=(ToolSpec("Größe"),)), [said(0, "Hi")]), Options(model=BINDS), "o", stream=False)
    (sent,) = compiled.tools
    call = read_reply({"content": [use("t", sent), use("u", "never_declared")]}, compiled, "o").items
    assert [item.tool for item in call if isinstance(item, Call)] == ["Größe", "never_declared"]


def test_empty_texts_are_not_recorded() -> None:
    assert read(words(""), words("a")).items == (Words("a"),)


def test_what_the_provider_did_by_itself_is_kept_as_it_was() -> None:
    unknown = {"type": "a_block_of_tomorrow", "x": 1}
    reply = read(*search(), unknown)
    assert [item.kind for item in reply.items if isinstance(item, Hosted)] == [
        "server_tool_use",
        "web_search_tool_result",
        "a_block_of_tomorrow",
    ]
    assert [json.loads(item.body) for item in reply.items if isinstance(item, Hosted)] == [*search(), unknown]


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
def test_why_it_stopped_is_recorded(stop: str, finish: str) -> None:
    assert read(words("So"), stop=stop).finish == finish


def test_words_of_a_reply_that_was_stopped_are_no_answer_and_its_calls_do_not_run() -> None:
    reply = read(words("I could"), use("t", "look"), stop="refusal")
    assert [type(item) for item in reply.items] == [Refusal, Hosted]


def test_a_reply_that_was_stopped_before_it_began_says_why_if_the_provider_does() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "This is not allowed."}
    assert read(stop="refusal", stop_details=details).items == (Refusal("This is not allowed."),)
    assert read(stop="refusal", stop_details=None).items == ()


def test_input_counts_what_was_read_from_the_cache_and_written_to_it() -> None:
    usage = {
        "input_tokens": 5,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    assert usage_of(usage) == Usage(input=125, output=7, cached=100, reasoning=3, written=20)
    assert usage_of(None) == Usage()


@pytest.mark.parametrize("body", [None, [], {}, {"content": None}, {"content": "text"}])
def test_what_is_no_message_is_a_failure_that_may_pass(body: Any) -> None:
    with pytest.raises(ModelFailed) as failure:
        read_reply(body, COMPILED, "o")
    assert failure.value.retryable


def test_an_error_in_place_of_a_message_is_that_error() -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ModelFailed, match="Overloaded") as failure:
        read_reply(body, COMPILED, "o")
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
def test_odd_blocks_break_nothing(block: Any) -> None:
    assert isinstance(read(block, words("a")), Reply)


@pytest.mark.parametrize(
    ("beside", "counted"),
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
def test_what_was_sampled_beside_the_reply_is_counted_too(beside: Any, counted: Usage) -> None:
    assert usage_of({"input_tokens": 5, "cache_read_input_tokens": 10, "output_tokens": 2, "iterations": [beside]}) == counted


# -- what stood before it ----------------------------------------------------------------------------------------------


def test_a_reply_that_cannot_go_back_as_it_came_is_bound_to_nothing() -> None:
    sig = {"type": "thinking", "thinking": "x", "signature": "s"}
    assert read(sig, words("a")).held
    assert read(words("a"), *search(), use("t", "look", a=1), sig, words("b")).held
    assert not read(words(" "), sig, words("b")).held  # a blank is not sent
    assert not read(search()[0], sig, words("b")).held  # nor a use without its result
    assert read({**use("t"), "caller": {"type": "code_execution_20260120", "tool_id": "x"}}, sig, words("b")).held
    assert not read({**use("t"), "a_member_of_tomorrow": 1}, sig, words("b")).held


def test_the_same_request_is_remembered_by_the_same_digest_and_another_by_another() -> None:
    desk = Desk.of("a", "b").say()
    held = []
    for agent in ("a", "a", "b"):
        desk.ask(agent)
        assert desk.compiled is not None
        held.append(read_reply({"content": [words("x")]}, desk.compiled, "o").held)
    assert held[0] == held[1] != held[2]


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
def test_a_model_binds_unless_it_is_known_not_to(model: str, bound: bool) -> None:
    assert binds(model) is bound


# -- paused turns ------------------------------------------------------------------------------------------------------


def test_a_paused_turn_goes_on_from_what_was_said_and_becomes_one_message() -> None:
    first = {"id": "m1", "content": [thinks(), *search()], "stop_reason": "pause_turn", "usage": {"input_tokens": 5, "output_tokens": 2}}
    second = {
        "id": "m2",
        "content": [words("So.")],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 4, "output_tokens_details": {"thinking_tokens": 1}},
    }
    before, after = body_of(COMPILED), body_of(continued(COMPILED, first))
    assert after["messages"] == [*before["messages"], {"role": "assistant", "content": first["content"]}]
    reply = read_reply(joined(first, second), COMPILED, "o")
    assert [type(item) for item in reply.items] == [Reasoning, Hosted, Hosted, Words]
    assert (reply.finish, reply.response_id) == ("stop", "m2")
    assert reply.usage == Usage(input=18, output=3, cached=4, reasoning=1)


def test_a_paused_turn_goes_on_in_its_container_and_counts_all_that_was_sampled() -> None:
    summed = {"type": "compaction", "input_tokens": 70, "output_tokens": 4}
    first = {
        "content": search(),
        "stop_reason": "pause_turn",
        "container": {"id": "container_1"},
        "usage": {"input_tokens": 5, "output_tokens": 2, "iterations": [summed]},
    }
    second = {"content": [words("So.")], "stop_reason": "end_turn", "container": None, "usage": {"input_tokens": 9, "output_tokens": 1}}
    assert body_of(continued(COMPILED, first))["container"] == "container_1"
    skilled = Options(model=BINDS, extra={"container": {"skills": [{"type": "anthropic", "skill_id": "pptx"}]}})
    compiled = compile_request(asked(frame("a"), [said(0, "Hi")]), skilled, "o", stream=False)
    assert body_of(continued(compiled, first))["container"] == {**skilled.extra["container"], "id": "container_1"}
    reply = read_reply(joined(first, second), COMPILED, "o")
    assert json.loads(reply.extra) == {"container": {"id": "container_1"}}
    assert reply.usage == Usage(input=84, output=7)
