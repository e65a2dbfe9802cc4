"""Replies of the endpoints of stored objects: errors, and pages of lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from legato.providers.rules.responses.error_messages import out_of_range, unsupported_value
from legato.providers.rules.rule_set import Finding

Query: TypeAlias = Mapping[str, str]
EndpointReply: TypeAlias = tuple[int, dict[str, Any]]  # a status and a body

_DEFAULT_PAGE_ITEMS, _MAX_PAGE_ITEMS = 20, 100


def make_error(message: str, status: int = 400, param: str | None = None, code: str | None = None) -> EndpointReply:
    """Return an error in the API's form."""
    return status, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def make_value_error(finding: Finding) -> EndpointReply:
    """Return the error for an invalid value."""
    return make_error(finding.message, finding.status or 400, finding.param, finding.code)


def make_not_found(kind: str, id: str) -> EndpointReply:
    """Return the error for an id that does not exist."""
    return make_error(f"{kind} with id '{id}' not found.", 404)


def make_list(items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a list object with all items."""
    return {
        "object": "list",
        "data": items,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": False,
    }


def make_page(items: list[dict[str, Any]], query: Query) -> EndpointReply:
    """Return a page of items that are given oldest first. The query may have `order` ("asc": oldest first), `after` an id, `limit`."""
    order, after = query.get("order", "desc"), query.get("after", "")
    if order not in ("asc", "desc"):
        return make_value_error(unsupported_value("order", order, ("asc", "desc")))
    text = query.get("limit", str(_DEFAULT_PAGE_ITEMS))
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return make_error(f"Invalid type for 'limit': expected an integer, but got '{text}' instead.", param="limit", code="invalid_type")
    if error := out_of_range("limit", int(text), 1, _MAX_PAGE_ITEMS, "integer"):
        return make_value_error(error)
    ordered = items if order == "asc" else items[::-1]
    start = 0
    if after:
        positions = [position for position, item in enumerate(ordered) if item["id"] == after]
        if not positions:
            return make_not_found("Item", after)
        start = positions[0] + 1
    page_items = ordered[start : start + int(text)]
    return 200, {**make_list(page_items), "has_more": start + len(page_items) < len(ordered)}
