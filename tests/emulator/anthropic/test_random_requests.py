"""Random requests: every legal one gets a reply, every other one an error."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from legato.emulator.fake_models.base import FakeReply, FakeReplyItem, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.request_types import ProviderFailure
from tests.emulator.anthropic.request_factory import (
    BETA,
    HEADERS,
    WEATHER,
    accumulate_message,
    json_roundtrip,
    make_adapter,
    make_request,
    parse_message,
)

TEXT = st.text(max_size=30)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ID = st.sampled_from(["t1", "t2", "t3"])
NAME = st.sampled_from(["f", "get_weather"])
BLOCK = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXT | JUNK}),
    st.fixed_dictionaries({"type": st.just("tool_use"), "id": ID, "name": NAME, "input": JUNK}),
    st.fixed_dictionaries({"type": st.just("tool_result"), "tool_use_id": ID, "content": TEXT | JUNK}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXT, "signature": TEXT | JUNK}),
    JUNK,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"])}, optional={"content": TEXT | st.lists(BLOCK, max_size=3) | JUNK}
)
PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "stream": st.booleans(),
    "system": TEXT | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}), max_size=2),
    "stop_sequences": st.lists(st.text(min_size=1, max_size=3), max_size=3),
    "tools": st.lists(st.just(WEATHER), max_size=2),
    "tool_choice": st.sampled_from([{"type": "auto"}, {"type": "any"}, {"type": "none"}, {"type": "tool", "name": "get_weather"}]),
    "thinking": st.sampled_from([{"type": "adaptive"}, {"type": "disabled"}, {"type": "adaptive", "display": "omitted"}]),
    "output_config": st.sampled_from([{"effort": "low"}, {"format": {"type": "json_schema", "schema": {"type": "object"}}}]),
    "metadata": st.just({"user_id": "u"}),
}
BODY = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["claude-sonnet-5", "claude-opus-5-5"]),
        "max_tokens": st.integers(1, 40) | JUNK,
        "messages": st.lists(MESSAGE, min_size=1, max_size=4) | JUNK,
    },
    optional={name: parameter | JUNK for name, parameter in PARAMETERS.items()},
)
LEGAL = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["claude-sonnet-5", "claude-opus-5-5"]),
        "max_tokens": st.integers(1, 40),
        "messages": st.just([{"role": "user", "content": "Hello"}]),
    },
    optional={name: PARAMETERS[name] for name in ("stream", "thinking", "stop_sequences")},
)
ITEM: st.SearchStrategy[FakeReplyItem] = st.one_of(
    TEXT.map(ReplyThought),
    TEXT.map(ReplyText),
    TEXT.map(ReplyRefusal),
    st.builds(ReplyCall, NAME, TEXT | st.just('{"a": 1}'), st.just("") | TEXT),
)
VALID_ITEM: st.SearchStrategy[FakeReplyItem] = st.one_of(
    TEXT.map(ReplyThought),
    TEXT.map(ReplyText),
    TEXT.map(ReplyRefusal),
    st.builds(ReplyCall, NAME, st.sampled_from(["{}", '{"a": "b c d"}', ' {"a": [1, 2]} '])),
)
FINISH = st.sampled_from(["stop", "length", "content_filter"])
HEADER = st.sampled_from([HEADERS, HEADERS | {"anthropic-beta": BETA}, {}])


@settings(max_examples=300, deadline=None)
@given(body=BODY, fake_reply=st.builds(FakeReply, st.lists(ITEM, max_size=4).map(tuple), FINISH), headers=HEADER)
def test_any_body_gets_an_encodable_reply(body: dict[str, Any], fake_reply: FakeReply, headers: dict[str, str]) -> None:
    adapter, request = make_adapter(), make_request(body, headers=headers)
    violations = adapter.find_violations(request)
    if violations:
        error_reply = adapter.reply_to_violations(request, violations)
        assert 400 <= error_reply.status < 500
        assert json_roundtrip(error_reply.body)["error"]["message"]
    else:
        adapter.make_prompt(request)
        reply = adapter.make_reply(request, fake_reply)
        json_roundtrip(reply.body)
        assert all(event.encode() for event in reply.events)
    json_roundtrip(adapter.reply_to_failure(request, ProviderFailure("rate_limit", 429)).body)
    assert adapter.count_tokens(request)[0] in (200, 400, 404)


@settings(max_examples=200, deadline=None)
@given(body=LEGAL, fake_reply=st.builds(FakeReply, st.lists(VALID_ITEM, max_size=4).map(tuple), FINISH))
def test_any_stream_equals_the_whole_reply(body: dict[str, Any], fake_reply: FakeReply) -> None:
    adapter, request = make_adapter(), make_request(body)
    assert adapter.find_violations(request) == ()
    reply = adapter.make_reply(request, fake_reply)
    message = parse_message(reply)
    assert message.usage.output_tokens <= max(body["max_tokens"], 1)
    if message.stop_reason != "max_tokens":  # a cut call is no JSON; its stream has a test of its own
        assert accumulate_message(reply) == json_roundtrip(reply.body)
