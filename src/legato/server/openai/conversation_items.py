"""Items of a conversation as OpenAI's APIs list them: messages and answers of users, and the output of responses.

All of them come from the ledger. A request that was answered is listed with its answer, at the place of the answer; one that waits, at the
end. A request that another conversation asked (an agent that works as a tool) is listed while it waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.core.facts import Decided, File, Image, MessageReceived, Part, Text
from legato.core.messages import parts_of, text_of
from legato.core.pending_requests import Pending
from legato.core.planner import plan
from legato.runtime.ledger import fold_in_slices
from legato.runtime.session import Session
from legato.server.openai.item_ids import given_item_id, request_item_id
from legato.server.openai.shapes import call_item, message_item, request_item
from legato.server.openai.turns import Turn
from legato.server.telling import Ended, Spoke, is_input, recorded, rest_of


async def conversation_items(session: Session) -> list[dict[str, Any]]:
    """List all items of a conversation, in order."""
    told = await recorded(session, 0, session.state.length)
    placed: list[tuple[int, dict[str, Any]]] = []
    for at, items in (await _list_given(session, range(session.state.length))).items():
        placed += [(at, item) for item in items]
    for moment in told:
        if isinstance(moment, Spoke):
            placed.append((moment.position, message_item(session, moment)))
        elif isinstance(moment, Ended) and not moment.called.for_client:  # the client's own output stands where it was given
            placed.append((moment.position, call_item(session, moment)))
    placed.sort(key=lambda each: each[0])  # stable: an answer comes before the output of the call that it answers
    rest = rest_of(told)
    waiting = [request_item(session, request, rest.length) for request in rest.pending]
    return [*(item for _, item in placed), *waiting]


async def input_items(turn: Turn) -> list[dict[str, Any]]:
    """List what was given to a response: the message and the answers of its request, in order."""
    given = await _list_given(turn.session, range(turn.since, turn.after + 1))
    return [item for items in given.values() for item in items if item["type"] not in ("mcp_approval_request", "function_call")]


async def _list_given(session: Session, positions: range) -> dict[int, list[dict[str, Any]]]:
    """List what was given to the session from outside at these positions; answers with the requests that they were given to."""
    facts = session.state.facts
    items: dict[int, list[dict[str, Any]]] = {}
    for at in positions:
        fact = facts[at]
        if isinstance(fact, MessageReceived):
            items[at] = [_user_item(session, fact, at)]
        elif is_input(fact):
            items[at] = []  # filled below
    answered = [at for at, found in items.items() if not found]
    if answered:
        state = await fold_in_slices(facts[: answered[0]], session.id)
        graph = session.workflow.definition.graph
        for at in range(answered[0], answered[-1] + 1):
            fact = facts[at]
            if at in items and isinstance(fact, Decided):
                asked = (request for request in plan(state, graph).requests if _answers(fact, request))
                items[at] = [item for request in asked for item in _answer_items(session, request, fact, at)]
            state.apply(fact)
    return items


def _answers(fact: Decided, request: Pending) -> bool:
    return (fact.kind, fact.call, fact.limit) == (request.kind, request.call, request.limit)


def _user_item(session: Session, said: MessageReceived, position: int) -> dict[str, Any]:
    return {
        "id": given_item_id("msg", session.state, session.id, position),
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [_write_part(part) for part in parts_of(said.content)],
        "legato": {"author": said.author},
    }


def _write_part(part: Part) -> dict[str, Any]:
    """Write a part of a message without bytes, which the HTTP API has by their digest."""
    match part:
        case Text(text):
            return {"type": "input_text", "text": text}
        case Image(url=url, digest=digest):
            return {"type": "input_image", "image_url": url or None, "file_id": None, "detail": "auto", "legato": {"digest": digest}}
        case File(name=name, url=url, digest=digest):
            address = {"file_url": url} if url else {}
            return {"type": "input_file", "filename": name, **address, "file_id": None, "legato": {"digest": digest}}


def _answer_items(session: Session, request: Pending, fact: Decided, position: int) -> Iterator[dict[str, Any]]:
    yield request_item(session, request, position)
    about = {"legato": {"verdict": fact.verdict}}
    if request.kind == "result":
        id = given_item_id("fco", session.state, session.id, position)
        name = request_item_id("call", session.state, session.id, request, position)
        words = text_of(fact.output) or fact.words
        yield {"id": id, "type": "function_call_output", "call_id": name, "output": words, "status": "completed", **about}
        return
    yield {
        "id": given_item_id("mcpa", session.state, session.id, position),
        "type": "mcp_approval_response",
        "approval_request_id": request_item_id("mcpr", session.state, session.id, request, position),
        "approve": fact.verdict != "reject",
        "reason": fact.words or None,
        **about,
    }
