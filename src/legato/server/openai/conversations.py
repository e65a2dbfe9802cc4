"""Conversations and their items over OpenAI's API. Decides: what of it a ledger can do, and why the rest is refused.

A conversation is a session. What is said in it is answered, by its workflow, and what was recorded stays; so nothing is added to it but by
a response, and single items are not deleted.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request
from starlette.types import ASGIApp

from legato.engines.contract import Submitted
from legato.errors import LedgerConflict, LedgerExists, UnknownLedger
from legato.server.answering import answer
from legato.server.openai.asked import path_part, read_delivery, read_openai_body
from legato.server.openai.conversation_items import conversation_items, input_items
from legato.server.openai.errors import Wrong
from legato.server.openai.turns import Turn, derived_session_id, response_named, workflow_named
from legato.server.serving import Serving
from legato.server.telling import is_input

MAX_PAGE_ITEMS, USUAL_PAGE_ITEMS = 100, 20

DELETE_CONVERSATION = "delete the conversation: DELETE /v1/conversations/{id}"
REDACT = "erase its words with `legato redact` or session.redact()"


class ConversationBody(Struct, frozen=True, forbid_unknown_fields=True):
    """`POST /v1/conversations`, which makes one, and `POST /v1/conversations/{id}`, which would change its metadata."""

    metadata: dict[str, str] | UnsetType | None = UNSET
    items: list[Any] | None = None


class Page(Struct, frozen=True):
    """The part of a list that a client asks for."""

    limit: int
    order: Literal["asc", "desc"]
    after: str


# -- conversations -----------------------------------------------------------------------------------------------------


async def create_conversation(serving: Serving, request: Request) -> ASGIApp:
    """Make a conversation, in which nothing has been said yet."""
    body = await read_openai_body(request, ConversationBody)
    if body.items:
        raise _needs_response("items")
    metadata = body.metadata or {}
    workflow = workflow_named(serving, metadata["workflow"], "metadata.workflow") if "workflow" in metadata else None
    if workflow is None and len(serving.workflows) > 1:
        served = ", ".join(serving.workflows)
        do = 'name it in the metadata: {"workflow": ...}; or make none, and name a new id in the first response'
        raise Wrong("metadata.workflow", "a conversation belongs to one of several workflows", expected=served, do=do)
    key, _ = read_delivery(request)
    chosen = workflow or next(iter(serving.workflows.values()))
    session = serving.begin(chosen.name, metadata.get("session") or derived_session_id(chosen, key))
    try:
        await session.open()
    except LedgerExists:
        if not key or metadata.get("session"):
            raise
        await session.refresh()  # the same delivery came before
    ignored = [f"metadata.{name}" for name in sorted(metadata) if name not in ("session", "workflow")]
    return answer(_write_conversation(session, ignored))


async def retrieve_conversation(serving: Serving, request: Request) -> ASGIApp:
    """Look at a conversation."""
    return answer(_write_conversation(await _find_conversation(serving, request), []))


async def update_conversation(serving: Serving, request: Request) -> ASGIApp:
    """Refused: metadata is not kept."""
    await read_openai_body(request, ConversationBody)
    await _find_conversation(serving, request)
    raise Wrong("metadata", "metadata is not kept: a ledger has what happened", code="unsupported_value", do="keep it beside the id")


async def delete_conversation(serving: Serving, request: Request) -> ASGIApp:
    """Delete a conversation, with its responses and the conversations of agents that worked in it as tools."""
    session = await _find_conversation(serving, request)
    await serving.store.delete(session.id)
    return answer({"id": session.id, "object": "conversation.deleted", "deleted": True})


def _write_conversation(session: Submitted, ignored: list[str]) -> dict[str, Any]:
    return {
        "id": session.id,
        "object": "conversation",
        "created_at": session.state.facts[0].at // 1000,
        "metadata": {},
        "legato": {"workflow": session.workflow.name, "status": session.status, "ignored": ignored},
    }


async def _find_conversation(serving: Serving, request: Request) -> Submitted:
    id = path_part(request, "id")
    try:
        return serving.drivable(await serving.session(id))
    except UnknownLedger as unknown:
        raise Wrong("conversation_id", unknown.summary, code="conversation_not_found", status=404) from None


# -- items -------------------------------------------------------------------------------------------------------------


async def list_conversation_items(serving: Serving, request: Request) -> ASGIApp:
    """List the items of a conversation."""
    page = _read_page(request)
    return answer(_write_page(await conversation_items(await _find_conversation(serving, request)), page))


async def retrieve_conversation_item(serving: Serving, request: Request) -> ASGIApp:
    """Look at one item of a conversation."""
    id = path_part(request, "item")
    for item in await conversation_items(await _find_conversation(serving, request)):
        if item["id"] == id:
            return answer(item)
    raise _unknown_item(id, "item_id")


async def create_conversation_items(serving: Serving, request: Request) -> ASGIApp:
    """Refused: what is said in a conversation is answered, so it is said by a response."""
    await _find_conversation(serving, request)
    raise _needs_response("items")


async def delete_conversation_item(serving: Serving, request: Request) -> ASGIApp:
    """Refused: what was recorded stays, since later answers rest on it."""
    await _find_conversation(serving, request)
    raise Wrong(
        "item_id",
        "single items are not deleted: what was recorded stays, since later answers rest on it",
        code="unsupported_value",
        do=f"{DELETE_CONVERSATION}; or {REDACT}",
    )


async def list_input_items(serving: Serving, request: Request) -> ASGIApp:
    """List what was given to a response by its request."""
    page = _read_page(request)
    return answer(_write_page(await input_items(await response_named(serving, path_part(request, "id"))), page))


def _needs_response(param: str) -> Wrong:
    do = "create a response in the conversation, with what is to be said as its input"
    return Wrong(param, "what is said in a conversation is answered, so it comes with a response", code="unsupported_value", do=do)


def _unknown_item(id: str, param: str) -> Wrong:
    return Wrong(param, f"there is no item {id[:200]!r} here", code="item_not_found", status=404)


def _read_page(request: Request) -> Page:
    asked = {name: value for name, value in request.query_params.multi_items() if name not in ("include", "include[]")}
    if unknown := sorted(asked.keys() - {"limit", "order", "after"}):
        raise Wrong(unknown[0], f"unknown parameter: {unknown[0][:100]!r}", code="unknown_parameter")
    limit, order = asked.get("limit", str(USUAL_PAGE_ITEMS)), asked.get("order", "desc")
    if not (limit.isascii() and limit.isdigit() and len(limit) < 5 and 1 <= int(limit) <= MAX_PAGE_ITEMS):
        raise Wrong("limit", "this is no number of items", expected=f"1 to {MAX_PAGE_ITEMS}")
    if order != "asc" and order != "desc":
        raise Wrong("order", "there is no such order", expected="asc or desc")
    return Page(int(limit), "asc" if order == "asc" else "desc", asked.get("after", ""))


def _write_page(items: list[dict[str, Any]], page: Page) -> dict[str, Any]:
    if page.order == "desc":
        items = items[::-1]
    start = 0
    if page.after:
        start = next((at + 1 for at, item in enumerate(items) if item["id"] == page.after), -1)
        if start < 0:
            raise _unknown_item(page.after, "after")
    shown = items[start : start + page.limit]
    first, last = (shown[0]["id"], shown[-1]["id"]) if shown else (None, None)
    return {"object": "list", "data": shown, "first_id": first, "last_id": last, "has_more": start + len(shown) < len(items)}


# -- responses ---------------------------------------------------------------------------------------------------------


async def delete_response(serving: Serving, request: Request) -> ASGIApp:
    """Delete a response that is all of its conversation, with that; any other one is refused."""
    id = path_part(request, "id")
    turn = await response_named(serving, id)
    session, do = turn.session, f"{DELETE_CONVERSATION}; or {REDACT}"
    if not _is_whole_conversation(turn):
        words = "this response is part of a conversation that has more, and what was recorded stays: other answers rest on it"
        raise Wrong("response_id", words, code="unsupported_value", do=do)
    children = {each.ledger: each.length for each in await serving.store.children(session.id)}
    try:
        await serving.store.delete(session.id, expected={session.id: session.state.length, **children})
    except LedgerConflict:
        raise Wrong("response_id", "the conversation went on just now", code="conflict", status=409, do=do) from None
    return answer({"id": id, "object": "response", "deleted": True})


def _is_whole_conversation(turn: Turn) -> bool:
    facts = turn.session.state.facts
    return not any(is_input(fact) for at, fact in enumerate(facts) if not turn.since <= at <= turn.after)


async def count_input_tokens(serving: Serving, request: Request) -> ASGIApp:
    """Refused: what the models of a workflow are sent is known when they are asked."""
    raise Wrong(
        "input",
        "what a workflow's models are sent is decided while it runs: by its agents' instructions, tools, handoffs and history policies",
        code="unsupported_value",
        do="look at `usage` of a response: it has what all its models used",
    )
