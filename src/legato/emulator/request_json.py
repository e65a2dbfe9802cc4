"""The JSON body of a request, read within limits of size and depth. Each API reports an unreadable body with its own error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.requests import Request

from legato.emulator.request_types import ProviderFailure

MAX_BODY_BYTES = 32 * 1024 * 1024
"""Anthropic's limit; those of the other providers are similar."""

MAX_JSON_DEPTH = 200
"""The most levels of a request's JSON."""

BAD_JSON_FAILURE = ProviderFailure(
    "bad_json", 400, "We could not parse the JSON body of your request. (HINT: the API expects a JSON object in the body.)"
)
BODY_TOO_LARGE_FAILURE = ProviderFailure("too_large", 413)


class BodyTooLarge(Exception):
    """The body is larger than `MAX_BODY_BYTES`."""


async def read_body(http: Request) -> bytes:
    """Read the body of a request. Raises `BodyTooLarge`, at once if the `Content-Length` is too large."""
    if int(http.headers.get("content-length", 0)) > MAX_BODY_BYTES:
        raise BodyTooLarge
    chunks: list[bytes] = []
    size = 0
    async for chunk in http.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise BodyTooLarge
        chunks.append(chunk)
    return b"".join(chunks)


def parse_body(data: bytes) -> Any:
    """Decode a body. None: it is no JSON, or nested so deeply that it might be decoded but not encoded again."""
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return None if data.count(b"[") + data.count(b"{") > MAX_JSON_DEPTH and _is_too_deep(body) else body


def _is_too_deep(body: Any) -> bool:
    level = [body]
    for _ in range(MAX_JSON_DEPTH):
        level = [inner for outer in level for inner in _members(outer)]
    return bool(level)


def _members(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
