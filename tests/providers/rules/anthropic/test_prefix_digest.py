"""Prefix digests, and thinking that is bound to its prefix: which changes matter, and their effect on handoffs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.emulator.fake_models.base import ReplyCall, ReplyText, ReplyThought
from legato.providers.rules.anthropic.prefix_digest import digest_prefix, digest_reply_prefix, encode_canonical, encode_iteratively
from legato.providers.rules.anthropic.rules import AnthropicRuleSwitches, check_request, list_dropped_thinking
from tests.providers.rules.anthropic.fake_provider import FakeProvider
from tests.providers.rules.anthropic.sample_requests import (
    BINDING_HEADER,
    HELLO,
    VERSION_HEADER,
    make_assistant_message,
    make_request,
    make_text_block,
    make_tool,
    make_tool_result,
    make_tool_use,
    make_user_message,
)

ADAPTIVE_THINKING = {"type": "adaptive"}
DROP_BLOCK_THINKING = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
CACHE_CONTROL = {"cache_control": {"type": "ephemeral"}}


def find_violations(provider: FakeProvider, request: dict[str, Any]) -> list[str]:
    """Return the rule id and the path of each violation."""
    return [f"{each.rule.id} {each.path}" for each in check_request(request, VERSION_HEADER, provider)]


# -- prefix digests ----------------------------------------------------------------------------------------------------

REQUEST = make_request(
    HELLO,
    make_assistant_message(make_text_block("Which one?"), make_tool_use("a")),
    make_user_message(make_tool_result("a")),
    system="You are the desk.",
    tools=[make_tool()],
)


def has_same_prefix(changed: dict[str, Any]) -> bool:
    """Return True if a request has the prefix of `REQUEST`."""
    return digest_reply_prefix(changed, []) == digest_reply_prefix(REQUEST, [])


def with_messages(*messages: Any) -> dict[str, Any]:
    """Return `REQUEST` with other messages."""
    return {**REQUEST, "messages": list(messages)}


FIRST, SECOND, THIRD = REQUEST["messages"]


@pytest.mark.parametrize(
    "changed",
    [
        {**REQUEST, "system": [make_text_block("You are the desk.", **CACHE_CONTROL)]},
        {**REQUEST, "tools": [make_tool(**CACHE_CONTROL)]},
        {**REQUEST, "tools": [make_tool(type="custom")]},
        with_messages(make_user_message(make_text_block("Where is my order?")), SECOND, THIRD),
        with_messages(make_user_message(make_text_block("Where is my order?", **CACHE_CONTROL)), SECOND, THIRD),
        with_messages(
            FIRST,
            make_assistant_message(make_text_block("Which one?", citations=None), make_tool_use("a", caller={"type": "direct"})),
            THIRD,
        ),
        with_messages(FIRST, make_assistant_message(make_text_block("Which one?")), make_assistant_message(make_tool_use("a")), THIRD),
        with_messages(
            FIRST, SECOND, make_user_message(make_tool_result("a", content=[make_text_block("shipped", **CACHE_CONTROL)], is_error=False))
        ),
        with_messages(FIRST, make_user_message(), SECOND, THIRD),
        {**REQUEST, "model": "another", "max_tokens": 1, "temperature": 1, "tool_choice": {"type": "auto"}, "thinking": ADAPTIVE_THINKING},
    ],
    ids=[
        "a system prompt as a block that is cached",
        "a tool that is cached",
        "the type of a custom tool",
        "a content as a block",
        "a content that is cached",
        "members with their defaults",
        "a turn in two messages",
        "a result as blocks",
        "an empty message",
        "settings",
    ],
)
def test_prefix_digest_ignores_equivalent_spellings(changed: dict[str, Any]) -> None:
    assert has_same_prefix(changed)


@pytest.mark.parametrize(
    "changed",
    [
        {**REQUEST, "system": "You are billing."},
        {**REQUEST, "system": None},
        {**REQUEST, "tools": []},
        {**REQUEST, "tools": [make_tool(description="Finds it.")]},
        {**REQUEST, "tools": [make_tool(), make_tool("b")]},
        with_messages(FIRST, SECOND),
        with_messages(FIRST, FIRST, SECOND, THIRD),
        with_messages(FIRST, make_assistant_message(make_tool_use("a"), make_text_block("Which one?")), THIRD),
        with_messages(
            FIRST, make_assistant_message(make_text_block("Which one?"), make_tool_use("b")), make_user_message(make_tool_result("b"))
        ),
        with_messages(FIRST, make_assistant_message(make_text_block("Which one?"), make_tool_use("a", input={"x": 1})), THIRD),
        with_messages(FIRST, SECOND, make_user_message(make_tool_result("a", is_error=True))),
        with_messages({"role": "assistant", "content": FIRST["content"]}, SECOND, THIRD),
    ],
)
def test_prefix_digest_changes_with_model_input(changed: dict[str, Any]) -> None:
    assert not has_same_prefix(changed)


WORD = st.text(max_size=4)
ANY_BLOCK = st.one_of(
    st.builds(make_text_block, WORD),
    st.builds(make_tool_use, WORD, input=st.dictionaries(WORD, st.integers() | st.lists(WORD, max_size=2), max_size=2)),
    st.builds(make_tool_result, WORD),
    st.builds(lambda words: {"type": "thinking", "thinking": words, "signature": words}, WORD),
)
ANY_MESSAGE = st.builds(
    lambda role, content: {"role": role, "content": content}, st.sampled_from(["user", "assistant"]), WORD | st.lists(ANY_BLOCK, max_size=3)
)
ANY_REQUEST = st.builds(
    lambda messages, system: make_request(system=system, tools=[make_tool()]) | {"messages": messages},
    st.lists(ANY_MESSAGE, max_size=4),
    WORD,
)


@given(ANY_REQUEST, st.lists(ANY_BLOCK, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_returned_reply_has_its_original_prefix(request: dict[str, Any], reply: list[dict[str, Any]]) -> None:
    message_index = len(request["messages"])
    returned = {**request, "messages": [*request["messages"], {"role": "assistant", "content": reply}, HELLO]}
    for number in range(len(reply)):
        assert digest_reply_prefix(request, reply[:number]) == digest_prefix(returned, message_index, number)


@given(ANY_REQUEST, st.lists(ANY_BLOCK, min_size=2, max_size=4), st.data())
@settings(max_examples=200, deadline=None)
def test_dropping_a_block_changes_later_prefixes(request: dict[str, Any], reply: list[dict[str, Any]], data: st.DataObject) -> None:
    dropped = data.draw(st.integers(0, len(reply) - 2))
    shorter = [*reply[:dropped], *reply[dropped + 1 :]]
    for number in range(dropped + 1, len(reply)):
        if reply[dropped:number] != shorter[dropped : number - 1]:
            assert digest_reply_prefix(request, reply[:number]) != digest_reply_prefix(request, shorter[: number - 1])


@given(st.recursive(st.none() | st.integers() | st.floats() | WORD, lambda inner: st.lists(inner) | st.dictionaries(WORD, inner)))
@settings(max_examples=200, deadline=None)
def test_iterative_encoding_equals_the_recursive_one(value: Any) -> None:
    assert "".join(encode_iteratively(value)) == encode_canonical(value)


def test_compaction_replaces_the_prefix_before_it() -> None:
    summary = {"type": "compaction", "content": "A customer asks for an order."}
    one = make_request(HELLO, make_assistant_message(summary, make_text_block("Well.")), system="S")
    other = make_request(
        HELLO, make_assistant_message(make_text_block("Hm.")), HELLO, make_assistant_message(summary, make_text_block("Well.")), system="S"
    )
    assert digest_reply_prefix(one, []) == digest_reply_prefix(other, [])
    assert digest_reply_prefix({**one, "system": "T"}, []) != digest_reply_prefix(other, [])
    failed = {"type": "compaction", "content": None}
    assert digest_reply_prefix(make_request(HELLO, make_assistant_message(failed)), []) == digest_reply_prefix(make_request(HELLO), [])


# -- thinking that is bound to its prefix ------------------------------------------------------------------------------

MODEL = "claude-opus-5-5"
DESK_REQUEST = make_request(HELLO, model=MODEL, system="You are the desk.", tools=[make_tool("hand_over")], thinking=ADAPTIVE_THINKING)
BILLING_REQUEST = make_request(HELLO, model=MODEL, system="You are billing.", tools=[make_tool("refund")], thinking=ADAPTIVE_THINKING)


def drop_thinking(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without its thinking."""
    return {**message, "content": [block for block in message["content"] if block["type"] != "thinking"]}


