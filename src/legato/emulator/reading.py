"""The body of a request. May know: HTTP and JSON. Decides: how large and how deep one may be.

What cannot be read is told by the caller, in the words of its API.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.requests import Request

from legato.emulator.asks import Failure

LARGEST = 32 * 1024 * 1024
"""Bytes of a request's body. Anthropic's limit; the others' are not far from it."""

DEEPEST = 200
"""Levels of a request's JSON."""

BAD_JSON = Failure("bad_json", 400, "We could not parse the JSON body of your request. (HINT: the API expects a JSON object in the body.)")
TOO_LARGE = Failure("too_large", 413)


class TooLarge(Exception):
    """A body beyond what is accepted."""


async def read_body(http: Request) -> bytes:
    """The body of a request, or `TooLarge`: at once if it says so."""
    if int(http.headers.get("content-length", 0)) > LARGEST:
        raise TooLarge
    chunks: list[bytes] = []
    size = 0
    async for chunk in http.stream():
        size += len(chunk)
        if size > LARGEST:
            raise TooLarge
        chunks.append(chunk)
    return b"".join(chunks)


def json_of(data: bytes) -> Any:
    """What a body says; None if it is no JSON, or nested so deeply that it might be read but not kept."""
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return None if data.count(b"[") + data.count(b"{") > DEEPEST and _too_deep(body) else body


def _too_deep(body: Any) -> bool:
    level = [body]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _members(outer)]
    return bool(level)


def _members(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
