"""What the provider says when it fails. May know: asks. Decides: the words, the codes and the headers of each failure.

Bodies marked D in the law book's grades (outages, time-outs, a missing key) are the provider's documented words or a likeness of them.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from legato.emulator.asks import Ask, Failure
from legato.emulator.keys import key_of, shown
from legato.emulator.loose import string

TOKENS_PER_MINUTE = 200_000

_BROKEN = (
    "The server had an error while processing your request. Sorry about that! You can retry your request, or contact us through our "
    "help center at help.openai.com if the error persists."
)
_QUOTA = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, read the docs: "
    "https://platform.openai.com/docs/guides/error-codes/api-errors."
)
_WINDOW = "Your input exceeds the context window of this model. Please adjust your input and try again."
_NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY)."
)
_AZURE_KEY = (
    "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription "
    "and use a correct regional API endpoint for your resource."
)
_FLAGGED = "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt."
_FILTERED = (
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry."
)


class Words(Struct, frozen=True):
    """One kind of failure: what its body says. `streamed` is its code inside a stream, where that differs."""

    message: str
    type: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    streamed: str = ""


_WORDS = {
    "rate_limit": Words("", "tokens", "rate_limit_exceeded"),
    "quota": Words(_QUOTA, "insufficient_quota", "insufficient_quota"),
    "unauthorized": Words("", code="invalid_api_key"),
    "server_error": Words(_BROKEN, "server_error", "server_error"),
    "overloaded": Words("The server is currently overloaded. Please try again later.", "server_error", streamed="server_is_overloaded"),
    "timeout": Words("The request timed out.", "server_error", streamed="server_error"),
    "context_length": Words(_WINDOW, code="context_length_exceeded", param="input"),
    "content_filter": Words(_FLAGGED, code="invalid_prompt"),
    "too_large": Words("Request exceeds the maximum size."),
    "emulator": Words("", "emulator_error"),
}


def error_of(ask: Ask, failure: Failure, *, streamed: bool = False) -> dict[str, Any]:
    """What goes under `error`, in a body or in an event. A kind that is not known says only what it was told to say."""
    words = _WORDS.get(failure.kind) or Words("", "server_error" if failure.status >= 500 else "invalid_request_error")
    code = words.code
    message = failure.message or words.message
    if failure.kind == "rate_limit" and not failure.message:
        message = _limited(ask, wait_of(failure))
    if failure.kind == "unauthorized" and not failure.message:
        message = _refused_key(ask)
        code = code if key_of(ask.headers, ask.api) else None
    return {"type": words.type, "code": (words.streamed if streamed else "") or code, "message": message, "param": words.param}


def body_of(ask: Ask, failure: Failure) -> dict[str, Any]:
    """The body of a failed request."""
    if failure.kind == "content_filter" and ask.azure:
        return {"error": _azure_filter(failure)}
    if failure.kind == "unauthorized" and ask.azure:
        return {"error": {"code": "401", "message": failure.message or _AZURE_KEY}}
    error = error_of(ask, failure)
    body: dict[str, Any] = {"error": {key: error[key] for key in ("message", "type", "param", "code")}}
    return {**body, "status": 401} if failure.kind == "unauthorized" else body


def retry_headers(failure: Failure) -> dict[str, str]:
    """When to come back: whole seconds, rounded up, and milliseconds."""
    if failure.kind != "rate_limit" and not failure.retry_after:
        return {}
    wait = wait_of(failure)
    return {"retry-after": str(math.ceil(wait)), "retry-after-ms": str(math.ceil(wait * 1000))}


def wait_of(failure: Failure) -> float:
    """How long to wait, in seconds: at least a millisecond."""
    return max(failure.retry_after, 0.001)


def go_duration(seconds: float) -> str:
    """A time as the provider writes it.

    >>> [go_duration(seconds) for seconds in (0, 0.002, 45.175, 360)]
    ['0s', '2ms', '45.175s', '6m0s']
    """
    thousandths = round(seconds * 1000)
    if thousandths < 1000:
        return f"{thousandths}ms" if thousandths else "0s"
    minutes, rest = divmod(thousandths, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest / 1000:g}s"


def _limited(ask: Ask, wait: float) -> str:
    model = ask.deployment or string(ask.body.get("model"))
    asked = math.ceil(TOKENS_PER_MINUTE * wait / 60)  # so that the numbers and the time to wait tell the same story
    return (
        f"Rate limit reached for {model} in organization {ask.account} on tokens per min (TPM): Limit {TOKENS_PER_MINUTE}, "
        f"Used {TOKENS_PER_MINUTE}, Requested {asked}. Please try again in {go_duration(wait)}. "
        "Visit https://platform.openai.com/account/rate-limits to learn more."
    )


def _refused_key(ask: Ask) -> str:
    key = key_of(ask.headers, ask.api)
    if not key:
        return _NO_KEY
    return f"Incorrect API key provided: {shown(key)}. You can find your API key at https://platform.openai.com/account/api-keys."


def _azure_filter(failure: Failure) -> dict[str, Any]:
    safe = {"filtered": False, "severity": "safe"}
    found = {
        "hate": safe,
        "jailbreak": {"detected": False, "filtered": False},
        "self_harm": safe,
        "sexual": safe,
        "violence": {"filtered": True, "severity": "high"},
    }
    return {
        "code": "content_filter",
        "message": failure.message or _FILTERED,
        "param": "prompt",
        "type": None,
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": found},
    }
