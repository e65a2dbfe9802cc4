"""The response object, from the request's parameters and the output.

Its members are those of responses recorded in August 2026. `output_text` is not among them: it is a property of the SDKs.
"""

from __future__ import annotations

from typing import Any

from legato.emulator.lenient_json import as_object, as_objects
from legato.emulator.request_mask import mask_tool_secrets
from legato.emulator.responses.accepted_request import AcceptedRequest
from legato.emulator.responses.output import ResponseOutput

_SERVICE_TIERS = {"flex": "flex", "scale": "scale", "priority": "priority", "fast": "priority", "ultrafast": "ultrafast"}
_NO_IMAGE_USAGE = {
    "input_tokens": 0,
    "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"image_tokens": 0, "text_tokens": 0},
    "total_tokens": 0,
}


def make_response(accepted: AcceptedRequest, output: ResponseOutput) -> dict[str, Any]:
    """Return the finished response."""
    parameters, now = accepted.body, int(accepted.request.now)
    response: dict[str, Any] = {
        "id": accepted.response_id,
        "object": "response",
        "created_at": now,
        "status": "incomplete" if output.incomplete_reason else "completed",
        "background": parameters.get("background", False),
        "billing": {"payer": "developer"},
        "completed_at": None if output.incomplete_reason else now,
        "conversation": {"id": accepted.conversation_id},
        "error": None,
        "frequency_penalty": parameters.get("frequency_penalty", 0.0),
        "incomplete_details": {"reason": output.incomplete_reason} if output.incomplete_reason else None,
        "instructions": parameters.get("instructions"),
        "max_output_tokens": parameters.get("max_output_tokens"),
        "max_tool_calls": parameters.get("max_tool_calls"),
        "model": accepted.model.reply_name,
        "moderation": None,
        "output": [draft.make_final_item() for draft in output.drafts],
        "parallel_tool_calls": parameters.get("parallel_tool_calls", True),
        "presence_penalty": parameters.get("presence_penalty", 0.0),
        "previous_response_id": parameters.get("previous_response_id"),
        "prompt_cache_key": parameters.get("prompt_cache_key"),
        "prompt_cache_options": {"mode": "implicit", "ttl": "30m", **as_object(parameters.get("prompt_cache_options"))},
        "prompt_cache_retention": parameters.get("prompt_cache_retention"),
        "reasoning": _make_reasoning(accepted),
        "safety_identifier": parameters.get("safety_identifier"),
        "service_tier": _SERVICE_TIERS.get(str(parameters.get("service_tier")), "default"),
        "store": parameters.get("store", True),
        "temperature": parameters.get("temperature", 1.0),
        "text": _make_text_options(parameters),
        "tool_choice": parameters.get("tool_choice", "auto"),
        "tool_usage": {"image_gen": _NO_IMAGE_USAGE, "web_search": {"num_requests": 0}},
        "tools": mask_tool_secrets([_add_tool_defaults(tool) for tool in as_objects(parameters.get("tools"))]),
        "top_logprobs": parameters.get("top_logprobs", 0),
        "top_p": parameters.get("top_p", 1.0),
        "truncation": parameters.get("truncation", "disabled"),
        "usage": _make_usage(accepted, output),
        "user": parameters.get("user"),
        "metadata": parameters.get("metadata", {}),
    }
    conditional_members = {
        "billing": not accepted.request.wants_stream,
        "conversation": bool(accepted.conversation_id),
        "prompt_cache_options": "prompt_cache_options" in parameters,
    }
    return {key: value for key, value in response.items() if conditional_members.get(key, True)}


def make_opening_response(accepted: AcceptedRequest, response: dict[str, Any], status: str) -> dict[str, Any]:
    """Return the response without its output, for the first events of a stream."""
    unfinished: dict[str, Any] = {"status": status, "completed_at": None, "incomplete_details": None, "output": [], "usage": None}
    return {**response, **unfinished, "service_tier": accepted.body.get("service_tier", "auto")}


def make_failed_response(response: dict[str, Any], code: str, message: str) -> dict[str, Any]:
    """Return the response of a failed stream, without the output that was sent before."""
    failure_members: dict[str, Any] = {"status": "failed", "completed_at": None, "incomplete_details": None, "output": [], "usage": None}
    return {**response, **failure_members, "error": {"code": code, "message": message}}


def _drop_nulls(value: Any) -> dict[str, Any]:
    return {key: member for key, member in as_object(value).items() if member is not None}


def _make_reasoning(accepted: AcceptedRequest) -> dict[str, Any]:
    defaults: dict[str, Any] = {"effort": None, "summary": None, "context": None}
    if accepted.model.has_reasoning:
        defaults = {"effort": accepted.model.default_effort or "medium", "summary": None, "context": "auto", "mode": "standard"}
    return {**defaults, **_drop_nulls(accepted.body.get("reasoning"))}


def _make_text_options(body: dict[str, Any]) -> dict[str, Any]:
    text = {"format": {"type": "text"}, "verbosity": "medium", **_drop_nulls(body.get("text"))}
    if as_object(text["format"]).get("type") == "json_schema":
        text["format"] = {"description": None, **as_object(text["format"])}
    return text


def _add_tool_defaults(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "description": None, "parameters": None, "strict": True, **tool} if tool.get("type") == "function" else tool


def _make_usage(accepted: AcceptedRequest, output: ResponseOutput) -> dict[str, Any]:
    return {
        "input_tokens": accepted.input_tokens,
        "input_tokens_details": {"cached_tokens": accepted.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": output.tokens,
        "output_tokens_details": {"reasoning_tokens": output.reasoning_tokens},
        "total_tokens": accepted.input_tokens + output.tokens,
    }
