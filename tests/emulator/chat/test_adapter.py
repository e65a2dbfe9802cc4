"""The errors and headers of the chat adapter: violations and failures of the provider."""

from __future__ import annotations

from typing import Any

import pytest

from legato.emulator.fake_models.base import FakeReply, ReplyCall, ReplyText
from legato.emulator.request_types import EmulatorRequest, ProviderFailure
from tests.emulator.chat.request_factory import WEATHER, json_roundtrip, make_adapter, make_request, parse_completion

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def make_failure(request: EmulatorRequest, kind: str, status: int = 0, **more: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
    error_reply = make_adapter().reply_to_failure(request, ProviderFailure(kind, status, **more))
    return error_reply.status, error_reply.body, error_reply.headers


def test_legal_request_has_no_violations() -> None:
    assert make_adapter().find_violations(make_request()) == ()


def test_unanswered_calls_get_the_exact_error() -> None:
    body = {
        "model": "gpt-4o",
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [CALL]}, {"role": "user", "content": "Well?"}],
    }
    adapter, request = make_adapter(), make_request(body)
    error_reply = adapter.reply_to_violations(request, adapter.find_violations(request))
    assert error_reply.status == 400
    assert error_reply.body == {
        "error": {
            "message": "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
            "The following tool_call_ids did not have response messages: call_1",
            "type": "invalid_request_error",
            "param": "messages.[2].role",
            "code": None,
        }
    }
    assert error_reply.headers["x-request-id"].startswith("req_")
    assert [complaint.rule.id for complaint in error_reply.violations] == ["C1"]


def test_reply_sent_back_with_outputs_is_legal() -> None:
    adapter, request = make_adapter(), make_request(tools=[WEATHER])
    completion = parse_completion(
        adapter.make_reply(
            request, FakeReply((ReplyText("Let me see."), ReplyCall("get_weather", '{"city": "Oslo"}'), ReplyCall("get_weather")))
        )
    )
    message = completion.choices[0].message
    outputs = [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls or ()]
    messages = [*request.body["messages"], message.model_dump(), *outputs]
    assert adapter.find_violations(make_request({**request.body, "messages": messages})) == ()


def test_unknown_model_is_a_404() -> None:
    adapter, request = make_adapter(), make_request({"model": "llama-7", "messages": [{"role": "user", "content": "Hi"}]})
    error_reply = adapter.reply_to_violations(request, adapter.find_violations(request))
    assert (error_reply.status, error_reply.body["error"]["code"]) == (404, "model_not_found")


def test_too_long_input_error_has_token_count() -> None:
    adapter, request = make_adapter(), make_request({"model": "gpt-4o", "messages": [{"role": "user", "content": "cat " * 130_000}]})
    error_reply = adapter.reply_to_violations(request, adapter.find_violations(request))
    assert error_reply.body["error"]["code"] == "context_length_exceeded"
    assert error_reply.body["error"]["message"].startswith(
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130"
    )


def test_azure_request_needs_no_model_name() -> None:
    assert (
        make_adapter().find_violations(
            make_request({"messages": [{"role": "user", "content": "Hi"}]}, is_azure=True, deployment="anything-at-all")
        )
        == ()
    )


def test_rate_limit_error_has_retry_time() -> None:
    status, body, headers = make_failure(make_request(), "rate_limit", 429, retry_after=45.175)
    assert status == 429
    assert (body["error"]["type"], body["error"]["code"], body["error"]["param"]) == ("tokens", "rate_limit_exceeded", None)
    assert body["error"]["message"].startswith("Rate limit reached for gpt-4o in organization org-test on tokens per min (TPM): Limit ")
    assert "Please try again in 45.175s. Visit https://platform.openai.com/account/rate-limits to learn more." in body["error"]["message"]
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("46", "45175")
    assert headers["x-ratelimit-remaining-tokens"] == "0"
    assert headers["x-ratelimit-reset-tokens"] == "45.175s"


def test_rate_limit_without_time_waits_a_millisecond() -> None:
    _, body, headers = make_failure(make_request(), "rate_limit", 429)
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("1", "1")
    assert "Please try again in 1ms." in body["error"]["message"]