def test_handoff_and_back_keeps_thinking_valid() -> None:
    provider = FakeProvider()
    first = provider.make_reply(DESK_REQUEST, [ReplyThought("This is for billing."), ReplyCall("hand_over", "{}", "toolu_h")])
    handoff_result = make_user_message(make_tool_result("toolu_h", content="Handed over."))

    # The other agent has another system prompt and other tools: the desk's thinking must not be sent.
    assert find_violations(provider, {**BILLING_REQUEST, "messages": [HELLO, first, handoff_result]}) == ["M9 messages.1.content.0"]
    to_b = {**BILLING_REQUEST, "messages": [HELLO, drop_thinking(first), handoff_result]}
    assert find_violations(provider, to_b) == []
    second = provider.make_reply(to_b, [ReplyThought("A refund, then."), ReplyText("You get your money back.")])
    assert find_violations(provider, {**to_b, "messages": [*to_b["messages"], second, HELLO]}) == []

    # Back at the desk, its own thinking is valid again if billing's is left out.
    back = [HELLO, first, handoff_result, drop_thinking(second), make_user_message(make_text_block("Thanks. And my other order?"))]
    assert find_violations(provider, {**DESK_REQUEST, "messages": back}) == []
    included = [HELLO, first, handoff_result, second, make_user_message(make_text_block("Thanks. And my other order?"))]
    assert find_violations(provider, {**DESK_REQUEST, "messages": included}) == ["M9 messages.3.content.0"]

    # New thinking of the desk is bound to a history without billing's thinking.
    third = provider.make_reply({**DESK_REQUEST, "messages": back}, [ReplyThought("Another one."), ReplyText("It is on its way.")])
    assert find_violations(provider, {**DESK_REQUEST, "messages": [*back, third, HELLO]}) == []
    assert find_violations(provider, {**DESK_REQUEST, "messages": [*included, third, HELLO]}) == [
        "M9 messages.3.content.0",
        "M9 messages.5.content.0",
    ]


