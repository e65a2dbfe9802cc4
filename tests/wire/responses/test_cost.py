"""Judging costs as much as the request is long."""

from __future__ import annotations

import time
from typing import Any

from legato.wire.responses.laws import judge
from tests.wire.responses.lawcase import TOOL, ask, call, output


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


def quickest(request: dict[str, Any], times: int) -> float:
    """Seconds for one judgement, undisturbed."""
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        assert judge(request) == []
        best = min(best, time.process_time() - began)
    return best


def test_ten_times_the_items_cost_about_ten_times_as_much() -> None:
    assert quickest(conversation(1000), 15) / quickest(conversation(100), 60) < 20


def test_a_request_with_a_hundred_thousand_unknown_keys_is_judged_within_a_second() -> None:
    junk = {**ask(), **{f"temperatur{number}": 1 for number in range(100_000)}}
    began = time.process_time()
    judge(junk)
    assert time.process_time() - began < 1
