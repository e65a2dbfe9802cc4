"""The cost of checking grows with the length of the request."""

from __future__ import annotations

from typing import Any

from legato.providers.rules.responses.rules import check_request
from tests.line_counter import count_lines
from tests.providers.rules.responses.sample_requests import TOOL, make_call, make_output, make_request


def make_conversation(items: int) -> dict[str, Any]:
    """Return a request with so many items of the common types, with ids that are not stored."""
    history: list[dict[str, Any]] = []
    for turn in range(items // 5):
        reasoning = {"id": f"rs_{turn}", "type": "reasoning", "summary": [], "encrypted_content": f"gAAAA{turn}"}
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": "good day"}
        message = {"id": f"msg_{turn}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
        question = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}
        history += [question, reasoning, message, make_call(f"call_{turn}", id=f"fc_{turn}"), make_output(f"call_{turn}")]
    return make_request(history, tools=[TOOL])


def count_check_lines(request: dict[str, Any]) -> int:
    """Return how many lines of Python the check of a legal request runs."""
    assert check_request(request) == []
    return count_lines(lambda: check_request(request))


def test_cost_is_linear_in_items() -> None:
    assert count_check_lines(make_conversation(1000)) < 11 * count_check_lines(make_conversation(100))


def make_unknown_keys(keys: int) -> dict[str, Any]:
    """Return a request with so many unknown keys."""
    return {**make_request(), **{f"temperatur{number}": 1 for number in range(keys)}}


def test_cost_is_linear_in_unknown_keys() -> None:
    assert count_lines(lambda: check_request(make_unknown_keys(10_000))) < 11 * count_lines(lambda: check_request(make_unknown_keys(1000)))
