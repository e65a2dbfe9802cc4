"""What was sent, read from the raw bodies that the emulator got. Knows nothing of Legato: each complaint is one of the seeds'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

SERVER_IDS = ("rs_", "fc_", "msg_")


def complaints(bodies: list[dict[str, Any]], request: str) -> list[str]:
    """What is wrong with the requests of one conversation that began with `request`."""
    return [complaint for number, body in enumerate(bodies) for complaint in _about(number, body, request)] + list(_growth(bodies))


def _about(number: int, body: dict[str, Any], request: str) -> Iterator[str]:
    items = body["input"]
    if body.get("store") is not False:
        yield f"request {number} asks the provider to store it"
    if body.get("previous_response_id"):
        yield f"request {number} is chained"
    for item in items:
        if str(item.get("id", "")).startswith(SERVER_IDS) or item.get("type") == "item_reference":
            yield f"request {number} names {item.get('id')}, which nobody stored"
    calls = Counter(item["call_id"] for item in items if item.get("type") == "function_call")
    outputs = Counter(item["call_id"] for item in items if item.get("type") == "function_call_output")
    if calls != outputs or any(count > 1 for count in calls.values()):
        yield f"request {number} has calls {dict(calls)} and outputs {dict(outputs)}"
    asked = [text for item in items if item.get("role") == "user" and request in (text := _text(item))]
    if asked != [request]:
        yield f"request {number} has what the user asked {len(asked)} times"


def _growth(bodies: list[dict[str, Any]]) -> Iterator[str]:
    """Every request is the one before it and what happened since: the history costs what was said."""
    for number, (before, after) in enumerate(pairwise(bodies)):
        if after["input"][: len(before["input"])] != before["input"]:
            yield f"request {number + 1} does not go on from request {number}"


def _text(item: dict[str, Any]) -> str:
    content = item.get("content", "")
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
