"""A recorded conversation is said again, also by clients whose ids are others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from legato.emulator.exchanges import Exchange, Exchanges
from legato.emulator.minds import Called, Desk, Heard, Prompt, Replay, Say, Use, Words, mind_from
from legato.errors import BadInput
from tests.emulator.minds.conversations import Agent, prompt, talk, tool

LOOKUP = tool("lookup_order", "Find an order", order_id="string")
AGENTS = {"": Agent("You are the order desk.", (LOOKUP,))}


def recorded(path: Path, *, refused: bool = False) -> None:
    """A log as the emulator writes it, of one conversation with the desk."""
    log = Exchanges(log=path)
    if refused:
        log.add(Exchange(log.number(), 0.0, "chat", "/v1/chat/completions", {}, status=400))

    def remember(asked: Prompt) -> Say:
        say = Desk().reply(asked)
        log.add(Exchange(log.number(), 0.0, "chat", "/v1/chat/completions", {}, status=200, prompt=asked, say=say))
        return say

    talk(Called(remember), "Where is order A-17?", AGENTS, {"lookup_order": "shipped"})
    log.close()


def test_what_was_recorded_is_said_again(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    recorded(path, refused=True)
    replay = mind_from(path)
    assert isinstance(replay, Replay)
    told = talk(replay, "Where is order A-17?", AGENTS, {"lookup_order": "shipped"})
    assert told == talk(Desk(), "Where is order A-17?", AGENTS, {"lookup_order": "shipped"})
    assert repr(replay) == "<replay of log.jsonl: 2 answers>"


def test_other_ids_make_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    recorded(path)
    first = prompt("Where is order A-17?", LOOKUP, instructions=AGENTS[""].instructions)
    use = Use("lookup_order", '{"order_id": "A-17"}', "call_other")
    say = Replay.from_log(path).reply(first)
    words = " ".join(item.text for item in say.items if isinstance(item, Words))
    heard = (*first.heard, Heard("assistant", words, (use,)), Heard("tool", "shipped", call="call_other", tool="lookup_order"))
    again = Replay.from_log(path).reply(replace(first, heard=heard, seed=5))
    assert "shipped" in again.items[0].text  # type: ignore[union-attr]  # it can only be words


def test_other_words_get_the_answer_that_stood_at_their_place(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    recorded(path)
    asked = prompt("Where is order B-22?", LOOKUP, instructions=AGENTS[""].instructions)
    assert any(isinstance(item, Use) and "A-17" in item.arguments for item in Replay.from_log(path).reply(asked).items)


def test_at_one_place_the_answer_to_the_same_words_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = [{"prompt": msgspec.to_builtins(prompt(said)), "say": msgspec.to_builtins(Say((Words(f"to {said}"),)))} for said in ("a", "b")]
    path.write_text("\n\n".join(json.dumps(line) for line in lines))
    asked = prompt("b", LOOKUP)  # with a tool that it did not have when it was recorded
    assert Replay.from_log(path).reply(asked).items == (Words("to b"),)


def test_a_prompt_that_nothing_was_recorded_for_is_told_what_came_closest(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    recorded(path, refused=True)
    with pytest.raises(BadInput) as caught:
        Replay.from_log(path).reply(prompt("Where is order A-17?", instructions="You are somebody else."))
    told = str(caught.value)
    assert "log.jsonl has no answer to this" in told
    assert "closest is line 2: 1 things heard, the last from the user: 'Where is order A-17?'" in told
    assert "You are somebody else." in told


def test_an_empty_recording_says_that_it_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n")
    with pytest.raises(BadInput, match=r"log\.jsonl has no answers to say again"):
        Replay.from_log(path)
    with pytest.raises(BadInput, match="no answers at all"):
        Replay([]).reply(prompt("Hello"))


def test_a_strict_replay_takes_no_answer_by_its_place_and_another_one_says_that_it_did(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    recorded(path)
    same, other = (prompt(f"Where is order {id}?", LOOKUP, instructions=AGENTS[""].instructions) for id in ("A-17", "B-22"))
    replay, strict = Replay.from_log(path), Replay.from_log(path, strict=True)
    assert replay.reply(same) == strict.reply(same) == replay.reply(other)
    assert (replay.note(same), replay.note(other)) == ("", "chosen by its place: log.jsonl, line 1")
    with pytest.raises(BadInput, match="has no answer to this"):
        strict.reply(other)


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "5", '{"prompt": {}, "say": {"items": []}}', '{"say": {"items": [{"type": "Sung"}]}}', "\udcff", "[" * 9999],
)
def test_a_line_that_is_no_exchange_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"api": "chat"}\n' + line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(BadInput, match=r"log\.jsonl, line 2: this is no exchange"):
        Replay.from_log(path)


def test_a_log_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="the recording cannot be read"):
        mind_from(tmp_path / "nothing.jsonl")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200) | st.text().map(str.encode))
def test_any_bytes_are_a_recording_or_bad_input(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(data)
    try:
        replay: Any = Replay.from_log(path)
    except BadInput:
        return
    assert replay.recorded
