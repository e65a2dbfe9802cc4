"""The errors, headers and token counts of the Anthropic adapter."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.fake_models.base import FakeReply, ReplyText
from legato.emulator.request_types import ProviderFailure
from tests.emulator.anthropic.request_factory import HEADERS, WEATHER, json_roundtrip, make_adapter, make_request


def test_legal_request_has_no_violations() -> None:
    assert make_adapter().find_violations(make_request()) == ()


def test_calls_without_results_get_exact_error() -> None:
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}]},
        {"role": "user", "content": "Well?"},
    ]
    adapter, request = make_adapter(), make_request(messages=messages, tools=[WEATHER])
    error_reply = adapter.reply_to_violations(request, adapter.find_violations(request))
    assert error_reply.status == 400
    assert error_reply.body == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        },
        "request_id": error_reply.headers["request-id"],
    }
    assert error_reply.headers["request-id"].startswith("req_011C")
    assert len(error_reply.headers["request-id"]) == 28


def test_unknown_model_is_a_404() -> None:
    adapter, request = make_adapter(), make_request(model="gpt-4o")
    error_reply = adapter.reply_to_violations(request, adapter.find_violations(request))
    assert (error_reply.status, error_reply.body["error"]) == (404, {"type": "not_found_error", "message": "model: gpt-4o"})


def test_too_long_input_error_has_token_count() -> None:
    adapter, request = make_adapter(), make_request(model="claude-sonnet-4-6", messages=[{"role": "user", "content": "cat " * 210_000}])
    error_reply = adapter.reply_to_violations(request, adapter.find_violations(request))
    assert error_reply.body["error"]["message"].startswith("prompt is too long: 210")
    assert error_reply.body["error"]["message"].endswith(" tokens > 200000 maximum")


def test_request_without_version_is_rejected() -> None:
    adapter, request = make_adapter(), make_request(headers={"x-api-key": "k"})
    assert (
        "anthropic-version: header is required"
        in adapter.reply_to_violations(request, adapter.find_violations(request)).body["error"]["message"]
    )


@pytest.mark.parametrize(
    ("kind", "failure_status", "status", "type", "message"),
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
def test_failure_has_its_status_and_type(kind: str, failure_status: int, status: int, type: str, message: str) -> None:
    error_reply = make_adapter().reply_to_failure(make_request(), ProviderFailure(kind, failure_status))
    assert error_reply.status == status
    assert error_reply.body["type"] == "error"
    assert error_reply.body["error"]["type"] == type
    assert error_reply.body["error"]["message"].startswith(message)
    assert error_reply.body["request_id"] == error_reply.headers["request-id"]


def test_failure_may_have_its_own_message() -> None:
    assert (
        make_adapter().reply_to_failure(make_request(), ProviderFailure("overloaded", 529, "Come back later.")).body["error"]["message"]
        == "Come back later."
    )


def test_missing_key_has_its_own_error() -> None:
    error_reply = make_adapter().reply_to_failure(make_request(headers={}), ProviderFailure("unauthorized", 401))
    assert error_reply.body["error"] == {"type": "authentication_error", "message": "x-api-key header is required"}
    assert not any(name.startswith("anthropic-ratelimit") for name in error_reply.headers)


def test_rate_limit_headers_have_retry_time() -> None:
    headers = make_adapter().reply_to_failure(make_request(), ProviderFailure("rate_limit", 429, retry_after=2.2)).headers
    assert headers["retry-after"] == "3"
    assert headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert headers["anthropic-ratelimit-input-tokens-reset"] == "2026-09-21T14:13:22Z"


def test_every_reply_has_limit_headers() -> None:
    headers = make_adapter().make_headers(make_request(), is_stream=True)
    kinds = ("requests", "tokens", "input-tokens", "output-tokens")
    assert {f"anthropic-ratelimit-{kind}-{what}" for kind in kinds for what in ("limit", "remaining", "reset")} <= headers.keys()
    assert headers["request-id"].startswith("req_011C")
    assert headers["anthropic-organization-id"].count("-") == 4
    assert "retry-after" not in headers


@pytest.mark.parametrize("is_flat", [True, False])
@pytest.mark.parametrize("after_events", [0, 3, 1000])
def test_failing_stream_ends_with_error_event(after_events: int, is_flat: bool) -> None:
    adapter, request = make_adapter(), make_request(stream=True)
    reply = adapter.make_reply(request, FakeReply((ReplyText("One two three four five six."),)))
    events = adapter.make_failing_stream(request, reply, ProviderFailure("overloaded", 529), after_events, is_flat)
    sent_count = min(after_events, len(reply.events) - 1)
    assert events[:-1] == reply.events[:sent_count]
    assert events[-1].encode() == b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'


def count_tokens(**body: Any) -> tuple[int, dict[str, Any]]:
    return make_adapter().count_tokens(
        make_request({"model": "claude-sonnet-5", "messages": [{"role": "user", "content": "Hello"}], **body})
    )


def test_token_count_needs_no_max_tokens() -> None:
    status, body = count_tokens()
    assert status == 200
    assert body == {"input_tokens": make_adapter().make_reply(make_request(), FakeReply(())).body["usage"]["input_tokens"]}
    assert count_tokens(tools=[WEATHER], system="Be brief.")[1]["input_tokens"] > body["input_tokens"]


def test_token_count_accepts_any_thinking_budget() -> None:
    for model in ("claude-sonnet-5", "claude-sonnet-4-5"):
        for budget in (1024, 63_999, 64_000, 200_000):
            assert count_tokens(model=model, thinking={"type": "enabled", "budget_tokens": budget})[0] == 200
    assert count_tokens(thinking={"type": "enabled", "budget_tokens": 10})[0] == 400


def test_token_count_ignores_null_reply_parameters() -> None:
    assert count_tokens(max_tokens=None, stream=None, temperature=None) == count_tokens()


def test_token_count_rejects_reply_parameters() -> None:
    for name, value in {"max_tokens": 10, "stream": True, "temperature": 0.5}.items():
        status, body = count_tokens(**{name: value})
        assert (status, body["error"]["message"]) == (400, f"{name}: Extra inputs are not permitted")


def test_token_count_request_is_checked() -> None:
    status, body = count_tokens(messages=[])
    assert (status, body["error"]["message"]) == (400, "messages: at least one message is required")
    assert body["request_id"].startswith("req_011C")
    assert count_tokens(model="gpt-4o")[0] == 404
    assert json_roundtrip(count_tokens(bogus_field=1)[1])["error"]["message"] == "bogus_field: Extra inputs are not permitted"
    assert make_adapter().count_tokens(make_request({}, headers=HEADERS))[0] == 400
