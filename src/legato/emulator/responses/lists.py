"""What the endpoints for stored things have in common. May know: the wording of refusals. Decides: how a list is paged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from legato.providers.rules.responses.texts import not_one_of, out_of_range
from legato.providers.rules.rule_set import Fault

Query: TypeAlias = Mapping[str, str]
Reply: TypeAlias = tuple[int, dict[str, Any]]  # a status and a body

_PAGE, _LARGEST_PAGE = 20, 100


def refused(message: str, status: int = 400, param: str | None = None, code: str | None = None) -> Reply:
    """A refusal in the API's envelope."""
    return status, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def refused_for(fault: Fault) -> Reply:
    """A refusal for what a value is."""
    return refused(fault.message, fault.status or 400, fault.param, fault.code)


def not_found(what: str, id: str) -> Reply:
    """There is none of that id."""
    return refused(f"{what} with id '{id}' not found.", 404)


def listed(items: list[dict[str, Any]]) -> dict[str, Any]:
    """A whole list."""
    return {
        "object": "list",
        "data": items,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": False,
    }


def page(items: list[dict[str, Any]], query: Query) -> Reply:
    """A page of a list that is given oldest first: `order` (newest first unless it says "asc"), `after` an id, `limit`."""
    order, after = query.get("order", "desc"), query.get("after", "")
    if order not in ("asc", "desc"):
        return refused_for(not_one_of("order", order, ("asc", "desc")))
    text = query.get("limit", str(_PAGE))
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return refused(f"Invalid type for 'limit': expected an integer, but got '{text}' instead.", param="limit", code="invalid_type")
    if wrong := out_of_range("limit", int(text), 1, _LARGEST_PAGE, "integer"):
        return refused_for(wrong)
    ordered = items if order == "asc" else items[::-1]
    start = 0
    if after:
        places = [place for place, item in enumerate(ordered) if item["id"] == after]
        if not places:
            return not_found("Item", after)
        start = places[0] + 1
    wanted = ordered[start : start + int(text)]
    return 200, {**listed(wanted), "has_more": start + len(wanted) < len(ordered)}
