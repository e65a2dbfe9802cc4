"""The headers of OpenAI's and Azure's replies."""

from __future__ import annotations

from legato.emulator.ids import IdGenerator
from legato.emulator.request_types import EmulatorRequest
from legato.emulator.responses.failures import TOKENS_PER_MINUTE, format_go_duration

REQUESTS_PER_MINUTE = 10_000
_STATUSES_WITHOUT_LIMITS = (401, 404)  # replies that are sent before the limits are checked


def make_headers(
    request: EmulatorRequest, ids: IdGenerator, *, is_stream: bool = False, status: int = 200, wait: float = 0.0
) -> dict[str, str]:
    """Return the headers of a reply. `wait` is the rate limit's wait in seconds."""
    return (
        _make_azure_headers(request, ids, wait)
        if request.is_azure
        else _make_openai_headers(request, ids, wait, has_limits=not is_stream and status not in _STATUSES_WITHOUT_LIMITS)
    )


def _make_openai_headers(request: EmulatorRequest, ids: IdGenerator, wait: float, *, has_limits: bool) -> dict[str, str]:
    digits = ids.make_hex_id("", 64)
    return {
        "x-request-id": f"req_{digits[:32]}",
        "openai-processing-ms": str(100 + int(digits[32:35], 16) % 900),
        "openai-version": "2020-10-01",
        "openai-organization": request.account,
        "openai-project": IdGenerator(request.account).make_alphanumeric_id("proj_", 24),
        "cf-ray": f"{digits[35:51]}-AMS",
        "x-content-type-options": "nosniff",
        **(_make_limit_headers(wait) if has_limits else {}),
    }


def _make_azure_headers(request: EmulatorRequest, ids: IdGenerator, wait: float) -> dict[str, str]:
    id = ids.make_uuid()
    return {
        "apim-request-id": id,
        "x-request-id": ids.make_uuid(),
        "x-ms-region": "East US",
        "x-ms-client-request-id": request.headers.get("x-ms-client-request-id", id),
        "x-ms-is-spilled-over": "false",
        "x-ratelimit-key": request.account,
        **_make_limit_headers(wait),
        "x-ratelimit-renewalperiod-requests": "60",
        "x-ratelimit-renewalperiod-tokens": "60",
        "x-ratelimit-abusepenalty-active": "False",
        "x-content-type-options": "nosniff",
    }


def _make_limit_headers(wait: float) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": str(REQUESTS_PER_MINUTE),
        "x-ratelimit-limit-tokens": str(TOKENS_PER_MINUTE),
        "x-ratelimit-remaining-requests": str(REQUESTS_PER_MINUTE - 1),
        "x-ratelimit-remaining-tokens": str(0 if wait else TOKENS_PER_MINUTE - 1),
        "x-ratelimit-reset-requests": "6ms",
        "x-ratelimit-reset-tokens": format_go_duration(wait),
    }
