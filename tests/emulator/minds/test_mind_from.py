"""A mind is made from whatever people write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from legato.emulator.minds import Called, Desk, Prompt, Queue, Rule, Say, Script, Words, mind_from
from legato.errors import BadInput
from tests.emulator.minds.conversations import prompt


class Own:
    def reply(self, asked: Prompt) -> Say:
        return Say((Words("mine"),))


def test_nothing_is_the_desk() -> None:
    assert isinstance(mind_from(None), Desk)
    assert isinstance(mind_from(), Desk)
    assert isinstance(mind_from("desk"), Desk)


def test_a_mind_is_itself() -> None:
    for mind in (Own(), Desk(), Script([]), Queue([])):
        assert mind_from(mind) is mind


def test_a_function_is_called() -> None:
    mind = mind_from(lambda asked: f"heard {asked.said}")
    assert isinstance(mind, Called)
    assert mind.reply(prompt("Hello")).items == (Words("heard Hello"),)


def test_a_list_is_a_queue_of_replies_or_a_script_of_rules() -> None:
    assert isinstance(mind_from(["one", ["two", Words("three")]]), Queue)
    assert isinstance(mind_from((Rule(say="x"),)), Script)


@pytest.mark.parametrize("value", [5, "desk.txt", "", Path("script"), {"rules": []}, Own, b"desk", 1.5, True, "a\0.yaml", "a\0.jsonl"])
def test_anything_else_is_refused_with_what_is_allowed(value: Any) -> None:
    with pytest.raises(BadInput):
        mind_from(value)


def test_a_list_with_something_that_cannot_be_said_names_its_place() -> None:
    with pytest.raises(BadInput, match="reply number 2 is nothing that can be said"):
        mind_from(["one", 2])
