"""What a provider's error means. May know: statuses and codes. Decides: whether to try again, and what else to try."""

from __future__ import annotations

import re
from typing import Any

from legato.core.facts import Usage
from legato.errors import ModelFailed
from legato.providers.formats.loose import mapping, text

CONVERSATION_LOCKED = "conversation_locked"
"""Another request is at work on the conversation, so this one was not let in: the provider's conversation is as it was."""

PASSING_STATUS = (408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529)
PASSING_CODES = (
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
FOR_GOOD_CODES = ("insufficient_quota",)
REFUSED = (400, 404, 409, 410, 422)
TOO_LONG = ("context_length_exceeded", "request_too_large")
TOO_LONG_WORDS = ("prompt is too long", "maximum context length", "context window")
SHORTEN = "nothing was left out; give the agent a shorter view, history=summarised(...) or last(n), and go on"
ABOUT_SOMETHING_ELSE = (*TOO_LONG, *FOR_GOOD_CODES, "model_not_found", "content_filter", "content_policy_violation", "invalid_prompt")
_WAIT = re.compile(r"try again in (?:(\d+)m)?([\d.]+)(ms|s)\b")


def refusal_of(
    status: int, body: Any, *, retry_after: float | None = None, request_id: str = "", usage: Usage | None = None
) -> ModelFailed:
    """An error answer as a failure of the model. `usage`: what it cost all the same."""
    error = mapping(mapping(body).get("error") or body)
    code = text(error.get("code")) or text(error.get("type"))
    said = text(error.get("message")) or f"HTTP {status}"
    again = code not in FOR_GOOD_CODES and (status in PASSING_STATUS or code in PASSING_CODES)
    if again and retry_after is None:
        retry_after = _wait_in(said)
    about = f" (request {request_id})" if request_id else ""
    about += f"; {SHORTEN}" if not again and (code in TOO_LONG or any(words in said for words in TOO_LONG_WORDS)) else ""
    summary = f"{status} {said}{about}" if status else f"{said}{about}"
    return ModelFailed(
        summary,
        retryable=again,
        retry_after=retry_after,
        reason=code,
        status=status,
        usage=usage,
        conversation_unchanged=code == CONVERSATION_LOCKED,
    )


def _wait_in(said: str) -> float | None:
    """How long an error asks to wait in its words: inside a stream there are no headers to say it.

    >>> _wait_in("Rate limit reached. Please try again in 11.054s. Visit ..."), _wait_in("Try again later.")
    (11.054, None)
    """
    found = _WAIT.search(said)
    if found is None:
        return None
    minutes, number, unit = found.groups()
    try:
        return int(minutes or 0) * 60 + float(number) * (0.001 if unit == "ms" else 1.0)
    except (ValueError, OverflowError):  # "1.2.3", and minutes of hundreds of digits
        return None


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


def lacks_conversations(failure: ModelFailed) -> bool:
    """Whether a refusal to make a conversation means that there are none to be had: the account keeps nothing, or no such path is known."""
    return is_refusal(failure) or failure.status in (405, 501)
