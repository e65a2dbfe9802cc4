"""What clients of OpenAI's APIs are shown of a run. May know: moments, and the objects of both APIs. Decides: what words, calls and
questions are called there.

Tools run here, as those of an MCP server do that OpenAI calls itself; so calls are `mcp_call` items, and a call that waits for a person is
an `mcp_approval_request`, which `mcp_approval_response` answers. A tool whose result comes from elsewhere is a `function_call`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from legato.core.facts import GuardrailJudged, MessageReceived, ModelReplied, Usage
from legato.core.groups import refusal_of
from legato.core.pending_requests import Pending
from legato.core.turn_context import ToolSpec
from legato.inspection.hiding import shown_arguments
from legato.inspection.listing import question
from legato.runtime.session import Session
from legato.server.openai.item_ids import approval_item_id, call_item_id, reply_item_id, request_item_id
from legato.server.telling import Ended, Spoke


def message_item(session: Session, spoke: Spoke) -> dict[str, Any]:
    """What an agent said."""
    refusal = refusal_in(session, spoke)
    return {
        "id": reply_item_id(session.state, session.id, spoke.reply, spoke.position),
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "refusal", "refusal": refusal} if refusal else text_part(spoke.text)],
        "legato": {"agent": spoke.agent},
    }


def refusal_in(session: Session, spoke: Spoke) -> str:
    """The words in which a model, or a guardrail, declined to answer in the format that was asked for; empty if none did.

    Where no format was asked for, its words were streamed as all others.
    """
    state = session.state
    fact = state.facts[spoke.position]
    if isinstance(fact, GuardrailJudged):
        message = state.facts[fact.position]
        return spoke.text if isinstance(message, MessageReceived) and message.options is not None and message.options.typed else ""
    return refusal_of(fact) if isinstance(fact, ModelReplied) and state.options_of(spoke.position).typed else ""


def tool_shape(tool: ToolSpec) -> dict[str, Any]:
    """A tool of the client. A call always fits its schema, which is what `strict` says."""
    parameters = msgspec.json.decode(tool.parameters)
    return {"type": "function", "name": tool.name, "description": tool.description or None, "parameters": parameters, "strict": True}


def format_shape(schema: str) -> dict[str, Any]:
    """The format of the answer."""
    if not schema:
        return {"type": "text"}
    return {"type": "json_schema", "name": "answer", "schema": msgspec.json.decode(schema), "strict": True, "description": None}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def call_item(session: Session, ended: Ended) -> dict[str, Any]:
    """A call that has its output."""
    called, well = ended.called, ended.status == "ok"
    return {
        "id": call_item_id(session.state, session.id, called.call),
        "type": "mcp_call",
        "server_label": called.agent,
        "name": called.tool,
        "arguments": called.arguments,
        "output": ended.output if well else None,
        "error": None if well else {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": ended.output}]},
        "status": "completed" if well else "failed",
        "approval_request_id": approval_item_id(session.state, session.id, called.call),
        "legato": {"agent": called.agent, "status": ended.status},
    }


def request_item(session: Session, request: Pending, length: int) -> dict[str, Any]:
    """What somebody has to decide, asked when the ledger had so many facts."""
    about = {
        "name": request.tool or f"limit_of_{request.limit}",
        "arguments": client_arguments(request) if request.for_client else shown_arguments(session, request) or "{}",
        "legato": question(session, request),
    }
    if request.kind == "result":
        id, call_id = (request_item_id(prefix, session.state, session.id, request, length) for prefix in ("fc", "call"))
        return {"id": id, "type": "function_call", "call_id": call_id, "status": "completed", **about}
    id = request_item_id("mcpr", session.state, session.id, request, length)
    return {"id": id, "type": "mcp_approval_request", "server_label": request.agent, **about}


def client_arguments(request: Pending) -> str:
    """The arguments of a call for the client that runs it: all of them, also those that nobody else is shown."""
    return request.raw_arguments.strip() or "{}"


def responses_usage(used: Usage) -> dict[str, Any]:
    return {
        "input_tokens": used.input,
        "input_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": used.written},
        "output_tokens": used.output,
        "output_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": used.total,
    }


def chat_usage(used: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": used.input,
        "prompt_tokens_details": {"cached_tokens": used.cached},
        "completion_tokens": used.output,
        "completion_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": used.total,
    }


def legato_field(session: Session, status: str, pending: tuple[Pending, ...], ignored: list[str]) -> dict[str, Any]:
    """What has no place in OpenAI's objects."""
    return {
        "session": session.id,
        "status": status,
        "pending": [question(session, request) for request in pending],
        "ignored": ignored,
    }


def finish_of(session: Session, upto: int, since: int) -> str:
    """How the last reply in between ended: "stop", "length" or "filter"."""
    facts = session.state.facts
    return next((fact.finish for at in range(upto - 1, since - 1, -1) if isinstance(fact := facts[at], ModelReplied)), "stop")
