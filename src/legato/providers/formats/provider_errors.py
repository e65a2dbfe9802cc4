"""Meaning of a provider's errors: whether a retry can help, and which part of the request was rejected."""

from __future__ import annotations

import re
from typing import Any

from legato.core.facts import Usage
from legato.errors import ModelFailed
from legato.providers.formats.lenient_json import as_object, as_text

CONVERSATION_LOCKED = "conversation_locked"
"""The code of an error that says that another request uses the conversation. The provider's conversation is unchanged."""

TRANSIENT_STATUSES = (408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529)
TRANSIENT_CODES = (
    "server_error",
    "rate_limit_exceeded",
    "server_is_overloaded",
    "slow_down",
    CONVERSATION_LOCKED,
    "overloaded_error",
    "api_error",
    "rate_limit_error",
    "timeout_error",
)
PERMANENT_CODES = ("insufficient_quota",)
REJECTION_STATUSES = (400, 404, 409, 410, 422)
CONTEXT_OVERFLOW_CODES = ("context_length_exceeded", "request_too_large")
CONTEXT_OVERFLOW_PHRASES = ("prompt is too long", "maximum context length", "context window")
CONTEXT_OVERFLOW_HINT = "nothing was left out; give the agent a shorter view, history=summarised(...) or last(n), and go on"
UNRELATED_REJECTION_CODES = (
    *CONTEXT_OVERFLOW_CODES,
    *PERMANENT_CODES,
    "model_not_found",
    "content_filter",
    "content_policy_violation",
    "invalid_prompt",
)
_RETRY_DELAY = re.compile(r"try again in (?:(\d+)m)?([\d.]+)(ms|s)\b")


def translate_error(
    status: int, body: Any, *, retry_after: float | None = None, request_id: str = "", usage: Usage | None = None
) -> ModelFailed:
    """Return a provider's error answer as a `ModelFailed`. `usage`: the tokens that the failed request cost."""
    error = as_object(as_object(body).get("error") or body)
    code = as_text(error.get("code")) or as_text(error.get("type"))
    message = as_text(error.get("message")) or f"HTTP {status}"
    retryable = code not in PERMANENT_CODES and (status in TRANSIENT_STATUSES or code in TRANSIENT_CODES)
    if retryable and retry_after is None:
        retry_after = _parse_retry_delay(message)
    details = f" (request {request_id})" if request_id else ""
    overflows = code in CONTEXT_OVERFLOW_CODES or any(phrase in message for phrase in CONTEXT_OVERFLOW_PHRASES)
    details += f"; {CONTEXT_OVERFLOW_HINT}" if overflows and not retryable else ""
    summary = f"{status} {message}{details}" if status else f"{message}{details}"
    return ModelFailed(
        summary,
        retryable=retryable,
        retry_after=retry_after,
        reason=code,
        status=status,
        usage=usage,
        conversation_unchanged=code == CONVERSATION_LOCKED,
    )


def _parse_retry_delay(message: str) -> float | None:
    """Return the seconds that an error message asks to wait: an error inside a stream has no headers.

    >>> _parse_retry_delay("Rate limit reached. Please try again in 11.054s. Visit ..."), _parse_retry_delay("Try again later.")
    (11.054, None)
    """
    match = _RETRY_DELAY.search(message)
    if match is None:
        return None
    minutes, number, unit = match.groups()
    try:
        return int(minutes or 0) * 60 + float(number) * (0.001 if unit == "ms" else 1.0)
    except (ValueError, OverflowError):  # "1.2.3", and minutes of hundreds of digits
        return None


def is_reasoning_rejection(failure: ModelFailed) -> bool:
    """Return True if the provider rejected replayed reasoning. Then the same request is sent again without reasoning."""
    message = failure.summary
    return (
        failure.reason == "invalid_encrypted_content"
        or "encrypted content" in message
        or "'reasoning'" in message
        or "`thinking`" in message
        or "thinking block" in message
        or "`redacted_thinking`" in message
    )


def is_request_rejection(failure: ModelFailed) -> bool:
    """Return True if the provider rejected the request, and its code names no cause unrelated to replayed or stored content.

    Then stored history is sent by value, and uses of hosted tools are left out. Providers and gateways reject these in too many wordings
    to list them.
    """
    if failure.retryable or failure.reason in UNRELATED_REJECTION_CODES:
        return False
    return failure.status in REJECTION_STATUSES or failure.reason in ("previous_response_not_found", "conversation_not_found")


def is_unsupported_conversation_error(failure: ModelFailed) -> bool:
    """Return True if a failure to create a conversation means that the provider has none: no storage for the account, or no such path."""
    return is_request_rejection(failure) or failure.status in (405, 501)
