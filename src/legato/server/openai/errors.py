"""Errors of OpenAI's APIs: invalid requests, and errors within a stream."""

from __future__ import annotations

from typing import Any

import msgspec

from legato.server.http_errors import RequestRefused


class InvalidRequest(RequestRefused):
    """A request with a parameter that cannot be used; `param` names it."""

    def __init__(
        self, param: str, summary: str, *, code: str = "invalid_value", status: int = 400, expected: str = "", do: str = ""
    ) -> None:
        super().__init__(status, code, summary, expected=expected, do=do)
        self.param = param


def encode_error_event(error: dict[str, Any], **extra_fields: Any) -> bytes:
    """Encode an error within a stream. It is the last event, and clients raise it."""
    return b"event: error\ndata: %s\n\n" % msgspec.json.encode({**extra_fields, "error": error})
