"""Thinking is replayed to the Messages API as far as the rules allow, and no further."""

from __future__ import annotations

from typing import Any

from legato.core.facts import Call, HostedToolUse, OutputText
from legato.core.model_reply import ModelReply
from legato.providers.formats.anthropic.content_blocks import encode_reply
from legato.providers.formats.anthropic.encode import encode_request
from legato.providers.formats.anthropic.thinking_replay import PREFIX_CHANGED
from legato.providers.formats.loss_reasons import OTHER_MODEL_ONLY, REFUSED_BY_PROVIDER
from legato.providers.formats.request_options import RequestOptions
from tests.providers.formats.anthropic.conversations import (
    CITATIONS,
    REDACTED_THINKING,
    UNBOUND_MODEL,
    Conversation,
    find_blocks,
    find_thinking,
    make_message_group,
    make_origin,
    make_reply_group,
    make_request,
    make_turn_context,
    search_blocks,
    text_block,
    thinking_block,
    tool_use_block,
)


def test_thinking_is_replayed_within_a_turn_context() -> None:
    conversation = Conversation.between("a").add_message()
    conversation.add_turn("a", thinking_block("one"), REDACTED_THINKING, tool_use_block("t1"))
    conversation.add_turn("a", thinking_block("two"), text_block("Done."))
    body = conversation.add_message("More").encode_request("a")
    assert find_thinking(body) == ["one", "two"]
    assert len(find_blocks(body, "redacted_thinking")) == 1
    assert conversation.last_request is not None
    assert conversation.last_request.has_reasoning
    assert conversation.last_request.losses == ()


def test_bound_thinking_returns_after_two_handoffs() -> None:
    conversation = Conversation.between("a", "b").add_message()
    conversation.add_turn("a", thinking_block("a1"), tool_use_block("t1"))
    assert find_thinking(conversation.add_turn("b", thinking_block("b1"), tool_use_block("t2"))) == []
    assert find_thinking(conversation.add_turn("b", thinking_block("b2"), tool_use_block("t3"))) == ["b1"]
    assert find_thinking(conversation.add_turn("a", thinking_block("a2"), tool_use_block("t4"))) == ["a1"]
    assert find_thinking(conversation.add_turn("a", thinking_block("a3"), text_block("Done."))) == ["a1", "a2"]
    assert find_thinking(conversation.add_message("On").encode_request("b")) == ["b1", "b2"]
    assert find_thinking(conversation.encode_request("a")) == ["a1", "a2", "a3"]


def test_loss_is_recorded_only_with_the_first_reply() -> None:
    conversation = Conversation.between("a", "b").add_message()
    conversation.add_turn("a", thinking_block("a1"), tool_use_block("t1"))
    losses = []
    for number in range(2):
        conversation.add_turn("b", thinking_block("b"), tool_use_block(f"b{number}"))
        assert conversation.groups[-1].fact is not None
        losses.append(conversation.groups[-1].fact.losses)
    assert losses == [(f"reasoning of a: {PREFIX_CHANGED}",), ()]


def test_changed_turn_context_drops_bound_thinking() -> None:
    conversation = Conversation.between("a").add_message()
    conversation.add_turn("a", thinking_block("a1"), text_block("Hi."))
    conversation.add_message("More")
    conversation.contexts["a"] = make_turn_context("a", "tool_of_a", instructions="It is Tuesday.")
    assert find_thinking(conversation.encode_request("a")) == []
    conversation.contexts["a"] = make_turn_context("a", "tool_of_a", "another_tool")
    assert find_thinking(conversation.encode_request("a")) == []
    conversation.contexts["a"] = make_turn_context("a", "tool_of_a")
    assert find_thinking(conversation.encode_request("a")) == ["a1"]


def test_changed_history_drops_only_later_thinking() -> None:
    conversation = Conversation.between("a").add_message("One")
    conversation.add_turn("a", thinking_block("a1"), text_block("First."))
    conversation.add_message("Two")
    conversation.add_turn("a", thinking_block("a2"), text_block("Second."))
    conversation.add_message("Three")
    assert find_thinking(conversation.encode_request("a")) == ["a1", "a2"]
    assert find_thinking(conversation.encode_request("a", view=[*conversation.groups[:2], *conversation.groups[3:]])) == ["a1"]
    assert find_thinking(conversation.encode_request("a", view=conversation.groups[1:])) == []


