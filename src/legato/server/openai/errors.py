"""What is wrong with a request to OpenAI's APIs, and an error in the middle of a stream."""

from __future__ import annotations

from typing import Any

import msgspec

from legato.server.answering import Refused


class Wrong(Refused):
    """Something in a request that cannot be used; `param` says what."""

    def __init__(
        self, param: str, summary: str, *, code: str = "invalid_value", status: int = 400, expected: str = "", do: str = ""
    ) -> None:
        super().__init__(status, code, summary, expected=expected, do=do)
        self.param = param


def error_line(told: dict[str, Any], **about: Any) -> bytes:
    """An error in the middle of a stream: the last thing that is told. Clients raise it."""
    return b"event: error\ndata: %s\n\n" % msgspec.json.encode({**about, "error": told})
