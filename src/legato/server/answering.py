"""Errors over HTTP. May know: the errors. Decides: which status each has, and what of one that nobody expected is told."""

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
from legato.runtime.error_summary import describe_error

log = logging.getLogger("legato.server")

STATUSES: tuple[tuple[type[LegatoError], int], ...] = (
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
    (CodecError, 500),  # what is in the store cannot be read; nobody who asks sends such bytes
    (BadInput, 400),
    (LegatoError, 500),
)
"""The first that fits counts."""


class Refused(LegatoError):
    """A request that this server does not answer, with the status that says so."""

    def __init__(self, status: int, code: str, summary: str, *, expected: str = "", do: str = "", **headers: str) -> None:
        super().__init__(summary, expected=expected, do=do)
        self.code = code
        self.status = status
        self.headers = headers


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Something as JSON."""
    return Response(msgspec.json.encode(content), status, headers, media_type="application/json")


def error_answer(error: Exception) -> Response:
    """What is told of an error: all of ours, nothing of one that nobody expected."""
    if isinstance(error, Refused):
        headers = {name.replace("_", "-"): value for name, value in error.headers.items()}
        return answer({"error": plain(error)}, error.status, headers | ({"www-authenticate": "Bearer"} if error.status == 401 else {}))
    if isinstance(error, LegatoError):
        status = next(status for kind, status in STATUSES if isinstance(error, kind))
        if status >= 500:
            log.error("%s (%s)", type(error).__name__, error.code)
        return answer({"error": plain(error)}, status)
    return error_answer(unexpected(error))


def unexpected(error: Exception) -> Refused:
    """What is told of an error that nobody expected. It is logged by its kind and place: its words may be somebody's."""
    log.error("unexpected: %s", describe_error(error))
    return Refused(500, "unexpected", "something went wrong here; the server's log says where")


def plain(error: LegatoError) -> dict[str, str]:
    """An error as data."""
    told = {"code": error.code, "message": error.summary, "expected": error.expected, "found": error.found, "do": error.do}
    return {name: text for name, text in told.items() if text}