def test_unbound_thinking_is_replayed_to_its_model() -> None:
    conversation = Conversation.between("a", "b", model=UNBOUND_MODEL, effort=None, thinking_tokens=1024).add_message()
    conversation.add_turn("a", thinking_block("a1"), tool_use_block("t1"))
    body = conversation.add_turn("b", thinking_block("b1"), tool_use_block("t2"))
    assert find_thinking(body) == ["a1"]
    assert body["thinking"]["type"] == "enabled"
    assert find_thinking(conversation.encode_request("a")) == ["a1", "b1"]


def test_thinking_of_another_model_is_dropped() -> None:
    conversation = Conversation.between("a", "b")
    conversation.models["b"] = RequestOptions(model="claude-sonnet-5", effort="low")
    conversation.add_message().add_turn("a", thinking_block("a1"), tool_use_block("t1"))
    assert find_thinking(conversation.encode_request("b")) == []
    assert conversation.last_request is not None
    assert conversation.last_request.losses == (f"reasoning of a: {OTHER_MODEL_ONLY}",)


def test_budgeted_thinking_cannot_start_within_a_loop() -> None:
    conversation = Conversation.between("a", "b", effort=None, thinking_tokens=1024).add_message()
    conversation.add_turn("a", thinking_block("a1"), tool_use_block("t1"))
    assert conversation.add_turn("b", text_block("Let me see."), tool_use_block("t2"))["thinking"] == {"type": "disabled"}
    assert conversation.last_request is not None
    assert any(loss.startswith("thinking of b: off") for loss in conversation.last_request.losses)
    body = conversation.add_message("And?").add_turn("b", tool_use_block("t3"))
    assert body["thinking"] == {"type": "disabled"}  # the user's text is in the same message as the result
    conversation.add_turn("b", text_block("Done."))
    assert conversation.add_message("Thanks").encode_request("b")["thinking"]["type"] == "enabled"


def test_refused_thinking_is_not_replayed_again() -> None:
    conversation = Conversation.between("a").add_message()
    conversation.add_turn("a", thinking_block("a1"), tool_use_block("t1"))
    body = conversation.add_turn("a", thinking_block("a2"), tool_use_block("t2"), with_reasoning=False)
    assert find_thinking(body) == []
    assert conversation.last_request is not None
    assert conversation.last_request.losses == (f"reasoning of a: {REFUSED_BY_PROVIDER}",)
    assert find_thinking(conversation.add_turn("a", thinking_block("a3"), text_block("Done."))) == ["a2"]
    assert find_thinking(conversation.add_message("More").encode_request("a")) == ["a2", "a3"]


def test_disabled_replay_drops_all_thinking() -> None:
    conversation = Conversation.between("a", replay_reasoning=False).add_message()
    conversation.add_turn("a", thinking_block("a1"), tool_use_block("t1"))
    assert find_thinking(conversation.encode_request("a")) == []
    assert conversation.last_request is not None
    assert not conversation.last_request.has_reasoning


def test_trailing_thinking_is_left_out() -> None:
    conversation = Conversation.between("a").add_message()
    conversation.add_turn("a", text_block("So"), thinking_block("cut"))
    assert [block["type"] for _, block in find_blocks(conversation.add_message("Go on").encode_request("a"))] == ["text", "text", "text"]


def test_thinking_after_a_replaced_id_is_omitted() -> None:
    conversation = Conversation.between("a").add_message()
    conversation.add_turn("a", thinking_block("one"), tool_use_block("same"))
    conversation.add_turn("a", thinking_block("two"), tool_use_block("same"), thinking_block("three"), tool_use_block("other"))
    assert find_thinking(conversation.encode_request("a")) == ["one"]


def test_searches_and_citations_return_to_their_model_only() -> None:
    conversation = Conversation.between("a", "b").add_message()
    conversation.add_turn(
        "a",
        thinking_block("one"),
        *search_blocks(),
        thinking_block("two"),
        text_block("Found it.", citations=CITATIONS),
        tool_use_block("t1"),
    )
    body = conversation.encode_request("a")
    assert find_thinking(body) == ["one", "two"]
    assert [block["type"] for role, block in find_blocks(body) if role == "assistant"] == [
        "thinking",
        "server_tool_use",
        "web_search_tool_result",
        "thinking",
        "text",
        "tool_use",
    ]
    assert find_blocks(body, "text")[1][1]["citations"] == CITATIONS
    other = conversation.encode_request("b")
    assert [block["type"] for role, block in find_blocks(other) if role == "assistant"] == ["text", "tool_use"]
    assert "citations" not in find_blocks(other, "text")[1][1]
    assert conversation.last_request is not None
    assert [loss.partition(":")[0] for loss in conversation.last_request.losses] == [
        "reasoning of a",
        "server_tool_use of a",
        "web_search_tool_result of a",
        "citations of a",
    ]


