"""The errors and headers of OpenAI's and Azure's failures.

The bodies of grade D (outages, timeouts, a missing key) have the provider's documented messages, or messages like them.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from legato.emulator.api_key_parser import find_api_key, mask_key
from legato.emulator.lenient_json import as_string
from legato.emulator.request_types import EmulatorRequest, ProviderFailure

TOKENS_PER_MINUTE = 200_000

_SERVER_ERROR_MESSAGE = (
    "The server had an error while processing your request. Sorry about that! You can retry your request, or contact us through our "
    "help center at help.openai.com if the error persists."
)
_QUOTA_MESSAGE = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, read the docs: "
    "https://platform.openai.com/docs/guides/error-codes/api-errors."
)
_WINDOW_MESSAGE = "Your input exceeds the context window of this model. Please adjust your input and try again."
_NO_KEY_MESSAGE = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY)."
)
_AZURE_KEY_MESSAGE = (
    "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription "
    "and use a correct regional API endpoint for your resource."
)
_FLAGGED_MESSAGE = (
    "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt."
)
_FILTERED_MESSAGE = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry."
)


class FailureError(Struct, frozen=True):
    """The error of one kind of failure. `stream_code` is its code inside a stream, if that differs."""

    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    stream_code: str = ""


_TEXTS_BY_KIND = {
    "rate_limit": FailureError("", "tokens", "rate_limit_exceeded"),
    "quota": FailureError(_QUOTA_MESSAGE, "insufficient_quota", "insufficient_quota"),
    "unauthorized": FailureError("", code="invalid_api_key"),
    "server_error": FailureError(_SERVER_ERROR_MESSAGE, "server_error", "server_error"),
    "overloaded": FailureError(
        "The server is currently overloaded. Please try again later.", "server_error", stream_code="server_is_overloaded"
    ),
    "timeout": FailureError("The request timed out.", "server_error", stream_code="server_error"),
    "context_length": FailureError(_WINDOW_MESSAGE, code="context_length_exceeded", param="input"),
    "content_filter": FailureError(_FLAGGED_MESSAGE, code="invalid_prompt"),
    "too_large": FailureError("Request exceeds the maximum size."),
    "emulator": FailureError("", "emulator_error"),
}


def make_error(request: EmulatorRequest, failure: ProviderFailure, *, is_stream: bool = False) -> dict[str, Any]:
    """Return the `error` member of a body or of an event. An unknown kind has only the failure's own message."""
    text = _TEXTS_BY_KIND.get(failure.kind) or FailureError("", "server_error" if failure.status >= 500 else "invalid_request_error")
    code = text.code
    message = failure.message or text.message
    if failure.kind == "rate_limit" and not failure.message:
        message = _rate_limit_message(request, find_wait(failure))
    if failure.kind == "unauthorized" and not failure.message:
        message = _invalid_key_message(request)
        code = code if find_api_key(request.headers, request.api) else None
    return {"type": text.type, "code": (text.stream_code if is_stream else "") or code, "message": message, "param": text.param}


def make_failure_body(request: EmulatorRequest, failure: ProviderFailure) -> dict[str, Any]:
    """Return the body of a failed request."""
    if failure.kind == "content_filter" and request.is_azure:
        return {"error": _make_azure_filter_error(failure)}
    if failure.kind == "unauthorized" and request.is_azure:
        return {"error": {"code": "401", "message": failure.message or _AZURE_KEY_MESSAGE}}
    error = make_error(request, failure)
    body: dict[str, Any] = {"error": {key: error[key] for key in ("message", "type", "param", "code")}}
    return {**body, "status": 401} if failure.kind == "unauthorized" else body


def make_retry_headers(failure: ProviderFailure) -> dict[str, str]:
    """Return the headers that say when to retry: in whole seconds, rounded up, and in milliseconds."""
    if failure.kind != "rate_limit" and not failure.retry_after:
        return {}
    wait = find_wait(failure)
    return {"retry-after": str(math.ceil(wait)), "retry-after-ms": str(math.ceil(wait * 1000))}


def find_wait(failure: ProviderFailure) -> float:
    """Return the time until a retry in seconds, at least a millisecond."""
    return max(failure.retry_after, 0.001)


def format_go_duration(seconds: float) -> str:
    """Return a time as the provider writes it, in Go's format.

    >>> [format_go_duration(seconds) for seconds in (0, 0.002, 45.175, 360)]
    ['0s', '2ms', '45.175s', '6m0s']
    """
    thousandths = round(seconds * 1000)
    if thousandths < 1000:
        return f"{thousandths}ms" if thousandths else "0s"
    minutes, rest = divmod(thousandths, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest / 1000:g}s"


def _rate_limit_message(request: EmulatorRequest, wait: float) -> str:
    model = request.deployment or as_string(request.body.get("model"))
    requested_tokens = math.ceil(TOKENS_PER_MINUTE * wait / 60)  # the number that fits the wait
    return (
        f"Rate limit reached for {model} in organization {request.account} on tokens per min (TPM): Limit {TOKENS_PER_MINUTE}, "
        f"Used {TOKENS_PER_MINUTE}, Requested {requested_tokens}. Please try again in {format_go_duration(wait)}. "
        "Visit https://platform.openai.com/account/rate-limits to learn more."
    )


def _invalid_key_message(request: EmulatorRequest) -> str:
    key = find_api_key(request.headers, request.api)
    if not key:
        return _NO_KEY_MESSAGE
    return f"Incorrect API key provided: {mask_key(key)}. You can find your API key at https://platform.openai.com/account/api-keys."


def _make_azure_filter_error(failure: ProviderFailure) -> dict[str, Any]:
    safe = {"filtered": False, "severity": "safe"}
    filter_result = {
        "hate": safe,
        "jailbreak": {"detected": False, "filtered": False},
        "self_harm": safe,
        "sexual": safe,
        "violence": {"filtered": True, "severity": "high"},
    }
    return {
        "code": "content_filter",
        "message": failure.message or _FILTERED_MESSAGE,
        "param": "prompt",
        "type": None,
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": filter_result},
    }
