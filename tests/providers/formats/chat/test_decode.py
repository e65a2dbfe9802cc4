"""Decoding of replies of Chat Completions, from OpenAI and from compatible servers."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from legato.core.facts import NO_USAGE, Call, HostedToolUse, OutputText, Reasoning, Refusal, ReplyItem, Usage
from legato.core.model_reply import ModelReply
from legato.errors import ModelFailed
from legato.providers.formats.chat.decode import decode_reply
from legato.providers.formats.encoded_request import EncodedRequest

ENCODED_REQUEST = EncodedRequest(b"{}", {"look_up": "look_up", "Gr_e_1234": "Größe"}, losses=("something",))

OPENAI = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5-2025-08-07",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "One moment.",
                "refusal": None,
                "annotations": [],
                "tool_calls": [{"id": "call_a", "type": "function", "function": {"name": "Gr_e_1234", "arguments": '{"x": 1}'}}],
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 20},
    },
    "service_tier": "default",
}


def test_answer_of_openai_is_decoded() -> None:
    assert decode_reply(OPENAI, ENCODED_REQUEST, "chat there m", "req_1") == ModelReply(
        items=(OutputText("One moment."), Call("Größe", '{"x": 1}', "call_a")),
        usage=Usage(input=100, output=30, cached=64, reasoning=20),
        model="gpt-5-2025-08-07",
        response_id="chatcmpl-1",
        origin="chat there m",
        request_id="req_1",
        losses=("something",),
    )


def message(**members: Any) -> dict[str, Any]:
    """Return a completion with this message only."""
    return {"choices": [{"message": members}]}


def calling(**call: Any) -> dict[str, Any]:
    return message(tool_calls=[call])


CUSTOM = Call("sql", "select", extra='{"type":"custom"}')
LOOK_UP = {"name": "look_up", "arguments": "{}"}


@pytest.mark.parametrize(
    ("body", "items"),
    [
        pytest.param(message(content="Hi"), [OutputText("Hi")], id="a message with words and nothing else"),
        pytest.param(message(content=""), [], id="empty words"),
        pytest.param(message(content=None), [], id="no words"),
        pytest.param(message(content=None, refusal="No."), [Refusal("No.")], id="a refusal"),
        pytest.param(
            message(content="Hi", annotations=[{"type": "url_citation"}]),
            [OutputText("Hi", citations='[{"type":"url_citation"}]')],
            id="words with citations",
        ),
        pytest.param(
            message(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), [OutputText("ab")], id="words in parts"
        ),
        pytest.param(
            message(
                content=[
                    {"type": "thinking", "thinking": [{"type": "text", "text": "H"}, {"type": "text", "text": "m."}]},
                    {"type": "refusal", "refusal": "No."},
                    {"type": "chart", "data": 1},
                    {"type": "text", "text": "a"},
                ]
            ),
            [Reasoning("Hm."), OutputText("a"), Refusal("No."), HostedToolUse("chart", '{"data":1,"type":"chart"}')],
            id="parts of every kind",
        ),
        pytest.param(message(content=["a", 1, None]), [], id="parts that are none"),
        pytest.param(message(content="Hi", reasoning_content="Hm."), [Reasoning("Hm."), OutputText("Hi")], id="reasoning as vLLM has it"),
        pytest.param(message(content="Hi", reasoning="Hm."), [Reasoning("Hm."), OutputText("Hi")], id="reasoning as Ollama has it"),
        pytest.param(
            message(content="Hi", reasoning="Hm.", reasoning_content="Hm."), [Reasoning("Hm."), OutputText("Hi")], id="reasoning twice"
        ),
        pytest.param(message(content="Hi", reasoning={"effort": "low"}), [OutputText("Hi")], id="reasoning that is no text"),
        pytest.param(
            message(audio={"id": "audio_1", "data": "AAAA"}),
            [HostedToolUse("audio", '{"data":"AAAA","id":"audio_1"}', "audio_1")],
            id="audio",
        ),
        pytest.param(calling(id="c", function=LOOK_UP), [Call("look_up", "{}", "c")], id="a call without a type"),
        pytest.param(calling(function=LOOK_UP), [Call("look_up")], id="a call without an id"),
        pytest.param(calling(id=None, function=LOOK_UP), [Call("look_up")], id="a call whose id is null"),
        pytest.param(calling(id=7, function=LOOK_UP), [Call("look_up")], id="a call whose id is a number"),
        pytest.param(
            calling(function={"name": "look_up", "arguments": {"b": 1, "a": 2}}), [Call("look_up", '{"a":2,"b":1}')], id="an object"
        ),
        pytest.param(calling(function={"name": "look_up", "arguments": ""}), [Call("look_up", "{}")], id="empty arguments"),
        pytest.param(calling(function={"name": "look_up"}), [Call("look_up", "{}")], id="no arguments"),
        pytest.param(calling(function={"name": "look_up", "arguments": None}), [Call("look_up", "{}")], id="null for arguments"),
        pytest.param(calling(function={"name": "look_up", "arguments": '{"a'}), [Call("look_up", '{"a')], id="broken arguments"),
        pytest.param(calling(name="look_up", arguments='{"a":1}'), [Call("look_up", '{"a":1}')], id="a flat call"),
        pytest.param(calling(type="custom", custom={"name": "sql", "input": "select"}), [CUSTOM], id="a custom tool"),
        pytest.param(
            calling(type="custom", function={"name": "", "arguments": ""}, custom={"name": "sql", "input": "select"}),
            [CUSTOM],
            id="a custom tool beside an empty function",
        ),
        pytest.param(
            calling(type="function", function=LOOK_UP, custom={"name": "", "input": ""}),
            [Call("look_up")],
            id="a function beside an empty custom tool",
        ),
        pytest.param(calling(type="custom", custom={"name": "sql"}), [replace(CUSTOM, arguments="")], id="a custom tool without input"),
        pytest.param(
            calling(function=LOOK_UP, extra_content={"google": {"thought_signature": "Av=="}}),
            [Call("look_up", extra='{"extra_content":{"google":{"thought_signature":"Av=="}}}')],
            id="a call with a signature",
        ),
        pytest.param(
            message(content="Hi", reasoning="Hm.", reasoning_details=[{"type": "reasoning.text", "text": "Hm.", "signature": "Ev"}]),
            [Reasoning("Hm.", '{"reasoning_details":[{"signature":"Ev","text":"Hm.","type":"reasoning.text"}]}'), OutputText("Hi")],
            id="reasoning with details",
        ),
        pytest.param(
            message(content="Hi", reasoning_details=[{"type": "reasoning.summary", "summary": "Hm."}]),
            [Reasoning("Hm.", '{"reasoning_details":[{"summary":"Hm.","type":"reasoning.summary"}]}'), OutputText("Hi")],
            id="reasoning in details alone",
        ),
        pytest.param(message(content="Hi", provider_specific_fields={"refusal": None}), [OutputText("Hi")], id="fields that say nothing"),
        pytest.param(
            message(content="Hi", executed_tools=[{"type": "search"}]),
            [OutputText("Hi"), HostedToolUse("executed_tools", '{"executed_tools":[{"type":"search"}]}')],
            id="a member that is not known",
        ),
        pytest.param(
            {**message(content="Hi"), "citations": ["https://example.com"]},
            [OutputText("Hi"), HostedToolUse("citations", '{"citations":["https://example.com"]}')],
            id="sources beside the message",
        ),
        pytest.param(
            message(content=None, annotations=[{"type": "file"}]),
            [HostedToolUse("annotations", '{"annotations":[{"type":"file"}]}')],
            id="citations without words",
        ),
        pytest.param(message(content="Hi", audio={"id": "", "data": "", "expires_at": 0}), [OutputText("Hi")], id="audio that is none"),
        pytest.param(
            {"choices": [{"index": 1, "message": {"content": "B"}}, {"index": 0, "message": {"content": "A"}}]},
            [OutputText("A")],
            id="choices out of order",
        ),
        pytest.param(calling(function={"arguments": "{}"}), [Call("")], id="a call of nothing"),
        pytest.param(calling(function={"name": "no_such"}), [Call("no_such")], id="a tool that nobody has"),
        pytest.param(message(content="Hi", tool_calls=[]), [OutputText("Hi")], id="an empty list of calls"),
        pytest.param(message(content="Hi", tool_calls=None), [OutputText("Hi")], id="no list of calls"),
        pytest.param(message(function_call={"name": "look_up", "arguments": "{}"}), [Call("look_up")], id="a call of the old kind"),
    ],
)
def test_replies_of_compatible_servers_are_understood(body: dict[str, Any], items: list[ReplyItem]) -> None:
    reply = decode_reply(body, ENCODED_REQUEST, "o")
    assert reply.items == tuple(items)
    assert (reply.finish, reply.usage, reply.model, reply.response_id) == ("stop", NO_USAGE, "", "")


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("tool_calls", "stop"),
        ("function_call", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("content_filter", "filter"),
        ("SAFETY", "filter"),
        ("eos_token", "stop"),
        ("", "stop"),
        ("null", "stop"),
        (None, "stop"),
    ],
)
def test_finish_reason_is_decoded(reason: str | None, finish: str) -> None:
    body = {"choices": [{"message": {"content": "Hi"}, "finish_reason": reason}]}
    assert decode_reply(body, ENCODED_REQUEST, "o").finish == finish


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, NO_USAGE),
        ({}, NO_USAGE),
        ({"prompt_tokens": 3, "completion_tokens": 4}, Usage(3, 4)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": None}, Usage(3, 4)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "prompt_cache_hit_tokens": 2}, Usage(3, 4, 2)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "cached_tokens": 2}, Usage(3, 4, 2)),
        ({"prompt_tokens": 3, "completion_tokens": 4, "num_cached_tokens": 2}, Usage(3, 4, 2)),
        ({"prompt_tokens": "3", "completion_tokens": -4}, NO_USAGE),
        ("much", NO_USAGE),
    ],
)
def test_usage_is_decoded_as_far_as_reported(usage: Any, expected: Usage) -> None:
    assert decode_reply({**message(content="Hi"), "usage": usage}, ENCODED_REQUEST, "o").usage == expected


FILTERED = {"hate": {"filtered": True, "severity": "high"}, "violence": {"filtered": False, "severity": "safe"}}
SAFE_FILTER_RESULTS = {"hate": {"filtered": False, "severity": "safe"}}


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param({"finish_reason": "content_filter", "content_filter_results": FILTERED}, id="with the reason"),
        pytest.param({"content_filter_results": FILTERED}, id="with what was found"),
        pytest.param({"content_filter_result": FILTERED, "finish_reason": None}, id="under the older name"),
    ],
)
def test_filtered_message_is_still_a_reply(choice: dict[str, Any]) -> None:
    reply = decode_reply({"choices": [{"index": 0, **choice}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}, ENCODED_REQUEST, "o")
    assert (reply.items, reply.finish, reply.usage) == ((), "filter", Usage(3, 4))


def test_filter_results_alone_do_not_end_replies() -> None:
    choice = {"message": {"content": "Hi"}, "finish_reason": "stop", "content_filter_results": SAFE_FILTER_RESULTS}
    body = {"choices": [choice], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": SAFE_FILTER_RESULTS}]}
    assert decode_reply(body, ENCODED_REQUEST, "o").finish == "stop"


def test_finish_reason_may_be_in_details() -> None:
    body = {"choices": [{"message": {"content": "Hi"}, "finish_details": {"type": "max_tokens"}}]}
    assert decode_reply(body, ENCODED_REQUEST, "o").finish == "length"


def test_further_choices_and_logprobs_are_recorded_losses() -> None:
    first = {"index": 0, "message": {"content": "A"}, "logprobs": {"content": [{"token": "A", "logprob": -0.1}], "refusal": None}}
    body = {"choices": [first, {"index": 1, "message": {"content": "B"}}, {"index": 2, "message": {"content": "C"}}]}
    assert decode_reply(body, ENCODED_REQUEST, "o").losses == (
        "something",
        "2 further choices of the reply: an agent uses one choice per reply",
        "logprobs of the reply: they are not recorded",
    )


def test_transcript_of_audio_is_recorded() -> None:
    reply = decode_reply(message(content=None, audio={"id": "audio_1", "data": "AAAA", "transcript": "Hi"}), ENCODED_REQUEST, "o")
    assert reply.items == (OutputText("Hi"), HostedToolUse("audio", '{"data":"AAAA","id":"audio_1","transcript":"Hi"}', "audio_1"))


@pytest.mark.parametrize(
    ("body", "message", "retryable", "reason"),
    [
        pytest.param({"error": {"message": "Busy", "code": 429}}, "429 Busy", True, "", id="a status as code"),
        pytest.param({"error": {"message": "Bad", "code": 400}}, "400 Bad", False, "", id="a status that will not pass"),
        pytest.param({"error": {"message": "Oops", "type": "server_error"}}, "Oops", True, "server_error", id="a server error"),
        pytest.param(
            {"error": {"message": "No", "type": "invalid_request_error", "code": None}}, "No", False, "invalid_request_error", id="refused"
        ),
        pytest.param({"error": {"message": "Paid?", "code": "insufficient_quota"}}, "Paid", False, "insufficient_quota", id="quota"),
        pytest.param({"error": "model is loading"}, "model is loading", True, "", id="an error that is a text"),
        pytest.param({"error": {}, "object": "error", "message": "full", "code": 503}, "503 full", True, "", id="flat"),
        pytest.param({"error": {"x": 1}}, "without saying why", True, "", id="an error that says nothing"),
        pytest.param({"choices": [{"error": {"message": "Gone", "code": 502}}]}, "502 Gone", True, "", id="inside a choice"),
        pytest.param(
            {"choices": [{"message": {"content": "Hal"}, "finish_reason": "error"}]}, "without saying why", True, "", id="as a reason"
        ),
        pytest.param({}, "it has no message", True, "", id="nothing"),
        pytest.param([], "it has no message", True, "", id="no object"),
        pytest.param(None, "it has no message", True, "", id="null"),
        pytest.param({"choices": []}, "it has no message", True, "", id="no choices"),
        pytest.param({"choices": [{}]}, "it has no message", True, "", id="an empty choice"),
        pytest.param(
            {"choices": [{"content_filter_results": SAFE_FILTER_RESULTS}]},
            "it has no message",
            True,
            "",
            id="no message although nothing was filtered",
        ),
        pytest.param({"choices": [{"message": "Hi"}]}, "it has no message", True, "", id="a message that is none"),
    ],
)
def test_failure_bodies_say_whether_to_retry(body: Any, message: str, retryable: bool, reason: str) -> None:
    with pytest.raises(ModelFailed) as failure:
        decode_reply(body, ENCODED_REQUEST, "o", "req_7")
    assert message in failure.value.summary
    assert (failure.value.retryable, failure.value.reason) == (retryable, reason)


def test_failure_names_the_request_id() -> None:
    with pytest.raises(ModelFailed, match="req_7"):
        decode_reply({"error": {"message": "Busy", "code": 429}}, ENCODED_REQUEST, "o", "req_7")


MEMBERS = [
    *("choices", "message", "delta", "content", "tool_calls", "function", "name", "arguments", "id", "index", "usage", "error", "object"),
    *("custom", "extra_content", "reasoning_details", "content_filter_results", "logprobs", "x_groq", "citations"),
    *("type", "text", "code", "finish_reason", "refusal", "reasoning", "audio", "data", "annotations", "prompt_tokens"),
]
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 600), st.text(max_size=4), st.sampled_from(["error", "text", "thinking"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4)),
    max_leaves=30,
)


@given(JSON)
def test_any_json_is_reply_or_model_failure(body: Any) -> None:
    for answer in (
        body,
        {"choices": [{"message": body}]},
        {"choices": [{"message": {"content": body, "tool_calls": body}}], "usage": body},
    ):
        with suppress(ModelFailed):
            assert isinstance(decode_reply(answer, ENCODED_REQUEST, "o"), ModelReply)
