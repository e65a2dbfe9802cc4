"""Routes of OpenAI's Conversations API, and the routes that list, count and delete parts of responses.

A conversation is a session. The workflow answers every message, and recorded facts stay. So items are added only by creating a response,
and single items cannot be deleted.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.types import ASGIApp

from legato.engines.engine import EngineSession
from legato.errors import LedgerConflict, LedgerExists, UnknownLedger
from legato.server.http_errors import json_response
from legato.server.moments import is_input
from legato.server.openai.conversation_items import build_conversation_items, build_input_items
from legato.server.openai.errors import InvalidRequest
from legato.server.openai.parsed_requests import read_delivery, read_openai_body, read_path_part
from legato.server.openai.turns import ResponseTurn, derive_session_id, find_turn_or_404, find_workflow
from legato.server.session_registry import SessionRegistry

MAX_PAGE_ITEMS, DEFAULT_PAGE_ITEMS = 100, 20

DELETE_CONVERSATION = "delete the conversation: DELETE /v1/conversations/{id}"
REDACT = "redact its text with `legato redact` or session.redact()"


class ConversationBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /v1/conversations` and `POST /v1/conversations/{id}`."""

    metadata: dict[str, str] | UnsetType | None = UNSET
    items: list[Any] | None = None


class PageQuery(Struct, frozen=True):
    """The requested page of a list."""

    limit: int
    order: Literal["asc", "desc"]
    after: str


# -- conversations -----------------------------------------------------------------------------------------------------


