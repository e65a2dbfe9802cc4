"""Pending requests as AG-UI's interrupts, and the answers that clients send to resume.

The protocol wants all interrupts of a run answered at once, but some clients do not, and another caller may answer one meanwhile. So each
answer is recorded by itself, and requests that are still pending become interrupts again. An interrupt's id contains the digest of its
arguments.
"""

from __future__ import annotations

from typing import Any

from ag_ui.core import Interrupt, ResumeEntry
from msgspec import to_builtins
from pydantic_core import to_json

from legato.core.digests import digest_bytes
from legato.core.pending_requests import Pending
from legato.engines.engine import EngineSession
from legato.errors import BadInput, NotPending
from legato.inspection.secret_masks import restore_secrets
from legato.inspection.session_summaries import summarize_request
from legato.runtime.session import Session
from legato.server.agui.ids import make_call_id
from legato.server.protocol_ids import decode_request_name, encode_request_name, find_request

INTERRUPT_REASONS = {"approval": "tool_call", "outcome": "tool_call", "result": "input_required", "limit": "confirmation"}
ABANDONED_REASON = "The user left the question without an answer."

APPROVED_SCHEMA = {"type": "boolean", "description": "Whether it may be done."}
REASON_SCHEMA = {"type": "string", "description": "Why not, for the model."}
RESULT_SCHEMA = {"description": "What came of it."}


def make_interrupt(session: Session, request: Pending, subagent: str | None) -> Interrupt:
    """Return a pending request as an interrupt."""
    summary = summarize_request(session, request)
    own_call = request.call if request.session == session.id else None
    return Interrupt(
        id=encode_request_name(request),
        reason=INTERRUPT_REASONS[request.kind],
        message=request.prompt,
        tool_call_id=make_call_id(session.state, own_call) if own_call else None,
        response_schema=_make_response_schema(request.kind, summary.schema),
        metadata={"legato": to_builtins(summary)},
        subagent_run_id=subagent if own_call else None,
    )


def _make_response_schema(kind: str, arguments: Any) -> dict[str, Any]:
    properties: dict[str, Any] = {"approved": APPROVED_SCHEMA, "reason": REASON_SCHEMA}
    match kind:
        case "approval":
            always = {"type": "boolean", "description": "Approve all later calls of this tool by this agent in this session, too."}
            properties |= {"editedArgs": arguments or {"type": "object"}, "always": always}
            return {"type": "object", "properties": properties, "required": ["approved"]}
        case "result":
            return {"type": "object", "properties": {"result": RESULT_SCHEMA, **properties}}
        case "outcome":
            return {"type": "object", "properties": {**properties, "result": RESULT_SCHEMA}}
        case _:
            return {"type": "object", "properties": properties, "required": ["approved"]}


async def apply_resume(session: EngineSession, entries: list[ResumeEntry]) -> list[str]:
    """Record the answers, and return the ids of interrupts that are not pending: answered before, or with other arguments."""
    not_pending, recorded, last_error = list[str](), 0, None
    for entry in entries:
        try:
            await _apply_entry(session, entry)
            recorded += 1
        except NotPending as error:
            not_pending.append(entry.interrupt_id)
            last_error = error
    if last_error is not None and not recorded and (await session.refresh()).status == "pending":
        raise last_error  # requests are pending, and none of the answers is for them
    return not_pending


async def _apply_entry(session: EngineSession, entry: ResumeEntry) -> None:
    reference, key = decode_request_name(entry.interrupt_id), _delivery_key(entry)
    pending = find_request(session, reference.id, key)
    if pending is None:
        raise NotPending(f"{reference.id!r} is not pending in session {session.id!r}", do="nothing was changed")
    payload = _read_payload(entry)
    if entry.status == "cancelled":
        await session.reject(reference, ABANDONED_REASON, key=key)
    elif "result" in payload and pending.kind in ("result", "outcome"):
        await session.answer(reference, payload["result"], key=key)
    elif payload.get("approved") is False:
        await session.reject(reference, _read_reason(payload), key=key)
    elif payload.get("approved") is True and pending.kind != "result":
        await _approve(session, reference, pending, payload, key)
    else:
        raise BadInput(
            "the payload does not answer the interrupt", expected="a payload that fits responseSchema", found=repr(entry.payload)[:80]
        )


async def _approve(session: EngineSession, reference: Pending, pending: Pending, payload: dict[str, Any], key: str) -> None:
    edited = payload.get("editedArgs")
    if edited is None:
        await session.approve(reference, always=payload.get("always") is True, key=key)
        return
    if not isinstance(edited, dict):
        raise BadInput("editedArgs must be an object with all arguments of the call", found=type(edited).__name__)
    exact = restore_secrets(session, pending, edited)
    if exact == pending.arguments:
        await session.approve(reference, key=key)
    else:
        await session.edit(reference, exact, key=key)


def _delivery_key(entry: ResumeEntry) -> str:
    """Return a key that is the same for the same answer, so that a repeated one is recorded once."""
    content = to_json({"status": entry.status, "payload": entry.payload}, fallback=str)
    return f"resume {entry.interrupt_id} {digest_bytes(content)[:16]}"


def _read_payload(entry: ResumeEntry) -> dict[str, Any]:
    if isinstance(entry.payload, bool):
        return {"approved": entry.payload}
    return entry.payload if isinstance(entry.payload, dict) else {}


def _read_reason(payload: dict[str, Any]) -> str:
    reason = payload.get("reason") or ""
    if not isinstance(reason, str):
        raise BadInput("a reason must be text", found=type(reason).__name__)
    return reason
