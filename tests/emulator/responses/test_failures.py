"""What is refused, and what the provider itself gets wrong: bodies and headers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from legato.emulator.asks import Ask, Failure, Refusal
from tests.emulator.responses.bench import Bench

LIMITS = {f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")}


def _fail(failure: Failure, *, azure: bool = False, body: dict[str, Any] | None = None) -> Refusal:
    bench = Bench()
    return bench.dialect.fail(bench.ask(body or {}, azure=azure, account="org-XXXX"), failure)


def test_a_rate_limit_says_when_to_come_back_in_its_text_and_in_two_headers() -> None:
    refusal = _fail(Failure("rate_limit", 429, retry_after=45.175), body={"model": "gpt-4o-mini"})
    assert refusal.status == 429
    assert refusal.body["error"] == {
        "message": "Rate limit reached for gpt-4o-mini in organization org-XXXX on tokens per min (TPM): Limit 200000, Used 200000, "
        "Requested 150584. Please try again in 45.175s. Visit https://platform.openai.com/account/rate-limits to learn more.",
        "type": "tokens",
        "param": None,
        "code": "rate_limit_exceeded",
    }
    assert (refusal.headers["retry-after"], refusal.headers["retry-after-ms"]) == ("46", "45175")
    assert (refusal.headers["x-ratelimit-remaining-tokens"], refusal.headers["x-ratelimit-reset-tokens"]) == ("0", "45.175s")


@pytest.mark.parametrize(
    ("seconds", "whole", "thousandths"), [(0.0, "1", "1"), (0.02, "1", "20"), (2.0, "2", "2000"), (360.0, "360", "360000")]
)
def test_whole_seconds_are_rounded_up(seconds: float, whole: str, thousandths: str) -> None:
    headers = _fail(Failure("rate_limit", 429, retry_after=seconds)).headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == (whole, thousandths)


def test_an_empty_quota_is_no_time_to_wait() -> None:
    refusal = _fail(Failure("quota", 429))
    assert (refusal.body["error"]["type"], refusal.body["error"]["code"]) == ("insufficient_quota", "insufficient_quota")
    assert refusal.body["error"]["message"].startswith("You exceeded your current quota")
    assert "retry-after" not in refusal.headers


def test_a_refused_key_is_shown_in_part_and_comes_without_limits() -> None:
    refusal = _fail(Failure("unauthorized", 401))
    assert refusal.body == {
        "error": {
            "message": "Incorrect API key provided: sk-01234*******cdef. You can find your API key at "
            "https://platform.openai.com/account/api-keys.",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_api_key",
        },
        "status": 401,
    }
    assert not LIMITS & refusal.headers.keys()


@pytest.mark.parametrize("key", ["sk-0", "short-key-12"])
def test_a_short_key_is_not_shown_at_all(key: str) -> None:
    ask = Ask("responses", 1, {}, {"authorization": f"Bearer {key}"}, "org-1", 0.0)
    assert key[:4] not in Bench().dialect.fail(ask, Failure("unauthorized", 401)).body["error"]["message"]


def test_a_missing_key_is_asked_for() -> None:
    refusal = Bench().dialect.fail(Ask("responses", 1, {}, {}, "org-1", 0.0), Failure("unauthorized", 401))
    assert refusal.body["error"]["message"].startswith("You didn't provide an API key.")


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
def test_every_failure_has_the_envelope(kind: str, status: int, type: str, code: str | None) -> None:
    refusal = _fail(Failure(kind, status))
    assert refusal.status == status
    assert refusal.body.keys() == {"error"}
    assert refusal.body["error"].keys() == {"message", "type", "param", "code"}
    assert (refusal.body["error"]["type"], refusal.body["error"]["code"]) == (type, code)


def test_a_failure_may_bring_its_own_words() -> None:
    assert _fail(Failure("server_error", 500, "The roof is on fire.")).body["error"]["message"] == "The roof is on fire."


def test_an_outage_may_say_when_to_come_back() -> None:
    assert _fail(Failure("overloaded", 503, retry_after=2.5)).headers["retry-after"] == "3"


def test_too_much_input_is_refused_where_the_answer_is_whole() -> None:
    refused = Bench().refused({"input": "word " * 130_000})
    assert (refused.status, refused.clauses) == (400, ["F1"])
    assert refused.error["code"] == "context_length_exceeded"


def test_too_much_input_may_be_truncated() -> None:
    assert Bench().post({"input": "word " * 130_000, "truncation": "auto"})["status"] == "completed"


def test_a_chain_grows_until_it_is_too_much() -> None:
    bench = Bench()
    first = bench.post({"input": "cat " * 100_000})
    assert bench.refused({"previous_response_id": first["id"], "input": "cat " * 30_000}).clauses == ["F1"]
    bench.post({"previous_response_id": first["id"], "input": "cat " * 20_000})


# -- headers -----------------------------------------------------------------------------------------------------------


def test_a_whole_answer_has_the_recorded_headers() -> None:
    bench = Bench()
    headers = bench.dialect.headers(bench.ask({}), streams=False)
    assert re.fullmatch(r"req_[0-9a-f]{32}", headers["x-request-id"])
    assert (headers["openai-version"], headers["openai-organization"]) == ("2020-10-01", "org-1")
    assert headers.keys() >= LIMITS | {"openai-processing-ms", "openai-project", "cf-ray", "x-content-type-options"}
    assert re.fullmatch(r"\d+(ms|s)", headers["x-ratelimit-reset-requests"])


def test_a_stream_has_no_limits_among_its_headers() -> None:
    bench = Bench()
    assert not LIMITS & bench.dialect.headers(bench.ask({}), streams=True).keys()


def test_no_two_requests_have_the_same_id() -> None:
    bench = Bench()
    assert len({bench.dialect.headers(bench.ask({}), streams=False)["x-request-id"] for _ in range(100)}) == 100


def test_a_404_has_no_limits_among_its_headers() -> None:
    bench = Bench()
    for body, limits in (({"conversation": "conv_1"}, False), ({"input": 7}, True)):
        ask = bench.ask(body)
        refusal = bench.dialect.refuse(ask, bench.dialect.judge(ask))
        assert bool(LIMITS & refusal.headers.keys()) is limits
        assert "x-request-id" in refusal.headers


def test_azure_has_headers_of_its_own() -> None:
    bench = Bench()
    headers = bench.dialect.headers(bench.ask({}, azure=True), streams=False)
    expected = {"apim-request-id", "x-ms-region", "x-ms-client-request-id", "x-ms-is-spilled-over", "x-ratelimit-key"}
    assert headers.keys() >= LIMITS | expected | {"x-ratelimit-renewalperiod-tokens", "x-ratelimit-abusepenalty-active"}
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", headers["x-request-id"])


def test_azure_filters_content_in_its_own_words() -> None:
    error = _fail(Failure("content_filter", 400), azure=True).body["error"]
    assert (error["code"], error["param"], error["status"]) == ("content_filter", "prompt", 400)
    assert error["innererror"]["code"] == "ResponsibleAIPolicyViolation"
    assert error["innererror"]["content_filter_result"]["violence"] == {"filtered": True, "severity": "high"}


def test_azure_refuses_a_key_in_its_own_words() -> None:
    assert _fail(Failure("unauthorized", 401), azure=True).body["error"]["code"] == "401"
