"""Items of a conversation as OpenAI's APIs list them: messages and answers of users, and the output of responses.

All items come from the ledger. An answered request is listed with its answer, at the answer's place; pending requests come last. Requests
of child sessions (agents that work as tools) are listed only while they are pending.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.core.facts import Decided, File, Image, MessageReceived, Part, Text
from legato.core.messages import render_content, to_parts
from legato.core.pending_requests import Pending
from legato.core.planner import make_plan
from legato.runtime.ledger import fold_in_slices
from legato.runtime.session import Session
from legato.server.moments import Ended, Spoke, is_input, recorded, rest_of
from legato.server.openai.api_objects import make_call_item, make_message_item, make_request_item
from legato.server.openai.item_ids import make_input_item_id, make_request_item_id
from legato.server.openai.turns import ResponseTurn


async def build_conversation_items(session: Session) -> list[dict[str, Any]]:
    """List all items of a conversation, in order."""
    moments = await recorded(session, 0, session.state.length)
    placed: list[tuple[int, dict[str, Any]]] = []
    for at, items in (await _build_inputs(session, range(session.state.length))).items():
        placed += [(at, item) for item in items]
    for moment in moments:
        if isinstance(moment, Spoke):
            placed.append((moment.position, make_message_item(session, moment)))
        elif isinstance(moment, Ended) and not moment.called.for_client:  # outputs of the client's tools are listed as its input
            placed.append((moment.position, make_call_item(session, moment)))
    placed.sort(key=lambda each: each[0])  # stable: an answer stays before the output of its call
    rest = rest_of(moments)
    pending = [make_request_item(session, request, rest.length) for request in rest.pending]
    return [*(item for _, item in placed), *pending]


async def build_input_items(turn: ResponseTurn) -> list[dict[str, Any]]:
    """List the input of a response: the message and the answers of its request, in order."""
    inputs = await _build_inputs(turn.session, range(turn.first_input, turn.last_input + 1))
    return [item for items in inputs.values() for item in items if item["type"] not in ("mcp_approval_request", "function_call")]


async def _build_inputs(session: Session, positions: range) -> dict[int, list[dict[str, Any]]]:
    """Return the input items at each of these positions. Answers come with the requests that they answer."""
    facts = session.state.facts
    items: dict[int, list[dict[str, Any]]] = {}
    for at in positions:
        fact = facts[at]
        if isinstance(fact, MessageReceived):
            items[at] = [_make_user_item(session, fact, at)]
        elif is_input(fact):
            items[at] = []  # filled below
    answered = [at for at, listed in items.items() if not listed]
    if answered:
        state = await fold_in_slices(facts[: answered[0]], session.id)
        graph = session.workflow.definition.graph
        for at in range(answered[0], answered[-1] + 1):
            fact = facts[at]
            if at in items and isinstance(fact, Decided):
                requests = (request for request in make_plan(state, graph).requests if _is_answer_to(fact, request))
                items[at] = [item for request in requests for item in _make_answer_items(session, request, fact, at)]
            state.apply(fact)
    return items


def _is_answer_to(fact: Decided, request: Pending) -> bool:
    return (fact.kind, fact.call, fact.limit) == (request.kind, request.call, request.limit)


def _make_user_item(session: Session, message: MessageReceived, position: int) -> dict[str, Any]:
    return {
        "id": make_input_item_id("msg", session.state, session.id, position),
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [_write_part(part) for part in to_parts(message.content)],
        "legato": {"author": message.author},
    }


def _write_part(part: Part) -> dict[str, Any]:
    """Return a part of a message without its bytes, which the HTTP API serves by digest."""
    match part:
        case Text(text):
            return {"type": "input_text", "text": text}
        case Image(url=url, digest=digest):
            return {"type": "input_image", "image_url": url or None, "file_id": None, "detail": "auto", "legato": {"digest": digest}}
        case File(name=name, url=url, digest=digest):
            address = {"file_url": url} if url else {}
            return {"type": "input_file", "filename": name, **address, "file_id": None, "legato": {"digest": digest}}


def _make_answer_items(session: Session, request: Pending, fact: Decided, position: int) -> Iterator[dict[str, Any]]:
    yield make_request_item(session, request, position)
    extra = {"legato": {"verdict": fact.verdict}}
    if request.kind == "result":
        id = make_input_item_id("fco", session.state, session.id, position)
        name = make_request_item_id("call", session.state, session.id, request, position)
        words = render_content(fact.output) or fact.reason
        yield {"id": id, "type": "function_call_output", "call_id": name, "output": words, "status": "completed", **extra}
        return
    yield {
        "id": make_input_item_id("mcpa", session.state, session.id, position),
        "type": "mcp_approval_response",
        "approval_request_id": make_request_item_id("mcpr", session.state, session.id, request, position),
        "approve": fact.verdict != "reject",
        "reason": fact.reason or None,
        **extra,
    }
