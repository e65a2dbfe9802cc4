"""What a provider's error means. May know: statuses and codes. Decides: whether to try again, and what else to try."""

from __future__ import annotations

from typing import Any

from legato.core.facts import Usage
from legato.errors import ModelFailed
from legato.wire.loose import mapping, text

PASSING_STATUS = (408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529)
PASSING_CODES = (
    "server_error",
    "rate_limit_exceeded",
    "server_is_overloaded",
    "slow_down",
    "conversation_locked",
    "overloaded_error",
    "api_error",
    "rate_limit_error",
    "timeout_error",
)
FOR_GOOD_CODES = ("insufficient_quota",)
REFUSED = (400, 404, 409, 410, 422)
ABOUT_SOMETHING_ELSE = (
    "insufficient_quota",
    "context_length_exceeded",
    "model_not_found",
    "content_policy_violation",
    "invalid_encrypted_content",
)


def refusal_of(
    status: int, body: Any, *, retry_after: float | None = None, request_id: str = "", usage: Usage | None = None
) -> ModelFailed:
    """An error answer as a failure of the model. `usage`: what it cost all the same."""
    error = mapping(mapping(body).get("error") or body)
    code = text(error.get("code")) or text(error.get("type"))
    said = text(error.get("message")) or f"HTTP {status}"
    again = code not in FOR_GOOD_CODES and (status in PASSING_STATUS or code in PASSING_CODES)
    about = f" (request {request_id})" if request_id else ""
    summary = f"{status} {said}{about}" if status else f"{said}{about}"
    return ModelFailed(summary, retryable=again, retry_after=retry_after, reason=code, status=status, usage=usage)


def about_reasoning(failure: ModelFailed) -> bool:
    """Whether a refusal is about reasoning that was sent back: then the same goes again without it."""
    said = failure.summary
    return (
        failure.reason == "invalid_encrypted_content"
        or "encrypted content" in said
        or "'reasoning'" in said
        or "`thinking`" in said
        or "thinking block" in said
        or "`redacted_thinking`" in said
    )


def is_refusal(failure: ModelFailed) -> bool:
    """Whether the provider would not have the request as it was, and did not say that something else was wrong.

    Then what leans on its memory goes by value, and what it once did itself is left out. Providers and gateways refuse these in too
    many words to know them all.
    """
    if failure.retryable or failure.reason in ABOUT_SOMETHING_ELSE:
        return False
    return failure.status in REFUSED or failure.reason in ("previous_response_not_found", "conversation_not_found")
