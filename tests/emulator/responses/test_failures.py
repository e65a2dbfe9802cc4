"""Failures of the provider: bodies and headers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from legato.emulator.request_types import EmulatorRequest, ErrorReply, ProviderFailure
from tests.emulator.responses.adapter_client import AdapterClient

LIMITS = {f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")}


def _make_failure(failure: ProviderFailure, *, is_azure: bool = False, body: dict[str, Any] | None = None) -> ErrorReply:
    client = AdapterClient()
    return client.adapter.reply_to_failure(client.make_request(body or {}, is_azure=is_azure, account="org-XXXX"), failure)


def test_rate_limit_error_has_retry_time() -> None:
    error_reply = _make_failure(ProviderFailure("rate_limit", 429, retry_after=45.175), body={"model": "gpt-4o-mini"})
    assert error_reply.status == 429
    assert error_reply.body["error"] == {
        "message": "Rate limit reached for gpt-4o-mini in organization org-XXXX on tokens per min (TPM): Limit 200000, Used 200000, "
        "Requested 150584. Please try again in 45.175s. Visit https://platform.openai.com/account/rate-limits to learn more.",
        "type": "tokens",
        "param": None,
        "code": "rate_limit_exceeded",
    }
    assert (error_reply.headers["retry-after"], error_reply.headers["retry-after-ms"]) == ("46", "45175")
    assert (error_reply.headers["x-ratelimit-remaining-tokens"], error_reply.headers["x-ratelimit-reset-tokens"]) == ("0", "45.175s")


@pytest.mark.parametrize(
    ("seconds", "whole_seconds", "thousandths"), [(0.0, "1", "1"), (0.02, "1", "20"), (2.0, "2", "2000"), (360.0, "360", "360000")]
)
def test_retry_after_rounds_up_seconds(seconds: float, whole_seconds: str, thousandths: str) -> None:
    headers = _make_failure(ProviderFailure("rate_limit", 429, retry_after=seconds)).headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == (whole_seconds, thousandths)


def test_quota_error_has_no_retry_time() -> None:
    error_reply = _make_failure(ProviderFailure("quota", 429))
    assert (error_reply.body["error"]["type"], error_reply.body["error"]["code"]) == ("insufficient_quota", "insufficient_quota")
    assert error_reply.body["error"]["message"].startswith("You exceeded your current quota")
    assert "retry-after" not in error_reply.headers


def test_invalid_key_is_masked_without_limits() -> None:
    error_reply = _make_failure(ProviderFailure("unauthorized", 401))
    assert error_reply.body == {
        "error": {
            "message": "Incorrect API key provided: sk-01234*******cdef. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_api_key",
        },
        "status": 401,
    }
    assert not LIMITS & error_reply.headers.keys()


@pytest.mark.parametrize("key", ["sk-0", "short-key-12"])
def test_short_key_is_masked_completely(key: str) -> None:
    request = EmulatorRequest("responses", 1, {}, {"authorization": f"Bearer {key}"}, "org-1", 0.0)
    assert key[:4] not in AdapterClient().adapter.reply_to_failure(request, ProviderFailure("unauthorized", 401)).body["error"]["message"]


def test_missing_key_has_its_own_error() -> None:
    error_reply = AdapterClient().adapter.reply_to_failure(
        EmulatorRequest("responses", 1, {}, {}, "org-1", 0.0), ProviderFailure("unauthorized", 401)
    )
    assert error_reply.body["error"]["message"].startswith("You didn't provide an API key.")


@pytest.mark.parametrize(
    ("kind", "status", "type", "code"),
    [
        ("server_error", 500, "server_error", "server_error"),
        ("overloaded", 503, "server_error", None),
        ("timeout", 504, "server_error", None),
        ("context_length", 400, "invalid_request_error", "context_length_exceeded"),
        ("content_filter", 400, "invalid_request_error", "invalid_prompt"),
        ("bad_json", 400, "invalid_request_error", None),
        ("something else", 500, "server_error", None),
    ],
)
def test_every_failure_has_the_error_form(kind: str, status: int, type: str, code: str | None) -> None:
    error_reply = _make_failure(ProviderFailure(kind, status))
    assert error_reply.status == status
    assert error_reply.body.keys() == {"error"}
    assert error_reply.body["error"].keys() == {"message", "type", "param", "code"}
    assert (error_reply.body["error"]["type"], error_reply.body["error"]["code"]) == (type, code)


def test_failure_may_have_its_own_message() -> None:
    assert _make_failure(ProviderFailure("server_error", 500, "The roof is on fire.")).body["error"]["message"] == "The roof is on fire."


def test_outage_may_have_retry_time() -> None:
    assert _make_failure(ProviderFailure("overloaded", 503, retry_after=2.5)).headers["retry-after"] == "3"


def test_too_long_input_is_rejected() -> None:
    rejection = AdapterClient().expect_rejection({"input": "word " * 130_000})
    assert (rejection.status, rejection.rule_ids) == (400, ["F1"])
    assert rejection.error["code"] == "context_length_exceeded"


def test_too_long_input_may_be_truncated() -> None:
    assert AdapterClient().post({"input": "word " * 130_000, "truncation": "auto"})["status"] == "completed"


def test_growing_chain_reaches_the_context_window() -> None:
    client = AdapterClient()
    first = client.post({"input": "cat " * 100_000})
    assert client.expect_rejection({"previous_response_id": first["id"], "input": "cat " * 30_000}).rule_ids == ["F1"]
    client.post({"previous_response_id": first["id"], "input": "cat " * 20_000})


# -- headers -----------------------------------------------------------------------------------------------------------


def test_whole_reply_has_recorded_headers() -> None:
    client = AdapterClient()
    headers = client.adapter.make_headers(client.make_request({}), is_stream=False)
    assert re.fullmatch(r"req_[0-9a-f]{32}", headers["x-request-id"])
    assert (headers["openai-version"], headers["openai-organization"]) == ("2020-10-01", "org-1")
    assert headers.keys() >= LIMITS | {"openai-processing-ms", "openai-project", "cf-ray", "x-content-type-options"}
    assert re.fullmatch(r"\d+(ms|s)", headers["x-ratelimit-reset-requests"])


def test_stream_has_no_limit_headers() -> None:
    client = AdapterClient()
    assert not LIMITS & client.adapter.make_headers(client.make_request({}), is_stream=True).keys()


def test_request_ids_are_unique() -> None:
    client = AdapterClient()
    assert len({client.adapter.make_headers(client.make_request({}), is_stream=False)["x-request-id"] for _ in range(100)}) == 100


def test_404_has_no_limit_headers() -> None:
    client = AdapterClient()
    for body, has_limits in (({"conversation": "conv_1"}, False), ({"input": 7}, True)):
        request = client.make_request(body)
        error_reply = client.adapter.reply_to_violations(request, client.adapter.find_violations(request))
        assert bool(LIMITS & error_reply.headers.keys()) is has_limits
        assert "x-request-id" in error_reply.headers


def test_azure_replies_have_azure_headers() -> None:
    client = AdapterClient()
    headers = client.adapter.make_headers(client.make_request({}, is_azure=True), is_stream=False)
    expected = {"apim-request-id", "x-ms-region", "x-ms-client-request-id", "x-ms-is-spilled-over", "x-ratelimit-key"}
    assert headers.keys() >= LIMITS | expected | {"x-ratelimit-renewalperiod-tokens", "x-ratelimit-abusepenalty-active"}
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", headers["x-request-id"])


def test_content_filter_error_is_that_of_azure() -> None:
    error = _make_failure(ProviderFailure("content_filter", 400), is_azure=True).body["error"]
    assert (error["code"], error["param"], error["status"]) == ("content_filter", "prompt", 400)
    assert error["innererror"]["code"] == "ResponsibleAIPolicyViolation"
    assert error["innererror"]["content_filter_result"]["violence"] == {"filtered": True, "severity": "high"}


def test_azure_key_error_has_azure_code() -> None:
    assert _make_failure(ProviderFailure("unauthorized", 401), is_azure=True).body["error"]["code"] == "401"
