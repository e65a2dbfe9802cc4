"""Random requests: every legal one gets a reply, every other one an error."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from legato.emulator.fake_models.base import FakeReply, FakeReplyItem, ReplyCall, ReplyRefusal, ReplyText, ReplyThought
from legato.emulator.request_types import ProviderFailure
from legato.emulator.token_budget import TokenBudget, cut_to_tokens, split_for_stream
from legato.emulator.tokens import count_tokens
from tests.emulator.chat.request_factory import (
    WEATHER,
    accumulate_choices,
    json_roundtrip,
    list_choices,
    make_adapter,
    make_request,
    parse_completion,
)

TEXT = st.text(max_size=30)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
NAME = st.sampled_from(["f", "get_weather", "sql"])
CONTENT = st.none() | TEXT | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}) | JUNK, max_size=3) | JUNK
CALL = st.fixed_dictionaries(
    {"id": TEXT, "type": st.just("function"), "function": st.fixed_dictionaries({"name": NAME, "arguments": TEXT})}
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"])},
    optional={
        "content": CONTENT,
        "tool_calls": st.lists(CALL | JUNK, max_size=2) | JUNK,
        "tool_call_id": TEXT | JUNK,
        "function_call": st.fixed_dictionaries({"name": NAME, "arguments": TEXT}) | JUNK,
        "name": NAME | JUNK,
        "refusal": TEXT | JUNK,
    },
)
PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "stream": st.booleans(),
    "n": st.integers(1, 4),
    "max_tokens": st.integers(1, 30),
    "max_completion_tokens": st.integers(1, 30),
    "stop": TEXT | st.lists(TEXT, max_size=4),
    "tools": st.lists(st.just(WEATHER) | JUNK, max_size=2),
    "functions": st.lists(st.just({"name": "f"}), min_size=1, max_size=2),
    "tool_choice": st.sampled_from(["auto", "none", "required", {"type": "function", "function": {"name": "get_weather"}}]),
    "function_call": st.sampled_from(["auto", {"name": "f"}]) | JUNK,
    "response_format": st.sampled_from([{"type": "text"}, {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}]),
    "stream_options": st.fixed_dictionaries({}, optional={"include_usage": st.booleans(), "include_obfuscation": st.booleans()}),
    "seed": st.integers(),
    "service_tier": st.sampled_from(["auto", "flex"]),
    "reasoning_effort": st.sampled_from(["none", "low"]),
    "metadata": JUNK,
    "store": st.booleans(),
}
BODY = st.fixed_dictionaries(
    {"model": st.sampled_from(["gpt-4o", "gpt-5"]), "messages": st.lists(MESSAGE, min_size=1, max_size=4)},
    optional={name: parameter | JUNK for name, parameter in PARAMETERS.items()},
)
LEGAL = st.fixed_dictionaries(
    {
        "model": st.just("gpt-4o"),
        "messages": st.lists(st.fixed_dictionaries({"role": st.sampled_from(["system", "user"]), "content": TEXT}), min_size=1, max_size=3),
    },
    optional={name: PARAMETERS[name] for name in ("stream", "n", "max_tokens", "stop", "functions", "seed", "service_tier", "store")},
)
ITEM: st.SearchStrategy[FakeReplyItem] = st.one_of(
    TEXT.map(ReplyThought),
    TEXT.map(ReplyText),
    TEXT.map(ReplyRefusal),
    st.builds(ReplyCall, NAME, TEXT | st.just('{"a": 1}'), st.just("") | TEXT),
)
REPLY = st.builds(FakeReply, st.lists(ITEM, max_size=4).map(tuple), st.sampled_from(["stop", "length", "content_filter"]))


@settings(max_examples=300, deadline=None)
@given(body=BODY, fake_reply=REPLY, azure=st.booleans())
@example(
    body={"model": "gpt-4o", "messages": [{"role": "user", "content": "x"}], "tools": [{"custom": []}]},
    fake_reply=FakeReply(()),
    azure=False,
)
def test_any_body_gets_an_encodable_reply(body: dict[str, Any], fake_reply: FakeReply, azure: bool) -> None:
    adapter, request = make_adapter(), make_request(body, is_azure=azure)
    violations = adapter.find_violations(request)
    if violations:
        error_reply = adapter.reply_to_violations(request, violations)
        assert 400 <= error_reply.status < 500
        assert json_roundtrip(error_reply.body)["error"]["message"]
    # Also for violations: with other switches the request may be legal.
    assert len(adapter.make_prompts(request)) >= 1
    reply = adapter.make_reply(request, fake_reply)
    json_roundtrip(reply.body)
    assert all(event.encode() for event in reply.events)
    json_roundtrip(adapter.reply_to_failure(request, ProviderFailure("rate_limit", 429)).body)


@settings(max_examples=200, deadline=None)
@given(body=LEGAL, fake_reply=REPLY)
def test_any_stream_equals_the_whole_reply(body: dict[str, Any], fake_reply: FakeReply) -> None:
    adapter, request = make_adapter(), make_request(body)
    assert adapter.find_violations(request) == ()
    reply = adapter.make_reply(request, fake_reply)
    completion = parse_completion(reply)
    assert accumulate_choices(reply) == list_choices(reply)
    assert completion.usage is not None
    assert completion.usage.total_tokens == completion.usage.prompt_tokens + completion.usage.completion_tokens
    if "max_tokens" in body:
        assert completion.usage.completion_tokens <= body["max_tokens"] * body.get("n", 1)


@given(text=st.text(max_size=200))
def test_pieces_join_to_the_whole_text(text: str) -> None:
    assert "".join(split_for_stream(text)) == text


@settings(deadline=None)
@given(text=st.text(max_size=200), limit=st.integers(0, 40))
def test_cut_text_is_a_fitting_prefix(text: str, limit: int) -> None:
    sent_count = cut_to_tokens(text, limit)
    assert text.startswith(sent_count)
    assert count_tokens(sent_count) <= limit
    assert sent_count == text or count_tokens(text) > limit


def test_spent_budget_gives_nothing_more() -> None:
    budget = TokenBudget(3)
    assert budget.spend("one cat two dogs ran off") == "one cat two"
    assert budget.is_exhausted
    assert budget.spend("more") == ""
    assert budget.spent_tokens == 3


def test_unlimited_budget_is_never_exhausted() -> None:
    budget = TokenBudget(None)
    assert budget.spend("word " * 1000) == "word " * 1000
    assert budget.has_room
