"""How the Anthropic dialect says no: by the law book, and when the provider fails."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.asks import Failure
from legato.emulator.minds.base import Say, Words
from tests.emulator.anthropic.asking import HEADERS, WEATHER, ask, dialect, wired


def test_a_legal_request_is_not_complained_about() -> None:
    assert dialect().judge(ask()) == ()


def test_calls_without_results_are_refused_in_the_exact_words() -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}]},
        {"role": "user", "content": "Well?"},
    ]
    room, asked = dialect(), ask(messages=messages, tools=[WEATHER])
    refusal = room.refuse(asked, room.judge(asked))
    assert refusal.status == 400
    assert refusal.body == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        },
        "request_id": refusal.headers["request-id"],
    }
    assert refusal.headers["request-id"].startswith("req_011C")
    assert len(refusal.headers["request-id"]) == 28


def test_a_model_that_does_not_exist_is_a_404() -> None:
    room, asked = dialect(), ask(model="gpt-4o")
    refusal = room.refuse(asked, room.judge(asked))
    assert (refusal.status, refusal.body["error"]) == (404, {"type": "not_found_error", "message": "model: gpt-4o"})


def test_more_than_the_window_is_refused_with_the_count() -> None:
    room, asked = dialect(), ask(model="claude-sonnet-4-6", messages=[{"role": "user", "content": "cat " * 210_000}])
    refusal = room.refuse(asked, room.judge(asked))
    assert refusal.body["error"]["message"].startswith("prompt is too long: 210")
    assert refusal.body["error"]["message"].endswith(" tokens > 200000 maximum")


def test_a_request_without_a_version_is_refused() -> None:
    room, asked = dialect(), ask(headers={"x-api-key": "k"})
    assert "anthropic-version: header is required" in room.refuse(asked, room.judge(asked)).body["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "given", "status", "type", "words"),
    [
        ("rate_limit", 429, 429, "rate_limit_error", "This request would exceed your organization's rate limit"),
        ("overloaded", 503, 529, "overloaded_error", "Overloaded"),
        ("server_error", 500, 500, "api_error", "Internal server error"),
        ("server_error", 502, 502, "api_error", "Internal server error"),
        ("timeout", 504, 504, "timeout_error", "Request timed out"),
        ("unauthorized", 401, 401, "authentication_error", "invalid x-api-key"),
        ("too_large", 413, 413, "request_too_large", "Request exceeds the maximum size"),
        ("quota", 429, 400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
        ("content_filter", 400, 400, "invalid_request_error", "Output blocked by content filtering policy"),
        ("context_length", 400, 400, "invalid_request_error", "prompt is too long: 1000001 tokens > 1000000 maximum"),
        ("bad_json", 400, 400, "invalid_request_error", "invalid request"),
    ],
)
def test_a_failure_has_its_status_and_its_type(kind: str, given: int, status: int, type: str, words: str) -> None:
    refusal = dialect().fail(ask(), Failure(kind, given))
    assert refusal.status == status
    assert refusal.body["type"] == "error"
    assert refusal.body["error"]["type"] == type
    assert refusal.body["error"]["message"].startswith(words)
    assert refusal.body["request_id"] == refusal.headers["request-id"]


def test_a_failure_may_have_words_of_its_own() -> None:
    assert dialect().fail(ask(), Failure("overloaded", 529, "Come back later.")).body["error"]["message"] == "Come back later."


def test_a_missing_key_is_said_to_be_missing() -> None:
    refusal = dialect().fail(ask(headers={}), Failure("unauthorized", 401))
    assert refusal.body["error"] == {"type": "authentication_error", "message": "x-api-key header is required"}
    assert not any(name.startswith("anthropic-ratelimit") for name in refusal.headers)


def test_a_rate_limit_says_when_to_come_back_and_what_is_left() -> None:
    headers = dialect().fail(ask(), Failure("rate_limit", 429, retry_after=2.2)).headers
    assert headers["retry-after"] == "3"
    assert headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert headers["anthropic-ratelimit-input-tokens-reset"] == "2026-09-21T14:13:22Z"


def test_every_answer_says_what_is_left() -> None:
    headers = dialect().headers(ask(), streams=True)
    kinds = ("requests", "tokens", "input-tokens", "output-tokens")
    assert {f"anthropic-ratelimit-{kind}-{what}" for kind in kinds for what in ("limit", "remaining", "reset")} <= headers.keys()
    assert headers["request-id"].startswith("req_011C")
    assert headers["anthropic-organization-id"].count("-") == 4
    assert "retry-after" not in headers


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("after", [0, 3, 1000])
def test_a_stream_that_fails_ends_with_an_error_event(after: int, flat: bool) -> None:
    room, asked = dialect(), ask(stream=True)
    answer = room.answer(asked, Say((Words("One two three four five six."),)))
    events = room.fail_stream(asked, answer, Failure("overloaded", 529), after, flat)
    kept = min(after, len(answer.events) - 1)
    assert events[:-1] == answer.events[:kept]
    assert events[-1].encode() == b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'


def counted(**body: Any) -> tuple[int, dict[str, Any]]:
    return dialect().count_tokens(ask({"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "Hello"}], **body}))


def test_tokens_are_counted_without_a_limit_for_the_answer() -> None:
    status, body = counted()
    assert status == 200
    assert body == {"input_tokens": dialect().answer(ask(), Say(())).body["usage"]["input_tokens"]}
    assert counted(tools=[WEATHER], system="Be brief.")[1]["input_tokens"] > body["input_tokens"]


def test_a_budget_for_thinking_is_counted_whatever_the_model_may_write() -> None:
    for model in ("claude-sonnet-5", "claude-sonnet-4-5"):
        for budget in (1024, 63_999, 64_000, 200_000):
            assert counted(model=model, thinking={"type": "enabled", "budget_tokens": budget})[0] == 200
    assert counted(thinking={"type": "enabled", "budget_tokens": 10})[0] == 400


def test_what_is_about_the_answer_counts_as_left_out_if_it_is_null() -> None:
    assert counted(max_tokens=None, stream=None, temperature=None) == counted()


def test_what_is_about_the_answer_is_not_counted_but_refused() -> None:
    for name, value in {"max_tokens": 10, "stream": True, "temperature": 0.5}.items():
        status, body = counted(**{name: value})
        assert (status, body["error"]["message"]) == (400, f"{name}: Extra inputs are not permitted")


def test_a_request_to_count_is_judged_like_any_other() -> None:
    status, body = counted(messages=[])
    assert (status, body["error"]["message"]) == (400, "messages: at least one message is required")
    assert body["request_id"].startswith("req_011C")
    assert counted(model="gpt-4o")[0] == 404
    assert wired(counted(bogus_field=1)[1])["error"]["message"] == "bogus_field: Extra inputs are not permitted"
    assert dialect().count_tokens(ask({}, headers=HEADERS))[0] == 400
