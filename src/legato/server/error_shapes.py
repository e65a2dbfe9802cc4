"""Errors in the shape that a path's clients know: OpenAI's below `/v1/`, ours elsewhere.

Decides also that no client of OpenAI's repeats by itself what was refused.
"""

from __future__ import annotations

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from legato.server.answering import answer, error_answer

OPENAI_PATHS = "/v1/"

TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

NO_RETRY = {"x-should-retry": "false"}
"""Clients send a request again by themselves, after 409 and 5xx too. A message could be said twice by that; people should decide."""


def error_for_path(error: Exception, path: str) -> Response:
    """Write an error as an answer to a request for this path."""
    return openai_error(error) if path.startswith(OPENAI_PATHS) else error_answer(error)


async def refuse(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with an error."""
    await error_for_path(error, scope["path"])(scope, receive, send)


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
