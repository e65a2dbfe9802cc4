"""How the Chat dialect says no: by the law book, and when the provider fails."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.asks import Ask, Failure
from legato.emulator.minds.base import Say, Use, Words
from tests.emulator.chat.asking import WEATHER, ask, dialect, parsed, wired

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def failed(asked: Ask, kind: str, status: int = 0, **more: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
    refusal = dialect().fail(asked, Failure(kind, status, **more))
    return refusal.status, refusal.body, refusal.headers


def test_a_legal_request_is_not_complained_about() -> None:
    assert dialect().judge(ask()) == ()


def test_calls_without_answers_are_refused_in_the_exact_words() -> None:
    body = {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [CALL]}, {"role": "user", "content": "Well?"}],
    }
    room, asked = dialect(), ask(body)
    refusal = room.refuse(asked, room.judge(asked))
    assert refusal.status == 400
    assert refusal.body == {
        "error": {
            "message": "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
            "The following tool_call_ids did not have response messages: call_1",
            "type": "invalid_request_error",
            "param": "messages.[2].role",
            "code": None,
        }
    }
    assert refusal.headers["x-request-id"].startswith("req_")
    assert [complaint.clause.id for complaint in refusal.complaints] == ["C1"]


def test_an_answer_sent_back_with_its_tools_outputs_is_legal() -> None:
    room, asked = dialect(), ask(tools=[WEATHER])
    completion = parsed(room.answer(asked, Say((Words("Let me see."), Use("get_weather", '{"city": "Oslo"}'), Use("get_weather")))))
    message = completion.choices[0].message
    outputs = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls or ()]
    messages = [*asked.body["messages"], message.model_dump(), *outputs]
    assert room.judge(ask({**asked.body, "messages": messages})) == ()


def test_a_model_that_does_not_exist_is_a_404() -> None:
    room, asked = dialect(), ask({"model": "llama-7", "messages": [{"role": "user", "content": "Hi"}]})
    refusal = room.refuse(asked, room.judge(asked))
    assert (refusal.status, refusal.body["error"]["code"]) == (404, "model_not_found")


def test_more_than_the_window_is_refused_with_the_count() -> None:
    room, asked = dialect(), ask({"model": "gpt-4o", "messages": [{"role": "user", "content": "cat " * 130_000}]})
    refusal = room.refuse(asked, room.judge(asked))
    assert refusal.body["error"]["code"] == "context_length_exceeded"
    assert refusal.body["error"]["message"].startswith(
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130"
    )


def test_an_azure_request_need_not_name_its_model() -> None:
    assert dialect().judge(ask({"messages": [{"role": "user", "content": "Hi"}]}, azure=True, deployment="anything-at-all")) == ()


def test_a_rate_limit_says_when_to_come_back() -> None:
    status, body, headers = failed(ask(), "rate_limit", 429, retry_after=45.175)
    assert status == 429
    assert (body["error"]["type"], body["error"]["code"], body["error"]["param"]) == ("tokens", "rate_limit_exceeded", None)
    assert body["error"]["message"].startswith("Rate limit reached for gpt-4o in organization org-test on tokens per min (TPM): Limit ")
    assert "Please try again in 45.175s. Visit https://platform.openai.com/account/rate-limits to learn more." in body["error"]["message"]
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("46", "45175")
    assert headers["x-ratelimit-remaining-tokens"] == "0"
    assert headers["x-ratelimit-reset-tokens"] == "45.175s"


def test_a_rate_limit_without_a_time_asks_for_a_moment() -> None:
    _, body, headers = failed(ask(), "rate_limit", 429)
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("1", "1")
    assert "Please try again in 1ms." in body["error"]["message"]


def test_a_used_up_quota() -> None:
    status, body, headers = failed(ask(), "quota", 429)
    assert status == 429
    assert (body["error"]["type"], body["error"]["code"]) == ("insufficient_quota", "insufficient_quota")
    assert body["error"]["message"].startswith("You exceeded your current quota, please check your plan and billing details.")
    assert "retry-after" not in headers


def test_a_wrong_key_is_shown_masked_and_without_the_limits() -> None:
    status, body, headers = failed(ask(key="sk-not-a-good-key"), "unauthorized", 401)
    assert (status, body["status"]) == (401, 401)
    assert body["error"] == {
        "message": "Incorrect API key provided: sk-not-a*****-key. You can find your API key at https://platform.openai.com/account/api-keys.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }
    assert not any(name.startswith("x-ratelimit") for name in headers)


def test_a_missing_key_is_said_to_be_missing() -> None:
    _, body, _ = failed(ask(key=""), "unauthorized", 401)
    assert body["error"]["message"].startswith("You didn't provide an API key.")
    assert body["error"]["code"] is None


def test_azure_refuses_a_key_in_its_own_words() -> None:
    status, body, headers = failed(ask(azure=True), "unauthorized", 401)
    assert status == 401
    assert body["error"]["code"] == "401"
    assert body["error"]["message"].startswith("Access denied due to invalid subscription key")
    assert "apim-request-id" in headers


@pytest.mark.parametrize(
    ("kind", "status", "type", "code"),
    [
        ("server_error", 500, "server_error", "server_error"),
        ("server_error", 502, "server_error", "server_error"),
        ("overloaded", 503, "server_error", None),
        ("timeout", 504, "server_error", None),
        ("bad_json", 400, "invalid_request_error", None),
        ("too_large", 413, "invalid_request_error", None),
        ("emulator", 400, "emulator_error", None),
    ],
)
def test_other_failures_have_their_status_and_type(kind: str, status: int, type: str, code: str | None) -> None:
    found, body, _ = failed(ask(), kind, status, message="In these words.")
    assert found == status
    assert body == {"error": {"message": "In these words.", "type": type, "param": None, "code": code}}


def test_a_forced_overflow_names_a_count_above_the_window() -> None:
    status, body, _ = failed(ask(), "context_length", 400)
    assert status == 400
    assert body["error"] == {
        "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 128001 tokens. "
        "Please reduce the length of the messages.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }


def test_the_content_filter_answers_as_azure_does() -> None:
    status, body, _ = failed(ask(azure=True), "content_filter", 400)
    assert status == 400
    assert (body["error"]["code"], body["error"]["param"], body["error"]["type"], body["error"]["status"]) == (
        "content_filter",
        "prompt",
        None,
        400,
    )
    assert body["error"]["innererror"]["code"] == "ResponsibleAIPolicyViolation"
    assert body["error"]["innererror"]["content_filter_result"]["violence"] == {"filtered": True, "severity": "high"}


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("after", [0, 3, 1000])
def test_a_stream_that_fails_ends_with_the_error_and_without_done(after: int, flat: bool) -> None:
    room, asked = dialect(), ask(stream=True)
    answer = room.answer(asked, Say((Words("One two three four five six."),)))
    events = room.fail_stream(asked, answer, Failure("server_error", 500), after, flat)
    kept = min(after, len(answer.events) - 1)
    assert events[:-1] == answer.events[:kept]
    assert wired(events[-1].data)["error"]["type"] == "server_error"
    assert all(event.data != "[DONE]" for event in events)


def test_streams_come_without_the_limits_and_whole_answers_with_them() -> None:
    room, asked = dialect(), ask()
    assert not any(name.startswith("x-ratelimit") for name in room.headers(asked, streams=True))
    headers = room.headers(asked, streams=False)
    assert headers["x-ratelimit-limit-requests"] == "10000"
    assert headers["openai-organization"] == "org-test"
    assert headers["openai-version"] == "2020-10-01"
    assert len(headers["x-request-id"]) == len("req_") + 32


def test_azure_has_headers_of_its_own() -> None:
    headers = dialect().headers(ask(azure=True), streams=False)
    assert headers["x-ratelimit-renewalperiod-tokens"] == "60"
    assert "openai-organization" not in headers
    assert headers["x-request-id"].count("-") == 4


def test_a_refused_model_comes_without_the_limits() -> None:
    room, asked = dialect(), ask({"model": "llama-7", "messages": [{"role": "user", "content": "Hi"}]})
    assert not any(name.startswith("x-ratelimit") for name in room.refuse(asked, room.judge(asked)).headers)


def test_an_overflow_inside_a_stream_says_the_same() -> None:
    room, asked = dialect(), ask(stream=True)
    events = room.fail_stream(asked, room.answer(asked, Say(())), Failure("context_length", 400), 1, False)
    assert wired(events[-1].data) == room.fail(asked, Failure("context_length", 400)).body