def test_change_invalidates_only_later_thinking() -> None:
    provider = FakeProvider()
    history = [HELLO]
    for number in range(3):
        reply = provider.make_reply(
            {**DESK_REQUEST, "messages": history}, [ReplyThought(f"Thought {number}."), ReplyText(f"Answer {number}.")]
        )
        history = [*history, reply, {"role": "user", "content": f"Question {number}?"}]
    assert find_violations(provider, {**DESK_REQUEST, "messages": history}) == []
    edited = copy.deepcopy(history)
    edited[2]["content"] = "Another question?"
    assert find_violations(provider, {**DESK_REQUEST, "messages": edited}) == ["M9 messages.3.content.0", "M9 messages.5.content.0"]
    assert find_violations(provider, {**DESK_REQUEST, "messages": [*history[:3], drop_thinking(history[3]), *history[4:]]}) == [
        "M9 messages.5.content.0"
    ]
    assert (
        find_violations(
            provider, {**DESK_REQUEST, "messages": [drop_thinking(each) if each["role"] == "assistant" else each for each in history]}
        )
        == []
    )


def test_thinking_is_bound_to_its_replys_blocks() -> None:
    provider = FakeProvider()
    reply = provider.make_reply(DESK_REQUEST, [ReplyThought("One."), ReplyThought("Two."), ReplyCall("hand_over", "{}", "t1")])
    request = {**DESK_REQUEST, "messages": [HELLO, reply, make_user_message(make_tool_result("t1"))]}
    assert find_violations(provider, request) == []
    swapped = [reply["content"][1], reply["content"][0], reply["content"][2]]
    assert find_violations(
        provider, {**DESK_REQUEST, "messages": [HELLO, {**reply, "content": swapped}, make_user_message(make_tool_result("t1"))]}
    ) == [
        "M9 messages.1.content.0",
        "M9 messages.1.content.1",
    ]
    assert find_violations(
        provider,
        {**DESK_REQUEST, "messages": [HELLO, {**reply, "content": reply["content"][1:]}, make_user_message(make_tool_result("t1"))]},
    ) == ["M9 messages.1.content.0"]


