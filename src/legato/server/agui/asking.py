"""Requests as AG-UI's interrupts, and what comes back. May know: pending requests, and the protocol. Decides: form and record.

A client has to answer all interrupts of a run at once; some do not, and somebody else may have answered one meanwhile. So each answer is
recorded by itself, at once, and what is still pending is asked again. An interrupt's id is bound to the arguments that were shown.
"""

from __future__ import annotations

from typing import Any

from ag_ui.core import Interrupt, ResumeEntry
from msgspec import to_builtins
from pydantic_core import to_json

from legato.core.digests import digest_bytes
from legato.core.pending_requests import Pending
from legato.engines.contract import Submitted
from legato.errors import BadInput, NotPending
from legato.inspection.hiding import unhidden
from legato.inspection.listing import question
from legato.runtime.session import Session
from legato.server.agui.names import call_id
from legato.server.naming import bound, find_request, meant

REASONS = {"approval": "tool_call", "outcome": "tool_call", "result": "input_required", "limit": "confirmation"}
ABANDONED = "The user left the question without an answer."

APPROVED = {"type": "boolean", "description": "Whether it may be done."}
REASON = {"type": "string", "description": "Why not, for the model."}
RESULT = {"description": "What came of it."}


def interrupt_of(session: Session, request: Pending, subagent: str | None) -> Interrupt:
    """A request, for a client to answer."""
    asked = question(session, request)
    own = request.call if request.session == session.id else None
    return Interrupt(
        id=bound(request),
        reason=REASONS[request.kind],
        message=request.prompt,
        tool_call_id=call_id(session.state, own) if own else None,
        response_schema=_schema(request.kind, asked.schema),
        metadata={"legato": to_builtins(asked)},
        subagent_run_id=subagent if own else None,
    )


def _schema(kind: str, arguments: Any) -> dict[str, Any]:
    properties: dict[str, Any] = {"approved": APPROVED, "reason": REASON}
    match kind:
        case "approval":
            always = {"type": "boolean", "description": "Approve all later calls of this tool by this agent in this session, too."}
            properties |= {"editedArgs": arguments or {"type": "object"}, "always": always}
            return {"type": "object", "properties": properties, "required": ["approved"]}
        case "result":
            return {"type": "object", "properties": {"result": RESULT, **properties}}
        case "outcome":
            return {"type": "object", "properties": {**properties, "result": RESULT}}
        case _:
            return {"type": "object", "properties": properties, "required": ["approved"]}


async def resumed(session: Submitted, entries: list[ResumeEntry]) -> list[str]:
    """Record what was decided; and say of what it was not: somebody was first, or it was for other arguments."""
    too_late, counted, why = list[str](), 0, None
    for entry in entries:
        try:
            await _decide(session, entry)
            counted += 1
        except NotPending as error:
            too_late.append(entry.interrupt_id)
            why = error
    if why is not None and not counted and (await session.refresh()).status == "pending":
        raise why  # nothing of it was for what is pending
    return too_late


async def _decide(session: Submitted, entry: ResumeEntry) -> None:
    request, key = meant(entry.interrupt_id), _key(entry)
    asked = find_request(session, request.id, key)
    if asked is None:
        raise NotPending(f"{request.id!r} is not pending in session {session.id!r}", do="nothing was changed")
    given = _given(entry)
    if entry.status == "cancelled":
        await session.reject(request, ABANDONED, key=key)
    elif "result" in given and asked.kind in ("result", "outcome"):
        await session.answer(request, given["result"], key=key)
    elif given.get("approved") is False:
        await session.reject(request, _words(given), key=key)
    elif given.get("approved") is True and asked.kind != "result":
        await _approve(session, request, asked, given, key)
    else:
        raise BadInput("this does not answer the question", expected="what responseSchema says", found=repr(entry.payload)[:80])


async def _approve(session: Submitted, request: Pending, asked: Pending, given: dict[str, Any], key: str) -> None:
    edited = given.get("editedArgs")
    if edited is None:
        await session.approve(request, always=given.get("always") is True, key=key)
        return
    if not isinstance(edited, dict):
        raise BadInput("editedArgs are all arguments of the call, as an object", found=type(edited).__name__)
    exact = unhidden(session, asked, edited)
    if exact == asked.arguments:
        await session.approve(request, key=key)
    else:
        await session.edit(request, exact, key=key)


def _key(entry: ResumeEntry) -> str:
    """The same for the same answer, and another for another one: that comes too late."""
    given = to_json({"status": entry.status, "payload": entry.payload}, fallback=str)
    return f"resume {entry.interrupt_id} {digest_bytes(given)[:16]}"


def _given(entry: ResumeEntry) -> dict[str, Any]:
    if isinstance(entry.payload, bool):
        return {"approved": entry.payload}
    return entry.payload if isinstance(entry.payload, dict) else {}


def _words(given: dict[str, Any]) -> str:
    reason = given.get("reason") or ""
    if not isinstance(reason, str):
        raise BadInput("a reason is text", found=type(reason).__name__)
    return reason
