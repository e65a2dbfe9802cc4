"""Signatures: what they are bound to, and what becomes of them when it changes."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.beta import BetaMessage

from legato.emulator.asks import Ask
from legato.emulator.minds.base import Say, Thought, Use, Words
from tests.emulator.anthropic.asking import ADAPTIVE, BETA, HEADERS, WEATHER, ask, dialect, parsed, wired

SAY = Say((Thought("The user wants the weather."), Words("Let me look."), Use("get_weather", '{"city": "Oslo"}')))
DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
BOUND = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."


def first(**more: Any) -> Ask:
    return ask(**{"model": "claude-opus-5-5", "tools": [WEATHER], "thinking": ADAPTIVE, "system": "You are Ann."} | more)


def reply(asked: Ask, content: list[dict[str, Any]] | None = None, *, headers: dict[str, str] | None = None, **changed: Any) -> Ask:
    """The next request: what was asked, what was answered, and the tool's result."""
    content = content if content is not None else wired(dialect().answer(asked, SAY).body["content"])
    results = [{"type": "tool_result", "tool_use_id": block["id"], "content": "rain"} for block in content if block["type"] == "tool_use"]
    messages = [*asked.body["messages"], {"role": "assistant", "content": content}, {"role": "user", "content": results}]
    return ask({**asked.body, "messages": messages, **changed}, headers=headers)


def complaint(asked: Ask) -> str:
    room = dialect()
    complaints = room.judge(asked)
    return room.refuse(asked, complaints).body["error"]["message"] if complaints else ""


def test_a_reply_sent_back_as_it_was_is_accepted() -> None:
    assert complaint(reply(first())) == ""


def test_a_reply_sent_back_as_the_sdk_writes_it_is_accepted() -> None:
    asked = first()
    content = parsed(dialect().answer(asked, SAY)).to_param()["content"]
    blocks = [block.model_dump(exclude_none=True) for block in content]  # type: ignore[union-attr]
    assert complaint(reply(asked, blocks)) == ""


def test_a_second_reply_sent_back_is_accepted_with_the_first() -> None:
    second = reply(first())
    assert complaint(reply(second)) == ""


def test_several_thoughts_of_one_reply_are_each_bound_to_what_stood_before_them() -> None:
    asked = first()
    say = Say((Thought("One."), Words("Two."), Thought("Three."), Use("get_weather", '{"city": "Oslo"}')))
    content = wired(dialect().answer(asked, say).body["content"])
    assert complaint(reply(asked, content)) == ""
    assert "signature" in complaint(reply(asked, [content[0], content[2], content[3]]))


def test_a_signature_that_nobody_made_is_refused() -> None:
    content = wired(dialect().answer(first(), SAY).body["content"])
    content[0]["signature"] = content[0]["signature"][:-8] + "AAAAAAA="
    assert complaint(reply(first(), content)) == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_a_signature_of_another_emulator_is_refused() -> None:
    content = wired(dialect(b"another key").answer(first(), SAY).body["content"])
    assert complaint(reply(first(), content)) == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_thinking_that_was_rewritten_is_refused() -> None:
    content = wired(dialect().answer(first(), SAY).body["content"])
    content[0]["thinking"] = "Something else."
    assert "messages.1.content.0" in complaint(reply(first(), content))


@pytest.mark.parametrize(
    "changed", [{"system": "You are Bob."}, {"tools": [WEATHER, {"name": "other", "input_schema": {"type": "object"}}]}]
)
def test_thinking_is_refused_in_another_frame(changed: dict[str, Any]) -> None:
    assert complaint(reply(first(), **changed)).startswith(BOUND)


def test_thinking_is_refused_after_another_question() -> None:
    asked = reply(first())
    asked.body["messages"][0] = {"role": "user", "content": "Another question"}
    assert complaint(asked).startswith(BOUND)


def test_a_frame_that_comes_back_makes_its_thinking_valid_again() -> None:
    asked = reply(first(), system="You are Bob.")
    assert complaint(asked) != ""
    assert complaint(ask({**asked.body, "system": "You are Ann."})) == ""


def test_models_without_preserved_thinking_do_not_mind_another_frame() -> None:
    assert complaint(reply(first(model="claude-sonnet-5"), system="You are Bob.")) == ""


def test_thinking_of_another_frame_can_be_dropped_and_is_reported() -> None:
    headers = HEADERS | {"anthropic-beta": BETA}
    asked = reply(first(), headers=headers, system="You are Bob.", thinking=DROP)
    assert complaint(asked) == ""
    answer = dialect().answer(asked, Say((Words("Rain."),)))
    message = BetaMessage.model_validate(wired(answer.body), strict=True)
    assert [change.model_dump() for change in message.input_transformations or ()] == [
        {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
    ]
    kept = dialect().answer(reply(first(), headers=headers, thinking=DROP), Say((Words("Rain."),)))
    assert kept.body["input_transformations"] == []
    assert kept.body["usage"]["input_tokens"] > answer.body["usage"]["input_tokens"]
    assert wired(answer.events[0].data)["message"]["input_transformations"] == answer.body["input_transformations"]
