"""Checks of the raw request bodies that the emulator received. Each violation is a failure that a seed reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

SERVER_IDS = ("rs_", "fc_", "msg_")


def find_violations(bodies: list[dict[str, Any]], request: str) -> list[str]:
    """Return the violations in the requests of one conversation that began with the user's `request`."""
    return [violation for number, body in enumerate(bodies) for violation in _check_body(number, body, request)] + list(
        _check_growth(bodies)
    )


def _check_body(number: int, body: dict[str, Any], request: str) -> Iterator[str]:
    items = body["input"]
    if body.get("store") is not False:
        yield f"request {number} asks the provider to store it"
    if body.get("previous_response_id"):
        yield f"request {number} is chained"
    for item in items:
        if str(item.get("id", "")).startswith(SERVER_IDS) or item.get("type") == "item_reference":
            yield f"request {number} names {item.get('id')}, which was never stored"
    calls = Counter(item["call_id"] for item in items if item.get("type") == "function_call")
    outputs = Counter(item["call_id"] for item in items if item.get("type") == "function_call_output")
    if calls != outputs or any(count > 1 for count in calls.values()):
        yield f"request {number} has calls {dict(calls)} and outputs {dict(outputs)}"
    copies = [text for item in items if item.get("role") == "user" and request in (text := _get_text(item))]
    if copies != [request]:
        yield f"request {number} has the user's message {len(copies)} times"


def _check_growth(bodies: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a violation for each request that does not begin with all of the request before it."""
    for number, (before, after) in enumerate(pairwise(bodies)):
        if after["input"][: len(before["input"])] != before["input"]:
            yield f"request {number + 1} does not continue request {number}"


def _get_text(item: dict[str, Any]) -> str:
    content = item.get("content", "")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
