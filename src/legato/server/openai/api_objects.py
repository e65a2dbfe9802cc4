"""Objects of OpenAI's APIs that represent text, calls and requests of a run.

Tools run on this server, like those of an MCP server that OpenAI calls. So calls are `mcp_call` items, and a pending approval is an
`mcp_approval_request`, which `mcp_approval_response` answers. A call whose result is supplied from outside is a `function_call`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from legato.core.facts import GuardrailJudged, MessageReceived, ModelReplied, Usage
from legato.core.groups import extract_refusal
from legato.core.pending_requests import Pending
from legato.core.turn_context import ToolSpec
from legato.inspection.secret_masks import mask_request_arguments
from legato.inspection.session_summaries import summarize_request
from legato.runtime.session import Session
from legato.server.moments import Ended, Spoke
from legato.server.openai.item_ids import find_approval_item_id, make_call_item_id, make_reply_item_id, make_request_item_id


def make_message_item(session: Session, spoke: Spoke) -> dict[str, Any]:
    """Return a message of an agent."""
    refusal = find_refusal(session, spoke)
    return {
        "id": make_reply_item_id(session.state, session.id, spoke.reply, spoke.position),
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "refusal", "refusal": refusal} if refusal else make_text_part(spoke.text)],
        "legato": {"agent": spoke.agent},
    }


def find_refusal(session: Session, spoke: Spoke) -> str:
    """Return the text with which a model or guardrail declined to answer in the requested format; empty if none did.

    Without a requested format, a refusal is normal text, since it was streamed as such.
    """
    state = session.state
    fact = state.facts[spoke.position]
    if isinstance(fact, GuardrailJudged):
        message = state.facts[fact.position]
        return spoke.text if isinstance(message, MessageReceived) and message.options is not None and message.options.typed else ""
    return extract_refusal(fact) if isinstance(fact, ModelReplied) and state.options_of_reply(spoke.position).typed else ""


def make_tool_object(tool: ToolSpec) -> dict[str, Any]:
    """Return a tool of the client. `strict` is true because calls always fit the schema."""
    parameters = msgspec.json.decode(tool.parameters)
    return {"type": "function", "name": tool.name, "description": tool.description or None, "parameters": parameters, "strict": True}


def make_format_object(schema: str) -> dict[str, Any]:
    """Return the format of the answer."""
    if not schema:
        return {"type": "text"}
    return {"type": "json_schema", "name": "answer", "schema": msgspec.json.decode(schema), "strict": True, "description": None}


def make_text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def make_call_item(session: Session, ended: Ended) -> dict[str, Any]:
    """Return a call that has its output."""
    called, is_ok = ended.called, ended.status == "ok"
    return {
        "id": make_call_item_id(session.state, session.id, called.call),
        "type": "mcp_call",
        "server_label": called.agent,
        "name": called.tool,
        "arguments": called.arguments,
        "output": ended.output if is_ok else None,
        "error": None if is_ok else {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": ended.output}]},
        "status": "completed" if is_ok else "failed",
        "approval_request_id": find_approval_item_id(session.state, session.id, called.call),
        "legato": {"agent": called.agent, "status": ended.status},
    }


def make_request_item(session: Session, request: Pending, length: int) -> dict[str, Any]:
    """Return a pending request, which was made when the ledger had `length` facts."""
    fields = {
        "name": request.tool or f"limit_of_{request.limit}",
        "arguments": arguments_for_client(request) if request.for_client else mask_request_arguments(session, request) or "{}",
        "legato": summarize_request(session, request),
    }
    if request.kind == "result":
        id, call_id = (make_request_item_id(prefix, session.state, session.id, request, length) for prefix in ("fc", "call"))
        return {"id": id, "type": "function_call", "call_id": call_id, "status": "completed", **fields}
    id = make_request_item_id("mcpr", session.state, session.id, request, length)
    return {"id": id, "type": "mcp_approval_request", "server_label": request.agent, **fields}


def arguments_for_client(request: Pending) -> str:
    """Return all arguments of a call, including secret ones, for the client that runs it."""
    return request.raw_arguments.strip() or "{}"


def make_responses_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.written},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def make_chat_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens": usage.output,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def make_legato_field(session: Session, status: str, pending: tuple[Pending, ...], ignored: list[str]) -> dict[str, Any]:
    """Return the fields that OpenAI's objects do not have."""
    return {
        "session": session.id,
        "status": status,
        "pending": [summarize_request(session, request) for request in pending],
        "ignored": ignored,
    }


def find_finish_reason(session: Session, upto: int, since: int) -> str:
    """Return how the last reply in a range of facts ended: "stop", "length" or "filter"."""
    facts = session.state.facts
    return next((fact.finish for at in range(upto - 1, since - 1, -1) if isinstance(fact := facts[at], ModelReplied)), "stop")
