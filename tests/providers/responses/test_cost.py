"""Judging costs as much as the request is long."""

from __future__ import annotations

from typing import Any

from legato.providers.rules.responses.laws import judge
from tests.providers.responses.lawcase import TOOL, ask, call, output
from tests.work import count_lines


def conversation(items: int) -> dict[str, Any]:
    """A conversation of so many items, of all the common kinds, with ids and references to things that are not there to be found."""
    history: list[dict[str, Any]] = []
    for turn in range(items // 5):
        thought = {"id": f"rs_{turn}", "type": "reasoning", "summary": [], "encrypted_content": f"gAAAA{turn}"}
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "good day"}
        message = {"id": f"msg_{turn}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
        asked = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}
        history += [asked, thought, message, call(f"call_{turn}", id=f"fc_{turn}"), output(f"call_{turn}")]
    return ask(history, tools=[TOOL])


def work(request: dict[str, Any]) -> int:
    assert judge(request) == []
    return count_lines(lambda: judge(request))


def test_ten_times_the_items_cost_about_ten_times_as_much() -> None:
    assert work(conversation(1000)) < 11 * work(conversation(100))


def junk(keys: int) -> dict[str, Any]:
    return {**ask(), **{f"temperatur{number}": 1 for number in range(keys)}}


def test_ten_times_the_unknown_keys_cost_about_ten_times_as_much() -> None:
    assert count_lines(lambda: judge(junk(10_000))) < 11 * count_lines(lambda: judge(junk(1000)))
