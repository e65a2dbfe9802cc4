"""Error responses in the format that clients of a path expect: OpenAI's below `/v1/`, Legato's elsewhere.

OpenAI's clients are told not to retry refused requests by themselves.
"""

from __future__ import annotations

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from legato.server.http_errors import error_response, json_response

OPENAI_PATHS = "/v1/"

OPENAI_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

NO_RETRY_HEADERS = {"x-should-retry": "false"}
"""OpenAI's clients retry by themselves, also after 409 and 5xx, which could send a message twice. The caller should decide."""


def error_response_for_path(error: Exception, path: str) -> Response:
    """Return the response to an error, in the format of this path."""
    return openai_error_response(error) if path.startswith(OPENAI_PATHS) else error_response(error)


async def send_error(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an error response."""
    await error_response_for_path(error, scope["path"])(scope, receive, send)


def openai_error_response(error: Exception) -> Response:
    """Return the response to an error, in OpenAI's format."""
    refusal = error_response(error)
    fields = msgspec.json.decode(refusal.body)["error"]
    headers = {name: value for name, value in refusal.headers.items() if name in ("allow", "connection", "retry-after", "www-authenticate")}
    return json_response(
        {"error": format_openai_error(fields, refusal.status_code, getattr(error, "param", None))},
        refusal.status_code,
        headers | NO_RETRY_HEADERS,
    )


def format_openai_error(error: dict[str, str], status: int, param: str | None = None) -> dict[str, str | None]:
    """Return OpenAI's error object. Its message has all texts of the error, as sentences."""
    labels = {"message": "", "expected": "Expected: ", "found": "Found: ", "do": "Do: "}
    message = " ".join(f"{label}{error[name].rstrip('.')}." for name, label in labels.items() if error.get(name))
    error_type = OPENAI_ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"message": message, "type": error_type, "param": param, "code": error["code"]}
