"""Errors as OpenAI's clients know them. May know: our errors, HTTP. Decides: the shape of one, and that no client repeats it by itself."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from legato.server.answering import Refused, answer, error_answer

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

NO_RETRY = {"x-should-retry": "false"}
"""Clients send a request again by themselves, after 409 and 5xx too. A message could be said twice by that; people should decide."""


class Wrong(Refused):
    """Something in a request that cannot be used; `param` says what."""

    def __init__(
        self, param: str, summary: str, *, code: str = "invalid_value", status: int = 400, expected: str = "", do: str = ""
    ) -> None:
        super().__init__(status, code, summary, expected=expected, do=do)
        self.param = param


def openai_error(error: Exception) -> Response:
    """An error as an answer."""
    refusal = error_answer(error)
    told = msgspec.json.decode(refusal.body)["error"]
    headers = {name: value for name, value in refusal.headers.items() if name in ("allow", "connection", "retry-after", "www-authenticate")}
    return answer({"error": shaped(told, refusal.status_code, getattr(error, "param", None))}, refusal.status_code, headers | NO_RETRY)


def shaped(told: dict[str, str], status: int, param: str | None = None) -> dict[str, str | None]:
    """What is told of an error, in one sentence after the other."""
    labelled = {"message": "", "expected": "Expected: ", "found": "Found: ", "do": "Do: "}
    words = " ".join(f"{label}{told[name].rstrip('.')}." for name, label in labelled.items() if told.get(name))
    kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"message": words, "type": kind, "param": param, "code": told["code"]}


def error_line(told: dict[str, Any]) -> bytes:
    """An error in the middle of a stream: the last thing that is told. Clients raise it."""
    return b"event: error\ndata: %s\n\n" % msgspec.json.encode({"type": "error", **told, "error": told})
