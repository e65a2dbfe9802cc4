"""The Messages API's errors for failures of the provider, and the headers of its replies."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from legato.emulator.request_types import EmulatorRequest, ProviderFailure

_LIMITS_PER_MINUTE = {"requests": 4_000, "tokens": 2_400_000, "input-tokens": 2_000_000, "output-tokens": 400_000}
_DEFAULT_WAIT_S = 1.0  # the wait of a rate limit without a time; the header has whole seconds only
_ERRORS_BY_KIND = {
    # kind: (status, type, message)
    "rate_limit": (
        429,
        "rate_limit_error",
        "This request would exceed your organization's rate limit of 2,000,000 input tokens per minute.",
    ),
    "quota": (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
    ),
    "unauthorized": (401, "authentication_error", "invalid x-api-key"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "timeout": (504, "timeout_error", "Request timed out"),
    "too_large": (413, "request_too_large", "Request exceeds the maximum size"),
    "content_filter": (400, "invalid_request_error", "Output blocked by content filtering policy"),
    "context_length": (400, "invalid_request_error", "prompt is too long"),
}
_INTERNAL_ERROR = (500, "api_error", "Internal server error")
_INVALID_REQUEST = (400, "invalid_request_error", "invalid request")


def find_status(failure: ProviderFailure) -> int:
    """Return the HTTP status of a failure. Only a server error may have different ones."""
    if failure.kind in _ERRORS_BY_KIND:
        return _ERRORS_BY_KIND[failure.kind][0]
    return failure.status or _INTERNAL_ERROR[0]


def make_body(
    request: EmulatorRequest, failure: ProviderFailure, context_window: int, prompt_tokens: int, request_id: str
) -> dict[str, Any]:
    """Return the body of a failed request."""
    return {"type": "error", "error": make_error(request, failure, context_window, prompt_tokens), "request_id": request_id}


def make_error(request: EmulatorRequest, failure: ProviderFailure, context_window: int, prompt_tokens: int) -> dict[str, Any]:
    """Return the `error` member of a body or of an event."""
    if failure.kind == "emulator":
        return {"type": "emulator_error", "message": failure.message}
    _, type, message = _ERRORS_BY_KIND.get(failure.kind, _INVALID_REQUEST if 400 <= failure.status < 500 else _INTERNAL_ERROR)
    if failure.kind == "context_length":
        message = f"prompt is too long: {max(prompt_tokens, context_window + 1)} tokens > {context_window} maximum"
    if failure.kind == "unauthorized" and not {"x-api-key", "authorization"} & request.headers.keys():
        message = "x-api-key header is required"
    return {"type": type, "message": failure.message or message}


def make_headers(request: EmulatorRequest, organisation_id: str, request_id: str, failure: ProviderFailure | None = None) -> dict[str, str]:
    """Return the headers of a reply. The reply to an invalid key has no rate limit headers."""
    kind = failure.kind if failure else ""
    headers = {"request-id": request_id}
    if kind == "unauthorized":
        return headers | {"x-should-retry": "false"}
    headers["anthropic-organization-id"] = organisation_id
    wait = failure.retry_after if failure and failure.retry_after > 0 else _DEFAULT_WAIT_S
    reset = datetime.fromtimestamp(request.now + (wait if kind == "rate_limit" else 0), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for name, limit in _LIMITS_PER_MINUTE.items():
        headers[f"anthropic-ratelimit-{name}-limit"] = str(limit)
        headers[f"anthropic-ratelimit-{name}-remaining"] = "0" if kind == "rate_limit" else str(limit - 1)
        headers[f"anthropic-ratelimit-{name}-reset"] = reset
    if kind == "rate_limit" or (failure and failure.retry_after > 0):
        headers["retry-after"] = str(math.ceil(wait))
    return headers
