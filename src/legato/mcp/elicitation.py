"""Pending requests as MCP elicitation: the forms, and the answers that come back.

Secret arguments are masked. An answer refers to a pending request by its id and can never supply a call. If a person dismisses a form, the
request stays pending.
"""

from __future__ import annotations

from typing import Any

from mcp.types import ElicitRequestFormParams, ElicitResult
from msgspec import Struct

from legato.core.pending_requests import Pending
from legato.inspection.answers import record_answer
from legato.inspection.secret_masks import decode_masked_arguments
from legato.runtime.session import Session


class ElicitedAnswer(Struct, frozen=True):
    """A person's decision about a pending request."""

    decision: str
    words: str = ""
    arguments: dict[str, Any] | None = None


def describe_request(session: Session, request: Pending) -> dict[str, Any]:
    """Return a pending request as data for clients."""
    fields: dict[str, Any] = {"id": request.id, "kind": request.kind, "prompt": request.prompt, "agent": request.agent}
    if request.call is not None:
        fields |= {"tool": request.tool, "digest": request.digest}
        if isinstance(arguments := decode_masked_arguments(session, request), dict):
            fields["arguments"] = arguments
    return fields


def make_form(request: Pending) -> ElicitRequestFormParams:
    """Return the form with which a person decides about a request."""
    labels = {"answer": "the answer", "reject": "why not"}
    verdicts = [verdict for verdict in request.verdicts if verdict != "edit"]  # an edit needs arguments: only the answer tool takes them
    words = ", or ".join(labels[verdict] for verdict in verdicts if verdict in labels)
    properties = {
        "decision": {"type": "string", "enum": verdicts, "description": "What is to be done."},
        "words": {"type": "string", "description": f"If you like: {words}."},
    }
    schema = {"type": "object", "properties": properties, "required": ["decision"]}
    return ElicitRequestFormParams(message=request.prompt, requested_schema=schema)


def read_form_result(result: object) -> ElicitedAnswer | None:
    """Return the decision in a submitted form; None if the form was dismissed."""
    if not isinstance(result, ElicitResult) or result.action == "cancel":
        return None
    if result.action == "decline":
        return ElicitedAnswer("reject")
    content = result.content or {}
    decision, words = content.get("decision"), content.get("words", "")
    if not isinstance(decision, str):
        return None
    return ElicitedAnswer(decision, words if isinstance(words, str) else "")


async def record_elicited_answer(session: Session, request: str, answer: ElicitedAnswer) -> None:
    """Record a decision; raises `NotPending` if the request is not pending (any more)."""
    await record_answer(session, request, answer.decision, message=answer.words, arguments=answer.arguments, value=answer.words)