def test_search_without_a_result_is_not_replayed() -> None:
    conversation = Conversation.between("a").add_message()
    conversation.add_turn("a", search_blocks()[0], text_block("I was cut"))
    assert [block["type"] for role, block in find_blocks(conversation.add_message("Go on").encode_request("a")) if role == "assistant"] == [
        "text"
    ]


def test_hosted_items_of_other_providers_are_losses() -> None:
    reply = ModelReply(
        items=(HostedToolUse("web_search_call", '{"type":"web_search_call"}'), OutputText("So.")), origin="responses x gpt-5"
    )
    groups = [make_message_group(0, "Hi"), make_reply_group(3, "a", reply), make_message_group(6, "Well?")]
    options = RequestOptions(model="claude-sonnet-5")
    request = encode_request(make_request(make_turn_context("a"), groups), options, make_origin(options), stream=False)
    assert request.losses == ("web_search_call of a: only the provider that ran it accepts it back",)


# -- code in the provider's container ----------------------------------------------------------------------------------

CODE_TOOL = {"type": "code_execution_20260120", "name": "code_execution"}
CODE_USE = {"type": "server_tool_use", "id": "srv_1", "name": "code_execution", "input": {"code": "x = handoff()"}}
CODE_RESULT = {"type": "code_execution_tool_result", "tool_use_id": "srv_1", "content": {"type": "code_execution_result", "stdout": "7"}}
BY_CODE = {"caller": {"type": "code_execution_20260120", "tool_id": "srv_1"}}


def find_assistant_blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for role, block in find_blocks(body) if role == "assistant"]


def test_next_request_reuses_the_container() -> None:
    conversation = Conversation.between("a", "b", hosted=(CODE_TOOL,)).add_message()
    assert "container" not in conversation.add_turn("a", text_block("One."), container="container_1")
    assert conversation.add_message().add_turn("a", text_block("Two."))["container"] == "container_1"
    assert conversation.add_message().add_turn("b", text_block("Three."), container="container_2")["container"] == "container_1"
    assert conversation.add_message().encode_request("a")["container"] == "container_2"
    assert "container" not in conversation.encode_request("a", reuse_container=False)
    assert conversation.last_request is not None
    assert conversation.last_request.losses == (f"container of a: {REFUSED_BY_PROVIDER}",)


def test_container_needs_its_model_and_code_tools() -> None:
    conversation = Conversation.between("a", "b", hosted=(CODE_TOOL,)).add_message()
    conversation.add_turn("a", text_block("One."), container="container_1")
    conversation.models["b"] = RequestOptions(model="claude-sonnet-5", hosted=(CODE_TOOL,))
    assert "container" not in conversation.add_message().encode_request("b")
    conversation.models["b"] = RequestOptions(model=conversation.models["a"].model)
    assert "container" not in conversation.encode_request("b")


def test_container_of_the_caller_takes_precedence() -> None:
    skills = [{"type": "anthropic", "skill_id": "pptx"}]
    for requested, expected in (
        ("mine", "mine"),
        ({"skills": skills}, {"skills": skills, "id": "container_1"}),
        ({"id": "mine"}, {"id": "mine"}),
    ):
        conversation = Conversation.between("a", hosted=(CODE_TOOL,), extra={"container": requested}).add_message()
        assert conversation.add_turn("a", text_block("One."), container="container_1")["container"] == requested
        assert conversation.add_message().encode_request("a")["container"] == expected


def test_waiting_code_resumes_with_the_output() -> None:
    """The call comes from code that has no result yet: both are replayed verbatim, and the result comes with the next reply."""
    conversation = Conversation.between("a", hosted=(CODE_TOOL,)).add_message()
    conversation.add_turn("a", text_block("Let me see."), CODE_USE, tool_use_block("t1") | BY_CODE, container="container_1")
    body = conversation.encode_request("a")
    assert find_assistant_blocks(body) == [text_block("Let me see."), CODE_USE, tool_use_block("t1") | BY_CODE]
    assert body["container"] == "container_1"
    conversation.add_turn("a", CODE_RESULT, text_block("Seven."))
    assert find_assistant_blocks(conversation.add_message().encode_request("a"))[3:] == [CODE_RESULT, text_block("Seven.")]


