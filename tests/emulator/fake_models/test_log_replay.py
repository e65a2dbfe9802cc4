"""The replay of a recorded log, also for clients with other ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from legato.emulator.exchanges import Exchange, ExchangeLog
from legato.emulator.fake_models import (
    FakeReply,
    FunctionModel,
    LogReplay,
    ModelPrompt,
    PromptMessage,
    ReplyCall,
    ReplyText,
    SupportDesk,
    make_fake_model,
)
from legato.errors import BadInput
from tests.emulator.fake_models.conversations import Agent, make_prompt, make_tool, run_conversation

LOOKUP = make_tool("lookup_order", "Find an order", order_id="string")
AGENTS = {"": Agent("You are the order desk.", (LOOKUP,))}


def write_log(path: Path, *, has_rejection: bool = False) -> None:
    """Write a log as the emulator does, of one conversation with the support desk."""
    log = ExchangeLog(log=path)
    if has_rejection:
        log.add(Exchange(log.next_number(), 0.0, "chat", "/v1/chat/completions", {}, status=400))

    def remember(model_prompt: ModelPrompt) -> FakeReply:
        reply = SupportDesk().reply(model_prompt)
        log.add(Exchange(log.next_number(), 0.0, "chat", "/v1/chat/completions", {}, status=200, prompt=model_prompt, fake_reply=reply))
        return reply

    run_conversation(FunctionModel(remember), "Where is order A-17?", AGENTS, {"lookup_order": "shipped"})
    log.close()


def test_recorded_conversation_is_replayed_exactly(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_log(path, has_rejection=True)
    replay = make_fake_model(path)
    assert isinstance(replay, LogReplay)
    result = run_conversation(replay, "Where is order A-17?", AGENTS, {"lookup_order": "shipped"})
    assert result == run_conversation(SupportDesk(), "Where is order A-17?", AGENTS, {"lookup_order": "shipped"})
    assert repr(replay) == "<replay of log.jsonl: 2 replies>"


def test_different_call_ids_match_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_log(path)
    first = make_prompt("Where is order A-17?", LOOKUP, instructions=AGENTS[""].instructions)
    call = ReplyCall("lookup_order", '{"order_id": "A-17"}', "call_other")
    reply = LogReplay.from_log(path).reply(first)
    text = " ".join(item.text for item in reply.items if isinstance(item, ReplyText))
    messages = (
        *first.messages,
        PromptMessage("assistant", text, (call,)),
        PromptMessage("tool", "shipped", call_id="call_other", tool="lookup_order"),
    )
    again = LogReplay.from_log(path).reply(replace(first, messages=messages, seed=5))
    assert "shipped" in again.items[0].text  # type: ignore[union-attr]  # it can only be text


def test_unknown_text_gets_reply_by_position(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_log(path)
    model_prompt = make_prompt("Where is order B-22?", LOOKUP, instructions=AGENTS[""].instructions)
    assert any(isinstance(item, ReplyCall) and "A-17" in item.arguments for item in LogReplay.from_log(path).reply(model_prompt).items)


def test_same_text_is_preferred_at_a_position(tmp_path: Path) -> None:
    """Of several recorded replies at one position, the one to the same user text is chosen first."""
    path = tmp_path / "log.jsonl"
    lines = [
        {"prompt": msgspec.to_builtins(make_prompt(user_text)), "say": msgspec.to_builtins(FakeReply((ReplyText(f"to {user_text}"),)))}
        for user_text in ("a", "b")
    ]
    path.write_text("\n\n".join(json.dumps(line) for line in lines))
    model_prompt = make_prompt("b", LOOKUP)  # with a tool that the recorded prompt did not have
    assert LogReplay.from_log(path).reply(model_prompt).items == (ReplyText("to b"),)


def test_unmatched_prompt_names_the_closest_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_log(path, has_rejection=True)
    with pytest.raises(BadInput) as caught:
        LogReplay.from_log(path).reply(make_prompt("Where is order A-17?", instructions="You are somebody else."))
    message = str(caught.value)
    assert "log.jsonl has no reply to this prompt" in message
    assert "closest is line 2: 1 message, the last from the user: 'Where is order A-17?'" in message
    assert "You are somebody else." in message


def test_empty_recording_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n")
    with pytest.raises(BadInput, match=r"log\.jsonl has no replies to repeat"):
        LogReplay.from_log(path)
    with pytest.raises(BadInput, match="no replies at all"):
        LogReplay([]).reply(make_prompt("Hello"))


def test_strict_replay_ignores_the_position(tmp_path: Path) -> None:
    """A strict replay takes no reply by position only; another replay notes that it did."""
    path = tmp_path / "log.jsonl"
    write_log(path)
    same, other = (make_prompt(f"Where is order {id}?", LOOKUP, instructions=AGENTS[""].instructions) for id in ("A-17", "B-22"))
    replay, strict = LogReplay.from_log(path), LogReplay.from_log(path, strict=True)
    assert replay.reply(same) == strict.reply(same) == replay.reply(other)
    assert (replay.note(same), replay.note(other)) == ("", "chosen by its position: log.jsonl, line 1")
    with pytest.raises(BadInput, match="has no reply to this prompt"):
        strict.reply(other)


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "5", '{"prompt": {}, "say": {"items": []}}', '{"say": {"items": [{"type": "Sung"}]}}', "\udcff", "[" * 9999],
)
def test_invalid_log_line_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"api": "chat"}\n' + line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(BadInput, match=r"log\.jsonl, line 2: this is no exchange"):
        LogReplay.from_log(path)


def test_missing_log_raises_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the recording cannot be read"):
        make_fake_model(tmp_path / "nothing.jsonl")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200) | st.text().map(str.encode))
def test_any_bytes_load_or_raise_bad_input(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(data)
    try:
        replay: Any = LogReplay.from_log(path)
    except BadInput:
        return
    assert replay.recorded_replies
