"""The wait that a provider asks for with `Retry-After`, over real HTTP: numbers, dates and milliseconds count, junk does not."""

from __future__ import annotations

import asyncio
import json
from email.utils import formatdate
from typing import Any

import pytest

from legato.errors import ModelFailed
from legato.models import Anthropic, OpenAIChat, OpenAIResponses
from legato.models.sdk_client import parse_retry_after
from tests.models.chat_fixtures import request_reply
from tests.models.raw_server import serve_raw

MODELS: dict[str, Any] = {
    "responses": lambda url: OpenAIResponses("m", base_url=f"{url}/v1", api_key="any"),
    "chat": lambda url: OpenAIChat("m", base_url=f"{url}/v1", api_key="any"),
    "anthropic": lambda url: Anthropic("m", base_url=url, api_key="any"),
}
BODY = json.dumps({"error": {"type": "rate_limit_error", "message": "slow down"}}).encode()
SERVER_DATE = "Thu, 19 Nov 2026 10:00:00 GMT"


async def read_wait(api: str, *headers: str) -> float | None:
    """Return the wait that a model reads from an answer 429 with these headers."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        head = "\r\n".join(("HTTP/1.1 429 Too Many Requests", "Content-Type: application/json", f"Content-Length: {len(BODY)}", *headers))
        writer.write(f"{head}\r\n\r\n".encode() + BODY)

    async with serve_raw(answer) as server:
        model = MODELS[api](server.url)
        with pytest.raises(ModelFailed) as failed:
            await request_reply(model)
        await model.close()
    assert failed.value.retryable
    return failed.value.retry_after


@pytest.mark.parametrize("model", MODELS)
async def test_retry_after_as_date_is_honoured(model: str) -> None:
    assert await read_wait(model, f"Date: {SERVER_DATE}", "Retry-After: Thu, 19 Nov 2026 10:01:30 GMT") == 90.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (("Retry-After: Thursday, 19-Nov-26 10:00:20 GMT",), 20.0),
        (("Retry-After: Thu Nov 19 10:00:20 2026",), 20.0),
        (("Retry-After: Thu, 19 Nov 2026 11:00:20 +0100",), 20.0),
        (("Retry-After: Thu, 19 Nov 2026 09:59:59 GMT",), 0.0),
        (("Retry-After: Sun, 06 Nov 1994 08:49:37 GMT",), 0.0),
        (("Retry-After: Thu, 19 Nov 2026 10:00:20 GMT", "retry-after-ms: 1500"), 1.5),
        (("Retry-After: Thu, 19 Nov 2026 10:00:20 GMT", "retry-after-ms: soon"), 20.0),
        (("Retry-After: Thu, 99 Nov 2026 10:00:20 GMT",), None),
        (("Retry-After: Thu, 19 Nov 2026 10:00:20 +99999999999",), None),
        (("Retry-After: Thu, 19 Nov 99999999999999999999 10:00:20 GMT",), None),
        (("Retry-After: soon",), None),
        (("Retry-After:",), None),
    ],
)
async def test_retry_after_is_read_in_every_form(headers: tuple[str, ...], seconds: float | None) -> None:
    assert await read_wait("chat", f"Date: {SERVER_DATE}", *headers) == seconds


@pytest.mark.parametrize("date", [(), ("Date: today",)], ids=["no date", "junk"])
async def test_retry_after_date_without_server_clock_uses_own(date: tuple[str, ...]) -> None:
    assert await read_wait("chat", *date, f"Retry-After: {formatdate(0, usegmt=True)}") == 0.0
    wait = parse_retry_after({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"})
    assert wait is not None
    assert wait > 86_400 * 365