def test_abandoned_code_is_not_replayed() -> None:
    conversation = Conversation.between("a", "b", hosted=(CODE_TOOL,)).add_message()
    conversation.add_turn("a", CODE_USE, tool_use_block("t1") | BY_CODE, container="container_1")
    conversation.add_turn("b", text_block("I take over."))
    assert [block["type"] for block in find_assistant_blocks(conversation.add_message().encode_request("a"))] == ["tool_use", "text"]
    conversation.add_turn("a", text_block("Back."))
    assert [block["type"] for block in find_assistant_blocks(conversation.add_message().encode_request("a"))] == [
        "tool_use",
        "text",
        "text",
    ]


def test_code_without_a_container_is_not_replayed() -> None:
    conversation = Conversation.between("a", hosted=(CODE_TOOL,)).add_message()
    conversation.add_turn("a", thinking_block("one"), CODE_USE, tool_use_block("t1") | BY_CODE)
    assert find_assistant_blocks(conversation.encode_request("a")) == [tool_use_block("t1")]
    conversation = Conversation.between("a", hosted=(CODE_TOOL,)).add_message()
    conversation.add_turn("a", CODE_USE, tool_use_block("t1") | BY_CODE, container="container_1")
    assert find_assistant_blocks(conversation.encode_request("a", reuse_container=False)) == [tool_use_block("t1")]


def test_waiting_search_resumes_with_the_output() -> None:
    use, result = search_blocks()
    conversation = Conversation.between("a").add_message()
    conversation.add_turn("a", use, tool_use_block("t1"))
    assert find_assistant_blocks(conversation.encode_request("a")) == [use, tool_use_block("t1")]
    conversation.add_turn("a", thinking_block("Aha."), result, thinking_block("Hm."), text_block("So."))
    body = conversation.add_message().encode_request("a")
    assert result in find_assistant_blocks(body)
    assert find_thinking(body) == ["Aha.", "Hm."]


def test_other_agents_get_calls_without_their_code() -> None:
    conversation = Conversation.between("a", "b", hosted=(CODE_TOOL,)).add_message()
    conversation.add_turn("a", CODE_USE, tool_use_block("t1") | BY_CODE, container="container_1")
    conversation.add_turn("a", CODE_RESULT, text_block("Seven."))
    assert find_assistant_blocks(conversation.add_message().encode_request("b")) == [tool_use_block("t1"), text_block("Seven.")]


def test_code_without_a_replayable_result_is_omitted() -> None:
    conversation = Conversation.between("a", hosted=(CODE_TOOL,)).add_message()
    conversation.add_turn("a", CODE_USE, tool_use_block("t1") | BY_CODE, container="container_1")
    conversation.add_turn(
        "a", CODE_RESULT | {"tool_use_id": "srv_1"}, {"type": "container_upload"} | {"cache_control": "odd"}, text_block("Seven.")
    )
    assert find_assistant_blocks(conversation.add_message().encode_request("a")) == [tool_use_block("t1"), text_block("Seven.")]


def test_recorded_members_cannot_replace_the_call() -> None:
    forged = Call("handoff", "{}", "t1", extra='{"id": "t9", "caller": {"type": "direct"}}')
    odd = Call("handoff", "{}", "t2", extra="no JSON")
    blocks = encode_reply([forged, odd], "a", 3, [])
    assert [(block["id"], "caller" in block) for block in blocks] == [("t1", True), ("t2", False)]


def test_output_names_the_toolset_of_its_call() -> None:
    conversation = Conversation.between("a").add_message()
    conversation.add_turn("a", tool_use_block("t1") | {"toolset_name": "computer"})
    ((_, result),) = find_blocks(conversation.encode_request("a"), "tool_result")
    assert result["toolset_name"] == "computer"


def test_provider_summary_is_replayed_unchanged() -> None:
    summary = {"type": "compaction", "content": "They want a teapot.", "encrypted_content": "c2VhbA=="}
    conversation = Conversation.between("a", "b").add_message()
    conversation.add_turn("a", summary, text_block("A teapot, then."))
    assert find_assistant_blocks(conversation.add_message().encode_request("a")) == [summary, text_block("A teapot, then.")]
    assert find_assistant_blocks(conversation.encode_request("b")) == [text_block("A teapot, then.")]
