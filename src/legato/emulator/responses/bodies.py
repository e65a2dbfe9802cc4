"""The response object. May know: the request in hand. Decides: nothing; it tells what was asked and what was said.

The keys are those of recorded answers of August 2026. `output_text` is not among them: it is a property of the SDKs.
"""

from __future__ import annotations

from typing import Any

from legato.emulator.loose import mapping, mappings
from legato.emulator.masking import masked_tools
from legato.emulator.responses.output import Output
from legato.emulator.responses.work import Work

_TIERS = {"flex": "flex", "scale": "scale", "priority": "priority", "fast": "priority", "ultrafast": "ultrafast"}
_NO_IMAGES = {
    "input_tokens": 0,
    "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"image_tokens": 0, "text_tokens": 0},
    "total_tokens": 0,
}


def response_object(work: Work, output: Output) -> dict[str, Any]:
    """The response, whole."""
    request, now = work.request, int(work.ask.now)
    body: dict[str, Any] = {
        "id": work.response,
        "object": "response",
        "created_at": now,
        "status": "incomplete" if output.cut else "completed",
        "background": request.get("background", False),
        "billing": {"payer": "developer"},
        "completed_at": None if output.cut else now,
        "conversation": {"id": work.conversation},
        "error": None,
        "frequency_penalty": request.get("frequency_penalty", 0.0),
        "incomplete_details": {"reason": output.cut} if output.cut else None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "max_tool_calls": request.get("max_tool_calls"),
        "model": work.model.answers_as,
        "moderation": None,
        "output": [draft.done() for draft in output.drafts],
        "parallel_tool_calls": request.get("parallel_tool_calls", True),
        "presence_penalty": request.get("presence_penalty", 0.0),
        "previous_response_id": request.get("previous_response_id"),
        "prompt_cache_key": request.get("prompt_cache_key"),
        "prompt_cache_options": {"mode": "implicit", "ttl": "30m", **mapping(request.get("prompt_cache_options"))},
        "prompt_cache_retention": request.get("prompt_cache_retention"),
        "reasoning": _reasoning(work),
        "safety_identifier": request.get("safety_identifier"),
        "service_tier": _TIERS.get(str(request.get("service_tier")), "default"),
        "store": request.get("store", True),
        "temperature": request.get("temperature", 1.0),
        "text": _text(request),
        "tool_choice": request.get("tool_choice", "auto"),
        "tool_usage": {"image_gen": _NO_IMAGES, "web_search": {"num_requests": 0}},
        "tools": masked_tools([_tool(tool) for tool in mappings(request.get("tools"))]),
        "top_logprobs": request.get("top_logprobs", 0),
        "top_p": request.get("top_p", 1.0),
        "truncation": request.get("truncation", "disabled"),
        "usage": _usage(work, output),
        "user": request.get("user"),
        "metadata": request.get("metadata", {}),
    }
    sometimes = {
        "billing": not work.ask.streams,
        "conversation": bool(work.conversation),
        "prompt_cache_options": "prompt_cache_options" in request,
    }
    return {key: value for key, value in body.items() if sometimes.get(key, True)}


def opening(work: Work, body: dict[str, Any], status: str) -> dict[str, Any]:
    """The response as it stands before anything is said."""
    unsaid: dict[str, Any] = {"status": status, "completed_at": None, "incomplete_details": None, "output": [], "usage": None}
    return {**body, **unsaid, "service_tier": work.request.get("service_tier", "auto")}


def failed(body: dict[str, Any], code: str, message: str) -> dict[str, Any]:
    """The response of a stream that failed: nothing of what was said before is in it."""
    lost: dict[str, Any] = {"status": "failed", "completed_at": None, "incomplete_details": None, "output": [], "usage": None}
    return {**body, **lost, "error": {"code": code, "message": message}}


def _given(value: Any) -> dict[str, Any]:
    return {key: one for key, one in mapping(value).items() if one is not None}


def _reasoning(work: Work) -> dict[str, Any]:
    usual: dict[str, Any] = {"effort": None, "summary": None, "context": None}
    if work.model.reasons:
        usual = {"effort": work.model.effort or "medium", "summary": None, "context": "auto", "mode": "standard"}
    return {**usual, **_given(work.request.get("reasoning"))}


def _text(request: dict[str, Any]) -> dict[str, Any]:
    text = {"format": {"type": "text"}, "verbosity": "medium", **_given(request.get("text"))}
    if mapping(text["format"]).get("type") == "json_schema":
        text["format"] = {"description": None, **mapping(text["format"])}
    return text


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "description": None, "parameters": None, "strict": True, **tool} if tool.get("type") == "function" else tool


def _usage(work: Work, output: Output) -> dict[str, Any]:
    return {
        "input_tokens": work.input_tokens,
        "input_tokens_details": {"cached_tokens": work.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": output.tokens,
        "output_tokens_details": {"reasoning_tokens": output.reasoning_tokens},
        "total_tokens": work.input_tokens + output.tokens,
    }
