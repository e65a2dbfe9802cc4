"""Signatures of thinking blocks, and the errors when their context changes."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.beta import BetaMessage

from legato.emulator.fake_models.base import FakeReply, ReplyCall, ReplyText, ReplyThought
from legato.emulator.request_types import EmulatorRequest
from tests.emulator.anthropic.request_factory import (
    ADAPTIVE,
    BETA,
    HEADERS,
    WEATHER,
    json_roundtrip,
    make_adapter,
    make_request,
    parse_message,
)

REPLY = FakeReply((ReplyThought("The user wants the weather."), ReplyText("Let me look."), ReplyCall("get_weather", '{"city": "Oslo"}')))
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BOUND_MESSAGE = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."


def make_first_request(**more: Any) -> EmulatorRequest:
    return make_request(**{"model": "claude-opus-5-5", "tools": [WEATHER], "thinking": ADAPTIVE, "system": "You are Ann."} | more)


def make_next_request(
    request: EmulatorRequest, content: list[dict[str, Any]] | None = None, *, headers: dict[str, str] | None = None, **changed: Any
) -> EmulatorRequest:
    """Return the next request: the messages, the reply, and the tool's result."""
    content = content if content is not None else json_roundtrip(make_adapter().make_reply(request, REPLY).body["content"])
    results = [{"type": "tool_result", "tool_use_id": block["id"], "content": "rain"} for block in content if block["type"] == "tool_use"]
    messages = [*request.body["messages"], {"role": "assistant", "content": content}, {"role": "user", "content": results}]
    return make_request({**request.body, "messages": messages, **changed}, headers=headers)


def find_error_message(request: EmulatorRequest) -> str:
    adapter = make_adapter()
    violations = adapter.find_violations(request)
    return adapter.reply_to_violations(request, violations).body["error"]["message"] if violations else ""


def test_unchanged_reply_is_accepted() -> None:
    assert find_error_message(make_next_request(make_first_request())) == ""


def test_reply_encoded_by_sdk_is_accepted() -> None:
    request = make_first_request()
    content = parse_message(make_adapter().make_reply(request, REPLY)).to_param()["content"]
    blocks = [block.model_dump(exclude_none=True) for block in content]  # type: ignore[union-attr]
    assert find_error_message(make_next_request(request, blocks)) == ""


def test_two_replies_sent_back_are_accepted() -> None:
    second = make_next_request(make_first_request())
    assert find_error_message(make_next_request(second)) == ""


def test_each_thought_is_bound_to_its_prefix() -> None:
    request = make_first_request()
    fake_reply = FakeReply((ReplyThought("One."), ReplyText("Two."), ReplyThought("Three."), ReplyCall("get_weather", '{"city": "Oslo"}')))
    content = json_roundtrip(make_adapter().make_reply(request, fake_reply).body["content"])
    assert find_error_message(make_next_request(request, content)) == ""
    assert "signature" in find_error_message(make_next_request(request, [content[0], content[2], content[3]]))


def test_forged_signature_is_rejected() -> None:
    content = json_roundtrip(make_adapter().make_reply(make_first_request(), REPLY).body["content"])
    content[0]["signature"] = content[0]["signature"][:-8] + "AAAAAAA="
    assert (
        find_error_message(make_next_request(make_first_request(), content))
        == "messages.1.content.0: Invalid `signature` in `thinking` block"
    )


def test_signature_of_another_emulator_is_rejected() -> None:
    content = json_roundtrip(make_adapter(b"another key").make_reply(make_first_request(), REPLY).body["content"])
    assert (
        find_error_message(make_next_request(make_first_request(), content))
        == "messages.1.content.0: Invalid `signature` in `thinking` block"
    )


def test_rewritten_thinking_is_rejected() -> None:
    content = json_roundtrip(make_adapter().make_reply(make_first_request(), REPLY).body["content"])
    content[0]["thinking"] = "Something else."
    assert "messages.1.content.0" in find_error_message(make_next_request(make_first_request(), content))


@pytest.mark.parametrize(
    "changed", [{"system": "You are Bob."}, {"tools": [WEATHER, {"name": "other", "input_schema": {"type": "object"}}]}]
)
def test_thinking_in_another_context_is_rejected(changed: dict[str, Any]) -> None:
    assert find_error_message(make_next_request(make_first_request(), **changed)).startswith(BOUND_MESSAGE)


def test_thinking_after_another_question_is_rejected() -> None:
    request = make_next_request(make_first_request())
    request.body["messages"][0] = {"role": "user", "content": "Another question"}
    assert find_error_message(request).startswith(BOUND_MESSAGE)


def test_restored_context_validates_its_thinking() -> None:
    request = make_next_request(make_first_request(), system="You are Bob.")
    assert find_error_message(request) != ""
    assert find_error_message(make_request({**request.body, "system": "You are Ann."})) == ""


def test_older_models_accept_another_context() -> None:
    assert find_error_message(make_next_request(make_first_request(model="claude-sonnet-5"), system="You are Bob.")) == ""


def test_dropped_thinking_is_reported() -> None:
    headers = HEADERS | {"anthropic-beta": BETA}
    request = make_next_request(make_first_request(), headers=headers, system="You are Bob.", thinking=DROP)
    assert find_error_message(request) == ""
    reply = make_adapter().make_reply(request, FakeReply((ReplyText("Rain."),)))
    message = BetaMessage.model_validate(json_roundtrip(reply.body), strict=True)
    assert [change.model_dump() for change in message.input_transformations or ()] == [
        {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
    ]
    sent_count = make_adapter().make_reply(
        make_next_request(make_first_request(), headers=headers, thinking=DROP), FakeReply((ReplyText("Rain."),))
    )
    assert sent_count.body["input_transformations"] == []
    assert sent_count.body["usage"]["input_tokens"] > reply.body["usage"]["input_tokens"]
    assert json_roundtrip(reply.events[0].data)["message"]["input_transformations"] == reply.body["input_transformations"]