# -- dropped thinking --------------------------------------------------------------------------------------------------

HEADERS = {**VERSION_HEADER, **BINDING_HEADER}


def make_entry(path: str, reason: str, type: str = "thinking_dropped") -> dict[str, str]:
    """Return an entry of `input_transformations`."""
    return {"type": type, "path": path, "reason": reason}


def test_unchanged_thinking_is_not_dropped() -> None:
    provider = FakeProvider()
    reply = provider.make_reply(DESK_REQUEST, [ReplyThought("Hm."), ReplyText("Which one?")])
    assert list_dropped_thinking({**DESK_REQUEST, "messages": [HELLO, reply, HELLO]}, HEADERS, provider) == []


def test_thinking_with_another_prefix_is_dropped() -> None:
    """With the rest of its run, if the request says so."""
    provider = FakeProvider()
    reply = provider.make_reply(
        DESK_REQUEST, [ReplyThought("One."), ReplyThought("Two."), ReplyText("Which one?"), ReplyThought("Three."), ReplyText("Well?")]
    )
    request = {**BILLING_REQUEST, "thinking": DROP_BLOCK_THINKING, "messages": [HELLO, reply, HELLO]}
    assert check_request(request, HEADERS, provider) == []
    assert list_dropped_thinking(request, HEADERS, provider) == [
        make_entry("messages.1.content.0", "prefix_binding_mismatch"),
        make_entry("messages.1.content.1", "prefix_binding_mismatch"),
        make_entry("messages.1.content.3", "prefix_binding_mismatch"),
    ]


def test_thinking_after_a_drop_stays_valid() -> None:
    provider = FakeProvider()
    first = provider.make_reply(DESK_REQUEST, [ReplyThought("One."), ReplyText("Which one?")])
    to_b = {**BILLING_REQUEST, "thinking": DROP_BLOCK_THINKING, "messages": [HELLO, first, HELLO]}
    second = provider.make_reply(to_b, [ReplyThought("Two."), ReplyText("That one.")])
    request = {**to_b, "messages": [*to_b["messages"], second, HELLO]}
    assert check_request(request, HEADERS, provider) == []
    assert list_dropped_thinking(request, HEADERS, provider) == [make_entry("messages.1.content.0", "prefix_binding_mismatch")]


def test_block_binding_needs_its_beta_header() -> None:
    provider = FakeProvider()
    reply = provider.make_reply(DESK_REQUEST, [ReplyThought("One."), ReplyText("Which one?")])
    request = {**BILLING_REQUEST, "thinking": DROP_BLOCK_THINKING, "messages": [HELLO, reply, HELLO]}
    assert find_violations(provider, request) == ["M20b thinking.adaptive.block_binding"]


def test_unreadable_thinking_is_dropped_not_refused() -> None:
    provider = FakeProvider()
    reply = provider.make_reply(DESK_REQUEST, [ReplyThought("One."), ReplyText("Which one?")])
    for model in ("claude-sonnet-5", "claude-sonnet-5-5"):
        request = {**BILLING_REQUEST, "model": model, "messages": [HELLO, reply, HELLO]}
        assert check_request(request, VERSION_HEADER, provider) == []
        assert list_dropped_thinking(request, VERSION_HEADER, provider) == [make_entry("messages.1.content.0", "model_binding_mismatch")]


def test_prefix_binds_other_models_that_read() -> None:
    provider = FakeProvider()
    reply = provider.make_reply(DESK_REQUEST, [ReplyThought("One."), ReplyText("Which one?")])
    messages = [HELLO, reply, HELLO]
    assert list_dropped_thinking({**DESK_REQUEST, "model": "claude-fable-5-1", "messages": messages}, HEADERS, provider) == []
    assert find_violations(provider, {**BILLING_REQUEST, "model": "claude-fable-5-1", "messages": messages}) == ["M9 messages.1.content.0"]
    public = provider.make_reply({**DESK_REQUEST, "model": "claude-haiku-5-5"}, [ReplyThought("One."), ReplyText("Which one?")])
    assert list_dropped_thinking({**DESK_REQUEST, "messages": [HELLO, public, HELLO]}, HEADERS, provider) == []


