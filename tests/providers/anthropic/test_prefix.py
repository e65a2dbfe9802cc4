"""Thinking is bound to what stood before it: what changes the prefix, what does not, and what that means for handing over."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.emulator.minds.base import Thought, Use, Words
from legato.providers.rules.anthropic.laws import Profile, dropped_thinking, judge
from legato.providers.rules.anthropic.prefix import prefix_digest, reply_prefix_digest, spelled, spelled_flat
from tests.providers.anthropic.world import BINDING, HELLO, VERSION, World, ask, assistant, result, text, tool, use, user

ADAPTIVE = {"type": "adaptive"}
DROPS = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
CACHE = {"cache_control": {"type": "ephemeral"}}


def clauses(world: World, request: dict[str, Any], **headers: str) -> list[str]:
    return [f"{each.clause.id} {each.path}" for each in judge(request, {**VERSION, **headers}, world)]


# -- what is the same prefix -------------------------------------------------------------------------------------------

REQUEST = ask(HELLO, assistant(text("Which one?"), use("a")), user(result("a")), system="You are the desk.", tools=[tool()])


def same(changed: dict[str, Any]) -> bool:
    return reply_prefix_digest(changed, []) == reply_prefix_digest(REQUEST, [])


def with_messages(*messages: Any) -> dict[str, Any]:
    return {**REQUEST, "messages": list(messages)}


FIRST, SECOND, THIRD = REQUEST["messages"]


@pytest.mark.parametrize(
    "changed",
    [
        {**REQUEST, "system": [text("You are the desk.", **CACHE)]},
        {**REQUEST, "tools": [tool(**CACHE)]},
        {**REQUEST, "tools": [tool(type="custom")]},
        with_messages(user(text("Where is my order?")), SECOND, THIRD),
        with_messages(user(text("Where is my order?", **CACHE)), SECOND, THIRD),
        with_messages(FIRST, assistant(text("Which one?", citations=None), use("a", caller={"type": "direct"})), THIRD),
        with_messages(FIRST, assistant(text("Which one?")), assistant(use("a")), THIRD),
        with_messages(FIRST, SECOND, user(result("a", content=[text("shipped", **CACHE)], is_error=False))),
        with_messages(FIRST, user(), SECOND, THIRD),
        {**REQUEST, "model": "another", "max_tokens": 1, "temperature": 1, "tool_choice": {"type": "auto"}, "thinking": ADAPTIVE},
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
def test_it_is_the_same_prefix_if_the_model_saw_the_same(changed: dict[str, Any]) -> None:
    assert same(changed)


@pytest.mark.parametrize(
    "changed",
    [
        {**REQUEST, "system": "You are billing."},
        {**REQUEST, "system": None},
        {**REQUEST, "tools": []},
        {**REQUEST, "tools": [tool(description="Finds it.")]},
        {**REQUEST, "tools": [tool(), tool("b")]},
        with_messages(FIRST, SECOND),
        with_messages(FIRST, FIRST, SECOND, THIRD),
        with_messages(FIRST, assistant(use("a"), text("Which one?")), THIRD),
        with_messages(FIRST, assistant(text("Which one?"), use("b")), user(result("b"))),
        with_messages(FIRST, assistant(text("Which one?"), use("a", input={"x": 1})), THIRD),
        with_messages(FIRST, SECOND, user(result("a", is_error=True))),
        with_messages({"role": "assistant", "content": FIRST["content"]}, SECOND, THIRD),
    ],
)
def test_it_is_another_prefix_if_the_model_saw_something_else(changed: dict[str, Any]) -> None:
    assert not same(changed)


WORD = st.text(max_size=4)
ANY_BLOCK = st.one_of(
    st.builds(text, WORD),
    st.builds(use, WORD, input=st.dictionaries(WORD, st.integers() | st.lists(WORD, max_size=2), max_size=2)),
    st.builds(result, WORD),
    st.builds(lambda words: {"type": "thinking", "thinking": words, "signature": words}, WORD),
)
ANY_MESSAGE = st.builds(
    lambda role, content: {"role": role, "content": content}, st.sampled_from(["user", "assistant"]), WORD | st.lists(ANY_BLOCK, max_size=3)
)
ANY_REQUEST = st.builds(
    lambda messages, system: ask(system=system, tools=[tool()]) | {"messages": messages}, st.lists(ANY_MESSAGE, max_size=4), WORD
)


@given(ANY_REQUEST, st.lists(ANY_BLOCK, min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_a_reply_that_comes_back_has_the_prefix_it_was_made_under(request: dict[str, Any], reply: list[dict[str, Any]]) -> None:
    place = len(request["messages"])
    sent = {**request, "messages": [*request["messages"], {"role": "assistant", "content": reply}, HELLO]}
    for number in range(len(reply)):
        assert reply_prefix_digest(request, reply[:number]) == prefix_digest(sent, place, number)


@given(ANY_REQUEST, st.lists(ANY_BLOCK, min_size=2, max_size=4), st.data())
@settings(max_examples=200, deadline=None)
def test_leaving_out_any_block_changes_the_prefix_of_all_after_it(
    request: dict[str, Any], reply: list[dict[str, Any]], data: st.DataObject
) -> None:
    left = data.draw(st.integers(0, len(reply) - 2))
    shorter = [*reply[:left], *reply[left + 1 :]]
    for number in range(left + 1, len(reply)):
        if reply[left:number] != shorter[left : number - 1]:
            assert reply_prefix_digest(request, reply[:number]) != reply_prefix_digest(request, shorter[: number - 1])


@given(st.recursive(st.none() | st.integers() | st.floats() | WORD, lambda inner: st.lists(inner) | st.dictionaries(WORD, inner)))
@settings(max_examples=200, deadline=None)
def test_what_is_spelled_without_recursion_is_spelled_the_same(value: Any) -> None:
    assert "".join(spelled_flat(value)) == spelled(value)


def test_a_compaction_stands_for_all_before_it() -> None:
    summary = {"type": "compaction", "content": "A customer asks for an order."}
    one = ask(HELLO, assistant(summary, text("Well.")), system="S")
    other = ask(HELLO, assistant(text("Hm.")), HELLO, assistant(summary, text("Well.")), system="S")
    assert reply_prefix_digest(one, []) == reply_prefix_digest(other, [])
    assert reply_prefix_digest({**one, "system": "T"}, []) != reply_prefix_digest(other, [])
    failed = {"type": "compaction", "content": None}
    assert reply_prefix_digest(ask(HELLO, assistant(failed)), []) == reply_prefix_digest(ask(HELLO), [])


# -- what that means for thinking --------------------------------------------------------------------------------------

MODEL = "claude-opus-5-5"
A = ask(HELLO, model=MODEL, system="You are the desk.", tools=[tool("hand_over")], thinking=ADAPTIVE)
B = ask(HELLO, model=MODEL, system="You are billing.", tools=[tool("refund")], thinking=ADAPTIVE)


def stripped(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "content": [block for block in message["content"] if block["type"] != "thinking"]}


def test_handing_over_and_back_keeps_the_first_agents_thinking_valid() -> None:
    world = World()
    first = world.reply(A, [Thought("This is for billing."), Use("hand_over", "{}", "toolu_h")])
    done = user(result("toolu_h", content="Handed over."))

    # The other agent's frame is another: the desk's thinking must not go along.
    assert clauses(world, {**B, "messages": [HELLO, first, done]}) == ["M9 messages.1.content.0"]
    to_b = {**B, "messages": [HELLO, stripped(first), done]}
    assert clauses(world, to_b) == []
    second = world.reply(to_b, [Thought("A refund, then."), Words("You get your money back.")])
    assert clauses(world, {**to_b, "messages": [*to_b["messages"], second, HELLO]}) == []

    # Back at the desk: its own thinking is valid again as long as billing's is left out.
    back = [HELLO, first, done, stripped(second), user(text("Thanks. And my other order?"))]
    assert clauses(world, {**A, "messages": back}) == []
    included = [HELLO, first, done, second, user(text("Thanks. And my other order?"))]
    assert clauses(world, {**A, "messages": included}) == ["M9 messages.3.content.0"]

    # What the desk thinks now is bound to a history without billing's thinking.
    third = world.reply({**A, "messages": back}, [Thought("Another one."), Words("It is on its way.")])
    assert clauses(world, {**A, "messages": [*back, third, HELLO]}) == []
    assert clauses(world, {**A, "messages": [*included, third, HELLO]}) == ["M9 messages.3.content.0", "M9 messages.5.content.0"]


def test_a_change_makes_that_block_and_every_later_one_invalid_but_not_earlier_ones() -> None:
    world = World()
    history = [HELLO]
    for number in range(3):
        reply = world.reply({**A, "messages": history}, [Thought(f"Thought {number}."), Words(f"Answer {number}.")])
        history = [*history, reply, {"role": "user", "content": f"Question {number}?"}]
    assert clauses(world, {**A, "messages": history}) == []
    edited = copy.deepcopy(history)
    edited[2]["content"] = "Another question?"
    assert clauses(world, {**A, "messages": edited}) == ["M9 messages.3.content.0", "M9 messages.5.content.0"]
    assert clauses(world, {**A, "messages": [*history[:3], stripped(history[3]), *history[4:]]}) == ["M9 messages.5.content.0"]
    assert clauses(world, {**A, "messages": [stripped(each) if each["role"] == "assistant" else each for each in history]}) == []


def test_thinking_within_a_loop_of_tools_is_bound_to_the_blocks_of_its_own_reply() -> None:
    world = World()
    reply = world.reply(A, [Thought("One."), Thought("Two."), Use("hand_over", "{}", "t1")])
    sent = {**A, "messages": [HELLO, reply, user(result("t1"))]}
    assert clauses(world, sent) == []
    swapped = [reply["content"][1], reply["content"][0], reply["content"][2]]
    assert clauses(world, {**A, "messages": [HELLO, {**reply, "content": swapped}, user(result("t1"))]}) == [
        "M9 messages.1.content.0",
        "M9 messages.1.content.1",
    ]
    assert clauses(world, {**A, "messages": [HELLO, {**reply, "content": reply["content"][1:]}, user(result("t1"))]}) == [
        "M9 messages.1.content.0"
    ]


# -- what is dropped ---------------------------------------------------------------------------------------------------

HEADERS = {**VERSION, **BINDING}


def entry(path: str, reason: str, type: str = "thinking_dropped") -> dict[str, str]:
    return {"type": type, "path": path, "reason": reason}


def test_an_accepted_request_whose_thinking_is_in_order_drops_nothing() -> None:
    world = World()
    reply = world.reply(A, [Thought("Hm."), Words("Which one?")])
    assert dropped_thinking({**A, "messages": [HELLO, reply, HELLO]}, HEADERS, world) == []


def test_thinking_whose_prefix_has_changed_is_dropped_with_the_rest_of_its_run_where_the_request_says_so() -> None:
    world = World()
    reply = world.reply(A, [Thought("One."), Thought("Two."), Words("Which one?"), Thought("Three."), Words("Well?")])
    sent = {**B, "thinking": DROPS, "messages": [HELLO, reply, HELLO]}
    assert judge(sent, HEADERS, world) == []
    assert dropped_thinking(sent, HEADERS, world) == [
        entry("messages.1.content.0", "prefix_binding_mismatch"),
        entry("messages.1.content.1", "prefix_binding_mismatch"),
        entry("messages.1.content.3", "prefix_binding_mismatch"),
    ]


def test_a_request_that_goes_on_after_a_drop_makes_thinking_that_stays_valid() -> None:
    world = World()
    first = world.reply(A, [Thought("One."), Words("Which one?")])
    to_b = {**B, "thinking": DROPS, "messages": [HELLO, first, HELLO]}
    second = world.reply(to_b, [Thought("Two."), Words("That one.")])
    sent = {**to_b, "messages": [*to_b["messages"], second, HELLO]}
    assert judge(sent, HEADERS, world) == []
    assert dropped_thinking(sent, HEADERS, world) == [entry("messages.1.content.0", "prefix_binding_mismatch")]


def test_without_the_beta_header_there_is_no_such_setting() -> None:
    world = World()
    reply = world.reply(A, [Thought("One."), Words("Which one?")])
    sent = {**B, "thinking": DROPS, "messages": [HELLO, reply, HELLO]}
    assert clauses(world, sent) == ["M20b thinking.adaptive.block_binding"]


def test_thinking_that_the_model_may_not_read_is_dropped_and_not_refused() -> None:
    world = World()
    reply = world.reply(A, [Thought("One."), Words("Which one?")])
    for model in ("claude-sonnet-5", "claude-sonnet-5-5"):
        sent = {**B, "model": model, "messages": [HELLO, reply, HELLO]}
        assert judge(sent, VERSION, world) == []
        assert dropped_thinking(sent, VERSION, world) == [entry("messages.1.content.0", "model_binding_mismatch")]


def test_a_model_that_may_read_anothers_thinking_is_bound_by_its_prefix() -> None:
    world = World()
    reply = world.reply(A, [Thought("One."), Words("Which one?")])
    messages = [HELLO, reply, HELLO]
    assert dropped_thinking({**A, "model": "claude-fable-5-1", "messages": messages}, HEADERS, world) == []
    assert clauses(world, {**B, "model": "claude-fable-5-1", "messages": messages}) == ["M9 messages.1.content.0"]
    unlocked = world.reply({**A, "model": "claude-haiku-5-5"}, [Thought("One."), Words("Which one?")])
    assert dropped_thinking({**A, "messages": [HELLO, unlocked, HELLO]}, HEADERS, world) == []


def test_a_dated_name_of_a_model_is_the_same_model() -> None:
    world = World()
    reply = world.reply({**A, "model": "claude-opus-5-5-20260914"}, [Thought("One."), Words("Which one?")])
    assert dropped_thinking({**A, "messages": [HELLO, reply, HELLO]}, HEADERS, world) == []


def test_thinking_of_another_account_is_dropped() -> None:
    world = World()
    frame = {**A, "model": "claude-sonnet-5-5"}
    reply = world.as_account("account-2").reply(frame, [Thought("One."), Words("Which one?")])
    sent = {**frame, "messages": [HELLO, reply, HELLO]}
    assert judge(sent, VERSION, world) == []
    assert dropped_thinking(sent, VERSION, world) == [entry("messages.1.content.0", "organization_binding_mismatch")]


def test_where_nobody_enforces_it_a_changed_prefix_is_only_reported() -> None:
    world = World()
    reply = world.reply(A, [Thought("One."), Words("Which one?")])
    sent = {**B, "messages": [HELLO, reply, HELLO]}
    older = Profile(binding=False)
    assert judge(sent, HEADERS, world, older) == []
    assert dropped_thinking(sent, HEADERS, world, older) == [
        entry("messages.1.content.0", "prefix_binding_mismatch", "thinking_mismatch_allowed")
    ]


def test_models_without_preserved_thinking_do_not_look_at_the_prefix() -> None:
    world = World()
    frame = ask(HELLO, model="claude-haiku-4-5", system="S", thinking={"type": "enabled", "budget_tokens": 1024})
    reply = world.reply(frame, [Thought("One."), Words("Which one?")])
    sent = {**frame, "system": "T", "messages": [HELLO, reply, HELLO]}
    assert judge(sent, VERSION, world) == []
    assert dropped_thinking(sent, HEADERS, world) == []


# -- loops of tools ----------------------------------------------------------------------------------------------------

ENABLED = {"type": "enabled", "budget_tokens": 1024}


def test_a_loop_that_began_with_thinking_may_go_on_without() -> None:
    world = World()
    frame = ask(HELLO, model="claude-haiku-4-5", thinking=ENABLED)
    first = world.reply(frame, [Thought("Hm."), Use("find_order", "{}", "t1")])
    longer = [HELLO, first, user(result("t1")), assistant(use("t2")), user(result("t2"))]
    assert clauses(world, {**frame, "messages": longer}) == []
    assert clauses(world, {**frame, "messages": [HELLO, stripped(first), *longer[2:]]}) == ["M6 messages.1.content.0"]


def test_a_loop_that_is_closed_needs_no_thinking() -> None:
    closed = [HELLO, assistant(use("t1")), user(result("t1")), assistant(text("There.")), HELLO]
    assert clauses(World(), ask(*closed, model="claude-haiku-4-5", thinking=ENABLED)) == []


def test_thinking_that_may_be_skipped_is_not_asked_for() -> None:
    open_loop = [HELLO, assistant(use("t1")), user(result("t1"))]
    assert clauses(World(), ask(*open_loop, thinking=ADAPTIVE)) == []
