"""Errors as HTTP responses: their statuses, and their JSON."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from starlette.responses import Response

from legato.errors import (
    BadInput,
    CodecError,
    DefinitionChanged,
    DrivenElsewhere,
    EngineUnavailable,
    IllegalFact,
    LedgerConflict,
    LedgerExists,
    LegatoError,
    NotPending,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
    UnknownLedger,
)
from legato.runtime.error_summary import describe_error_without_message

log = logging.getLogger("legato.server")

STATUS_BY_ERROR: tuple[tuple[type[LegatoError], int], ...] = (
    (UnknownLedger, 404),
    (NotPending, 409),
    (LedgerExists, 409),
    (LedgerConflict, 409),
    (DefinitionChanged, 409),
    (DrivenElsewhere, 409),
    (IllegalFact, 409),
    (StoreUnavailable, 503),
    (StoreLocked, 503),
    (StoreFull, 503),
    (StoreReadOnly, 503),
    (StoreRefused, 503),
    (EngineUnavailable, 503),
    (CodecError, 500),  # stored bytes cannot be decoded: not the client's fault
    (BadInput, 400),
    (LegatoError, 500),
)
"""The first matching class decides."""


class RequestRefused(LegatoError):
    """A refused request, with the HTTP status of its response."""

    def __init__(self, status: int, code: str, summary: str, *, expected: str = "", do: str = "", **headers: str) -> None:
        super().__init__(summary, expected=expected, do=do)
        self.code = code
        self.status = status
        self.headers = headers


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(content), status, headers, media_type="application/json")


def error_response(error: Exception) -> Response:
    """Return the response to an error: all details of Legato's errors, none of unexpected ones."""
    if isinstance(error, RequestRefused):
        headers = {name.replace("_", "-"): value for name, value in error.headers.items()}
        return json_response(
            {"error": error_to_dict(error)}, error.status, headers | ({"www-authenticate": "Bearer"} if error.status == 401 else {})
        )
    if isinstance(error, LegatoError):
        status = next(status for kind, status in STATUS_BY_ERROR if isinstance(error, kind))
        if status >= 500:
            log.error("%s (%s)", type(error).__name__, error.code)
        return json_response({"error": error_to_dict(error)}, status)
    return error_response(mask_unexpected_error(error))


def mask_unexpected_error(error: Exception) -> RequestRefused:
    """Return a refusal without details of an unexpected error. Only its type and place are logged: its text may be private."""
    log.error("unexpected error: %s", describe_error_without_message(error))
    return RequestRefused(500, "unexpected", "an unexpected error occurred; the server's log says where")


def error_to_dict(error: LegatoError) -> dict[str, str]:
    """Return the error's code and texts; empty texts are left out."""
    fields = {"code": error.code, "message": error.summary, "expected": error.expected, "found": error.found, "do": error.do}
    return {name: text for name, text in fields.items() if text}
