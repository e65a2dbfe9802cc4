"""Replies that the provider makes in the background.

Such a reply has an id before it has text. It is fetched by that id until it is whole: a second request would start a second reply, which is
made and paid for beside the first.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from legato.errors import ModelFailed
from legato.models.credential_masks import remember_request
from legato.models.sdk_client import translate_sdk_errors
from legato.providers.formats.lenient_json import as_object, as_text, decode_json

PENDING_STATUSES = ("queued", "in_progress")
FIRST_WAIT_S = 0.25
MAX_WAIT_S = 5.0
"""The limit of the seconds between two fetches, which double with each fetch."""

MAX_FAILED_FETCHES = 8
"""The number of consecutive fetches that may fail."""

CANCEL_TIMEOUT_S = 2.0
"""Seconds that the provider has to cancel a reply that is no longer wanted."""

_ID = re.compile(r"[!-~]{1,256}", re.ASCII)


def get_pending_id(body: Any) -> str:
    """Return the id of a reply that is being made in the background; empty if this is no such reply."""
    response = as_object(body)
    return as_text(response.get("id")) if response.get("status") in PENDING_STATUSES else ""


async def fetch_reply(client: Any, id: str) -> Any:
    """Fetch the response of this id until it is whole. If it cannot be fetched, `ModelFailed` is raised and is not retryable."""
    if not _is_usable_in_path(id):
        raise ModelFailed(f"the provider makes a reply in the background, and its id cannot be used to fetch it: {id[:80]!r}")
    wait, failures = FIRST_WAIT_S, 0
    while True:
        try:
            await asyncio.sleep(wait)
            body = await _fetch(client, id)
        except asyncio.CancelledError:
            await cancel_reply(client, id)
            raise
        except ModelFailed as failure:
            failures += 1
            if not failure.retryable or failures >= MAX_FAILED_FETCHES:
                raise _make_fetch_failure(id, failure.summary) from failure
        else:
            failures = 0
            if not get_pending_id(body):
                return body
        wait = min(wait * 2, MAX_WAIT_S)


async def cancel_reply(client: Any, id: str) -> None:
    """Make the provider cancel a reply that is no longer wanted and would be paid for. Errors are ignored."""
    import httpx2

    if not _is_usable_in_path(id):
        return
    with suppress(Exception):
        async with asyncio.timeout(CANCEL_TIMEOUT_S):
            await client.post(f"{_make_response_path(id)}/cancel", cast_to=httpx2.Response)


async def _fetch(client: Any, id: str) -> Any:
    import httpx2
    import openai

    answer = await translate_sdk_errors(client.get(_make_response_path(id), cast_to=httpx2.Response), openai)
    remember_request(answer)
    return decode_json(answer.content)


def _is_usable_in_path(id: str) -> bool:
    """Return True if an id can be a path segment: dots alone would lead elsewhere."""
    return bool(_ID.fullmatch(id) and id.strip("."))


def _make_response_path(id: str) -> str:
    return f"/responses/{quote(id, safe='')}"


def _make_fetch_failure(id: str, problem: str) -> ModelFailed:
    do = "resume() requests another; the provider may go on making this one, and stores it under its id"
    return ModelFailed(f"the reply {id}, made in the background, could not be fetched: {problem}", do=do)
