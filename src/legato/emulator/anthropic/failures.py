"""How Anthropic says that something went wrong, and the headers of any answer. May know: asks. Decides: nothing."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from legato.emulator.asks import Ask, Failure

_PER_MINUTE = {"requests": 4_000, "tokens": 2_400_000, "input-tokens": 2_000_000, "output-tokens": 400_000}
_SOON = 1.0  # seconds: what a limit asks for that names no time of its own; the header has whole ones only
_KINDS = {
    # kind: (status, type, words)
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
_BROKEN = (500, "api_error", "Internal server error")
_REFUSED = (400, "invalid_request_error", "invalid request")


def status(failure: Failure) -> int:
    """The HTTP status. Only an outage comes with more than one."""
    if failure.kind in _KINDS:
        return _KINDS[failure.kind][0]
    return failure.status or _BROKEN[0]


def body(ask: Ask, failure: Failure, window: int, tokens: int, request_id: str) -> dict[str, Any]:
    """The envelope."""
    return {"type": "error", "error": fault(ask, failure, window, tokens), "request_id": request_id}


def fault(ask: Ask, failure: Failure, window: int, tokens: int) -> dict[str, Any]:
    """What stands in the envelope."""
    if failure.kind == "emulator":
        return {"type": "emulator_error", "message": failure.message}
    _, type, words = _KINDS.get(failure.kind, _REFUSED if 400 <= failure.status < 500 else _BROKEN)
    if failure.kind == "context_length":
        words = f"prompt is too long: {max(tokens, window + 1)} tokens > {window} maximum"
    if failure.kind == "unauthorized" and not {"x-api-key", "authorization"} & ask.headers.keys():
        words = "x-api-key header is required"
    return {"type": type, "message": failure.message or words}


def headers(ask: Ask, organisation: str, request_id: str, failure: Failure | None = None) -> dict[str, str]:
    """The headers. A refused key comes without the limits."""
    kind = failure.kind if failure else ""
    found = {"request-id": request_id}
    if kind == "unauthorized":
        return found | {"x-should-retry": "false"}
    found["anthropic-organization-id"] = organisation
    wait = failure.retry_after if failure and failure.retry_after > 0 else _SOON
    reset = datetime.fromtimestamp(ask.now + (wait if kind == "rate_limit" else 0), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for name, limit in _PER_MINUTE.items():
        found[f"anthropic-ratelimit-{name}-limit"] = str(limit)
        found[f"anthropic-ratelimit-{name}-remaining"] = "0" if kind == "rate_limit" else str(limit - 1)
        found[f"anthropic-ratelimit-{name}-reset"] = reset
    if kind == "rate_limit" or (failure and failure.retry_after > 0):
        found["retry-after"] = str(math.ceil(wait))
    return found
