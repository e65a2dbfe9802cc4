"""Replies that the provider makes in the background. May know: the SDK. Decides: how they are fetched, and when they are given up.

Such a reply has an id before it has words. It is fetched by that id until it is whole: asking again would start a second one, which is
made and paid for beside the first.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from legato.errors import ModelFailed
from legato.models.masking import note_request
from legato.models.sdk import failing
from legato.providers.formats.loose import json_of, mapping, text

PENDING = ("queued", "in_progress")
FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 5.0
"""Seconds to wait before a reply is fetched again: twice as long each time, up to this."""

MAX_FAILED_FETCHES = 8
"""The number of fetches that may fail one after the other."""

CANCEL_TIMEOUT_S = 2.0
"""Seconds that the provider has to cancel a reply that is not wanted any more."""

_ID = re.compile(r"[!-~]{1,256}", re.ASCII)


def pending_id(body: Any) -> str:
    """The id of a reply that is being made in the background; empty if this is no such reply."""
    response = mapping(body)
    return text(response.get("id")) if response.get("status") in PENDING else ""


async def fetch_reply(client: Any, id: str) -> Any:
    """The response of this id, once it is whole. `ModelFailed`, which is final, if it cannot be had."""
    if not _can_be_named(id):
        raise ModelFailed(f"the provider makes a reply in the background, under an id that it cannot be fetched by: {id[:80]!r}")
    wait, failed = FIRST_WAIT_S, 0
    while True:
        try:
            await asyncio.sleep(wait)
            body = await _fetch(client, id)
        except asyncio.CancelledError:
            await cancel_reply(client, id)
            raise
        except ModelFailed as failure:
            failed += 1
            if not failure.retryable or failed >= MAX_FAILED_FETCHES:
                raise _unfetched(id, failure.summary) from failure
        else:
            failed = 0
            if not pending_id(body):
                return body
        wait = min(wait * 2, LONGEST_WAIT_S)


async def cancel_reply(client: Any, id: str) -> None:
    """Have the provider cancel a reply that is not wanted any more: nobody would read it, and it would be paid for."""
    import httpx2

    if not _can_be_named(id):
        return
    with suppress(Exception):
        async with asyncio.timeout(CANCEL_TIMEOUT_S):
            await client.post(f"{_path(id)}/cancel", cast_to=httpx2.Response)


async def _fetch(client: Any, id: str) -> Any:
    import httpx2
    import openai

    answer = await failing(client.get(_path(id), cast_to=httpx2.Response), openai)
    note_request(answer)
    return json_of(answer.content)


def _can_be_named(id: str) -> bool:
    """Tell whether an id can be a part of a path, where dots alone lead elsewhere."""
    return bool(_ID.fullmatch(id) and id.strip("."))


def _path(id: str) -> str:
    return f"/responses/{quote(id, safe='')}"


def _unfetched(id: str, told: str) -> ModelFailed:
    do = "resume() requests another; the provider may go on making this one, and keeps it under its id"
    return ModelFailed(f"the reply {id}, made in the background, could not be fetched: {told}", do=do)
