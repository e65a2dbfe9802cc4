"""Requests as MCP clients see and answer them. May know: pending requests. Decides: what is shown, and which form is filled in.

What is shown of a call's arguments hides secrets, as everywhere. An answer points at a pending request by its id; it can never supply a
call. A person who dismisses a form has decided nothing: the request stays pending.
"""

from __future__ import annotations

from typing import Any

from mcp.types import ElicitRequestFormParams, ElicitResult
from msgspec import Struct

from legato.core.pending_requests import Pending
from legato.inspection.answers import give_answer
from legato.inspection.hiding import plain_arguments
from legato.runtime.session import Session


class Answer(Struct, frozen=True):
    """What somebody decided about a request."""

    decision: str
    words: str = ""
    arguments: dict[str, Any] | None = None


def shown(session: Session, request: Pending) -> dict[str, Any]:
    """A request, for clients."""
    told: dict[str, Any] = {"id": request.id, "kind": request.kind, "prompt": request.prompt, "agent": request.agent}
    if request.call is not None:
        told |= {"tool": request.tool, "digest": request.digest}
        if isinstance(arguments := plain_arguments(session, request), dict):
            told["arguments"] = arguments
    return told


def form(request: Pending) -> ElicitRequestFormParams:
    """The form by which a person decides about a request."""
    about = {"answer": "the answer", "reject": "why not"}
    verdicts = [verdict for verdict in request.verdicts if verdict != "edit"]  # which needs arguments: for the tool that answers
    words = ", or ".join(about[verdict] for verdict in verdicts if verdict in about)
    properties = {
        "decision": {"type": "string", "enum": verdicts, "description": "What is to be done."},
        "words": {"type": "string", "description": f"If you like: {words}."},
    }
    schema = {"type": "object", "properties": properties, "required": ["decision"]}
    return ElicitRequestFormParams(message=request.prompt, requested_schema=schema)


def filled_in(result: object) -> Answer | None:
    """What a form was answered with; None if nothing was decided."""
    if not isinstance(result, ElicitResult) or result.action == "cancel":
        return None
    if result.action == "decline":
        return Answer("reject")
    content = result.content or {}
    decision, words = content.get("decision"), content.get("words", "")
    if not isinstance(decision, str):
        return None
    return Answer(decision, words if isinstance(words, str) else "")


async def decide(session: Session, request: str, answer: Answer) -> None:
    """Record what was decided; `NotPending` if that cannot be decided (any more)."""
    await give_answer(session, request, answer.decision, words=answer.words, arguments=answer.arguments, value=answer.words)