def test_quota_error_has_no_retry_time() -> None:
    status, body, headers = make_failure(make_request(), "quota", 429)
    assert status == 429
    assert (body["error"]["type"], body["error"]["code"]) == ("insufficient_quota", "insufficient_quota")
    assert body["error"]["message"].startswith("You exceeded your current quota, please check your plan and billing details.")
    assert "retry-after" not in headers


def test_invalid_key_is_masked_without_limits() -> None:
    status, body, headers = make_failure(make_request(key="sk-not-a-good-key"), "unauthorized", 401)
    assert (status, body["status"]) == (401, 401)
    assert body["error"] == {
        "message": "Incorrect API key provided: sk-not-a*****-key. You can find your API key at https://platform.openai.com/account/api-keys.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_api_key",
    }
    assert not any(name.startswith("x-ratelimit") for name in headers)


def test_missing_key_has_its_own_error() -> None:
    _, body, _ = make_failure(make_request(key=""), "unauthorized", 401)
    assert body["error"]["message"].startswith("You didn't provide an API key.")
    assert body["error"]["code"] is None


def test_azure_key_error_has_azure_message() -> None:
    status, body, headers = make_failure(make_request(is_azure=True), "unauthorized", 401)
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
    found, body, _ = make_failure(make_request(), kind, status, message="In these words.")
    assert found == status
    assert body == {"error": {"message": "In these words.", "type": type, "param": None, "code": code}}


def test_context_length_fault_exceeds_the_window() -> None:
    status, body, _ = make_failure(make_request(), "context_length", 400)
    assert status == 400
    assert body["error"] == {
        "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 128001 tokens. "
        "Please reduce the length of the messages.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }


def test_content_filter_error_is_that_of_azure() -> None:
    status, body, _ = make_failure(make_request(is_azure=True), "content_filter", 400)
    assert status == 400
    assert (body["error"]["code"], body["error"]["param"], body["error"]["type"], body["error"]["status"]) == (
        "content_filter",
        "prompt",
        None,
        400,
    )
    assert body["error"]["innererror"]["code"] == "ResponsibleAIPolicyViolation"
    assert body["error"]["innererror"]["content_filter_result"]["violence"] == {"filtered": True, "severity": "high"}


@pytest.mark.parametrize("is_flat", [True, False])
@pytest.mark.parametrize("after_events", [0, 3, 1000])
def test_failing_stream_ends_with_the_error(after_events: int, is_flat: bool) -> None:
    adapter, request = make_adapter(), make_request(stream=True)
    reply = adapter.make_reply(request, FakeReply((ReplyText("One two three four five six."),)))
    events = adapter.make_failing_stream(request, reply, ProviderFailure("server_error", 500), after_events, is_flat)
    sent_count = min(after_events, len(reply.events) - 1)
    assert events[:-1] == reply.events[:sent_count]
    assert json_roundtrip(events[-1].data)["error"]["type"] == "server_error"
    assert all(event.data != "[DONE]" for event in events)


def test_only_whole_replies_have_limit_headers() -> None:
    adapter, request = make_adapter(), make_request()
    assert not any(name.startswith("x-ratelimit") for name in adapter.make_headers(request, is_stream=True))
    headers = adapter.make_headers(request, is_stream=False)
    assert headers["x-ratelimit-limit-requests"] == "10000"
    assert headers["openai-organization"] == "org-test"
    assert headers["openai-version"] == "2020-10-01"
    assert len(headers["x-request-id"]) == len("req_") + 32


def test_azure_replies_have_azure_headers() -> None:
    headers = make_adapter().make_headers(make_request(is_azure=True), is_stream=False)
    assert headers["x-ratelimit-renewalperiod-tokens"] == "60"
    assert "openai-organization" not in headers
    assert headers["x-request-id"].count("-") == 4


def test_unknown_model_error_has_no_limits() -> None:
    adapter, request = make_adapter(), make_request({"model": "llama-7", "messages": [{"role": "user", "content": "Hi"}]})
    assert not any(
        name.startswith("x-ratelimit") for name in adapter.reply_to_violations(request, adapter.find_violations(request)).headers
    )


def test_context_length_error_in_stream_is_equal() -> None:
    adapter, request = make_adapter(), make_request(stream=True)
    events = adapter.make_failing_stream(
        request, adapter.make_reply(request, FakeReply(())), ProviderFailure("context_length", 400), 1, False
    )
    assert json_roundtrip(events[-1].data) == adapter.reply_to_failure(request, ProviderFailure("context_length", 400)).body