async def create_conversation(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Create an empty conversation."""
    body = await read_openai_body(request, ConversationBody)
    if body.items:
        raise _needs_response("items")
    metadata = body.metadata or {}
    workflow = find_workflow(registry, metadata["workflow"], "metadata.workflow") if "workflow" in metadata else None
    if workflow is None and len(registry.workflows) > 1:
        served = ", ".join(registry.workflows)
        do = 'name it in the metadata: {"workflow": ...}; or send the first response with a new conversation id'
        raise InvalidRequest(
            "metadata.workflow", "the workflow of the conversation is missing, and several are served", expected=served, do=do
        )
    key, _ = read_delivery(request)
    chosen = workflow or next(iter(registry.workflows.values()))
    session = registry.create_session(chosen.name, metadata.get("session") or derive_session_id(chosen, key))
    try:
        await session.open()
    except LedgerExists:
        if not key or metadata.get("session"):
            raise
        await session.refresh()  # created by an earlier delivery of this request
    ignored = [f"metadata.{name}" for name in sorted(metadata) if name not in ("session", "workflow")]
    return json_response(_write_conversation(session, ignored))


async def retrieve_conversation(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Retrieve a conversation."""
    return json_response(_write_conversation(await _find_conversation(registry, request), []))


async def update_conversation(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Refuse to store metadata, which ledgers do not have."""
    await read_openai_body(request, ConversationBody)
    await _find_conversation(registry, request)
    raise InvalidRequest(
        "metadata", "metadata is not stored", code="unsupported_value", do="store it in your own database, by the conversation's id"
    )


async def delete_conversation(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Delete a conversation with its responses and its child sessions."""
    session = await _find_conversation(registry, request)
    await registry.store.delete(session.id)
    return json_response({"id": session.id, "object": "conversation.deleted", "deleted": True})


def _write_conversation(session: EngineSession, ignored: list[str]) -> dict[str, Any]:
    return {
        "id": session.id,
        "object": "conversation",
        "created_at": session.state.facts[0].at // 1000,
        "metadata": {},
        "legato": {"workflow": session.workflow.name, "status": session.status, "ignored": ignored},
    }


async def _find_conversation(registry: SessionRegistry, request: Request) -> EngineSession:
    id = read_path_part(request, "id")
    try:
        return registry.require_drivable(await registry.find_session(id))
    except UnknownLedger as unknown:
        raise InvalidRequest("conversation_id", unknown.summary, code="conversation_not_found", status=404) from None


# -- items -------------------------------------------------------------------------------------------------------------


async def list_conversation_items(registry: SessionRegistry, request: Request) -> ASGIApp:
    """List the items of a conversation."""
    page = _read_page(request)
    return json_response(_write_page(await build_conversation_items(await _find_conversation(registry, request)), page))


async def retrieve_conversation_item(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Retrieve one item of a conversation."""
    id = read_path_part(request, "item")
    for item in await build_conversation_items(await _find_conversation(registry, request)):
        if item["id"] == id:
            return json_response(item)
    raise _unknown_item(id, "item_id")


async def create_conversation_items(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Refuse to add items: they are added by creating a response, since the workflow answers every message."""
    await _find_conversation(registry, request)
    raise _needs_response("items")


async def delete_conversation_item(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Refuse to delete single items: later answers depend on recorded facts."""
    await _find_conversation(registry, request)
    raise InvalidRequest(
        "item_id",
        "single items cannot be deleted: later answers depend on recorded facts",
        code="unsupported_value",
        do=f"{DELETE_CONVERSATION}; or {REDACT}",
    )


async def list_input_items(registry: SessionRegistry, request: Request) -> ASGIApp:
    """List the input items of a response."""
    page = _read_page(request)
    return json_response(_write_page(await build_input_items(await find_turn_or_404(registry, read_path_part(request, "id"))), page))


def _needs_response(param: str) -> InvalidRequest:
    do = "create a response in the conversation, with the new items as its input"
    return InvalidRequest(
        param, "items are added by creating a response, since the workflow answers every message", code="unsupported_value", do=do
    )


def _unknown_item(id: str, param: str) -> InvalidRequest:
    return InvalidRequest(param, f"item {id[:200]!r} does not exist", code="item_not_found", status=404)


def _read_page(request: Request) -> PageQuery:
    query = {name: value for name, value in request.query_params.multi_items() if name not in ("include", "include[]")}
    if unknown := sorted(query.keys() - {"limit", "order", "after"}):
        raise InvalidRequest(unknown[0], f"unknown parameter: {unknown[0][:100]!r}", code="unknown_parameter")
    limit, order = query.get("limit", str(DEFAULT_PAGE_ITEMS)), query.get("order", "desc")
    if not (limit.isascii() and limit.isdigit() and len(limit) < 5 and 1 <= int(limit) <= MAX_PAGE_ITEMS):
        raise InvalidRequest("limit", "this is not a valid number of items", expected=f"1 to {MAX_PAGE_ITEMS}")
    if order != "asc" and order != "desc":
        raise InvalidRequest("order", "this order does not exist", expected="asc or desc")
    return PageQuery(int(limit), "asc" if order == "asc" else "desc", query.get("after", ""))


def _write_page(items: list[dict[str, Any]], page: PageQuery) -> dict[str, Any]:
    if page.order == "desc":
        items = items[::-1]
    start = 0
    if page.after:
        start = next((at + 1 for at, item in enumerate(items) if item["id"] == page.after), -1)
        if start < 0:
            raise _unknown_item(page.after, "after")
    selected = items[start : start + page.limit]
    first, last = (selected[0]["id"], selected[-1]["id"]) if selected else (None, None)
    return {"object": "list", "data": selected, "first_id": first, "last_id": last, "has_more": start + len(selected) < len(items)}


# -- responses ---------------------------------------------------------------------------------------------------------


async def delete_response(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Delete a response and its conversation. Refused if the conversation has other responses."""
    id = read_path_part(request, "id")
    turn = await find_turn_or_404(registry, id)
    session, do = turn.session, f"{DELETE_CONVERSATION}; or {REDACT}"
    if not _is_whole_conversation(turn):
        words = "the conversation has other responses, which depend on the recorded facts of this one"
        raise InvalidRequest("response_id", words, code="unsupported_value", do=do)
    children = {each.ledger: each.length for each in await registry.store.children(session.id)}
    try:
        await registry.store.delete(session.id, expected={session.id: session.state.length, **children})
    except LedgerConflict:
        raise InvalidRequest("response_id", "the conversation was continued meanwhile", code="conflict", status=409, do=do) from None
    return json_response({"id": id, "object": "response", "deleted": True})


def _is_whole_conversation(turn: ResponseTurn) -> bool:
    facts = turn.session.state.facts
    return not any(is_input(fact) for at, fact in enumerate(facts) if not turn.first_input <= at <= turn.last_input)


async def count_input_tokens(registry: SessionRegistry, request: Request) -> ASGIApp:
    """Refuse to count tokens: the input of a workflow's models is known only when they are requested."""
    raise InvalidRequest(
        "input",
        "the input of a workflow's models depends on its agents, tools, handoffs and history policies, and is known only when it runs",
        code="unsupported_value",
        do="see `usage` of a response: it has the tokens of all its models",
    )