def test_dated_model_name_is_the_same_model() -> None:
    provider = FakeProvider()
    reply = provider.make_reply({**DESK_REQUEST, "model": "claude-opus-5-5-20260914"}, [ReplyThought("One."), ReplyText("Which one?")])
    assert list_dropped_thinking({**DESK_REQUEST, "messages": [HELLO, reply, HELLO]}, HEADERS, provider) == []


def test_thinking_of_another_account_is_dropped() -> None:
    provider = FakeProvider()
    base = {**DESK_REQUEST, "model": "claude-sonnet-5-5"}
    reply = provider.with_account("account-2").make_reply(base, [ReplyThought("One."), ReplyText("Which one?")])
    request = {**base, "messages": [HELLO, reply, HELLO]}
    assert check_request(request, VERSION_HEADER, provider) == []
    assert list_dropped_thinking(request, VERSION_HEADER, provider) == [make_entry("messages.1.content.0", "organization_binding_mismatch")]


def test_unenforced_prefix_changes_are_only_reported() -> None:
    provider = FakeProvider()
    reply = provider.make_reply(DESK_REQUEST, [ReplyThought("One."), ReplyText("Which one?")])
    request = {**BILLING_REQUEST, "messages": [HELLO, reply, HELLO]}
    old_account = AnthropicRuleSwitches(binding=False)
    assert check_request(request, HEADERS, provider, old_account) == []
    assert list_dropped_thinking(request, HEADERS, provider, old_account) == [
        make_entry("messages.1.content.0", "prefix_binding_mismatch", "thinking_mismatch_allowed")
    ]


def test_other_models_ignore_the_prefix() -> None:
    provider = FakeProvider()
    base = make_request(HELLO, model="claude-haiku-4-5", system="S", thinking={"type": "enabled", "budget_tokens": 1024})
    reply = provider.make_reply(base, [ReplyThought("One."), ReplyText("Which one?")])
    request = {**base, "system": "T", "messages": [HELLO, reply, HELLO]}
    assert check_request(request, VERSION_HEADER, provider) == []
    assert list_dropped_thinking(request, HEADERS, provider) == []


# -- tool loops --------------------------------------------------------------------------------------------------------

ENABLED_THINKING = {"type": "enabled", "budget_tokens": 1024}


def test_tool_loop_may_continue_without_thinking() -> None:
    """If it began with thinking."""
    provider = FakeProvider()
    base = make_request(HELLO, model="claude-haiku-4-5", thinking=ENABLED_THINKING)
    first = provider.make_reply(base, [ReplyThought("Hm."), ReplyCall("find_order", "{}", "t1")])
    longer = [
        HELLO,
        first,
        make_user_message(make_tool_result("t1")),
        make_assistant_message(make_tool_use("t2")),
        make_user_message(make_tool_result("t2")),
    ]
    assert find_violations(provider, {**base, "messages": longer}) == []
    assert find_violations(provider, {**base, "messages": [HELLO, drop_thinking(first), *longer[2:]]}) == ["M6 messages.1.content.0"]


def test_closed_tool_loop_needs_no_thinking() -> None:
    closed = [
        HELLO,
        make_assistant_message(make_tool_use("t1")),
        make_user_message(make_tool_result("t1")),
        make_assistant_message(make_text_block("There.")),
        HELLO,
    ]
    assert find_violations(FakeProvider(), make_request(*closed, model="claude-haiku-4-5", thinking=ENABLED_THINKING)) == []


def test_adaptive_thinking_is_not_required() -> None:
    open_loop = [HELLO, make_assistant_message(make_tool_use("t1")), make_user_message(make_tool_result("t1"))]
    assert find_violations(FakeProvider(), make_request(*open_loop, thinking=ADAPTIVE_THINKING)) == []
