"""The headers of an answer. May know: asks and ids. Decides: which belong to which kind of answer."""

from __future__ import annotations

from legato.emulator.asks import Ask
from legato.emulator.ids import Ids
from legato.emulator.responses.failures import TOKENS_PER_MINUTE, go_duration

REQUESTS_PER_MINUTE = 10_000
_NO_LIMITS = (401, 404)  # answers that come before the limits are looked at


def headers_of(ask: Ask, ids: Ids, *, streams: bool = False, status: int = 200, wait: float = 0.0) -> dict[str, str]:
    """The headers of an answer. `wait`: how many seconds the rate limit asks for."""
    return _azure(ask, ids, wait) if ask.azure else _openai(ask, ids, wait, limits=not streams and status not in _NO_LIMITS)


def _openai(ask: Ask, ids: Ids, wait: float, *, limits: bool) -> dict[str, str]:
    digits = ids.hex("", 64)
    return {
        "x-request-id": f"req_{digits[:32]}",
        "openai-processing-ms": str(100 + int(digits[32:35], 16) % 900),
        "openai-version": "2020-10-01",
        "openai-organization": ask.account,
        "openai-project": Ids(ask.account).word("proj_", 24),
        "cf-ray": f"{digits[35:51]}-AMS",
        "x-content-type-options": "nosniff",
        **(_limits(wait) if limits else {}),
    }


def _azure(ask: Ask, ids: Ids, wait: float) -> dict[str, str]:
    id = ids.uuid()
    return {
        "apim-request-id": id,
        "x-request-id": ids.uuid(),
        "x-ms-region": "East US",
        "x-ms-client-request-id": ask.headers.get("x-ms-client-request-id", id),
        "x-ms-is-spilled-over": "false",
        "x-ratelimit-key": ask.account,
        **_limits(wait),
        "x-ratelimit-renewalperiod-requests": "60",
        "x-ratelimit-renewalperiod-tokens": "60",
        "x-ratelimit-abusepenalty-active": "False",
        "x-content-type-options": "nosniff",
    }


def _limits(wait: float) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": str(REQUESTS_PER_MINUTE),
        "x-ratelimit-limit-tokens": str(TOKENS_PER_MINUTE),
        "x-ratelimit-remaining-requests": str(REQUESTS_PER_MINUTE - 1),
        "x-ratelimit-remaining-tokens": str(0 if wait else TOKENS_PER_MINUTE - 1),
        "x-ratelimit-reset-requests": "6ms",
        "x-ratelimit-reset-tokens": go_duration(wait),
    }
