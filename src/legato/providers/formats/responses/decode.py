"""Decoding of replies of the Responses API.

Decoding is lenient, because compatible servers leave members out. Unknown items are recorded unchanged as `HostedToolUse`, never dropped.
"""

from __future__ import annotations

from typing import Any

from legato.core.facts import Call, HostedToolUse, OutputText, Reasoning, Refusal, ReplyItem, Usage
from legato.core.model_reply import ModelReply
from legato.errors import ModelFailed
from legato.providers.formats.comparable_history import extend_digest_with_reply
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import as_count, as_object, as_objects, as_text, to_json
from legato.providers.formats.loss_reasons import REASONING_REFUSED_MARK
from legato.providers.formats.provider_errors import translate_error
from legato.providers.formats.responses.item_replay import find_tool_and_arguments, is_call, select_replayed_members


def decode_reply(body: Any, request: EncodedRequest, origin: str, request_id: str = "") -> ModelReply:
    """Decode a response object; `ModelFailed` if it is no response, is unfinished, or reports a failure."""
    response = as_object(body)
    if response.get("status") == "failed" or (response.get("error") and not response.get("output")):
        raise translate_error(0, response, request_id=request_id, usage=decode_usage(response.get("usage")))
    if (status := response.get("status")) in ("queued", "in_progress", "cancelled"):
        problem = f"the reply {as_text(response.get('id'))} is unfinished: its status is {status}"
        do = "" if status == "cancelled" else "fetch it by its id; resume() requests a second reply beside it"
        raise ModelFailed(problem, retryable=status == "cancelled", usage=decode_usage(response.get("usage")), do=do)
    if "output" not in response:
        raise ModelFailed("the provider's answer is no response: it has no output", retryable=True)
    items = tuple(item for each in as_objects(response["output"]) for item in _decode_item(each, request))
    stored = response.get("store") is True and bool(request.history_digest)
    reason = as_text(as_object(response.get("incomplete_details")).get("reason"))
    return ModelReply(
        items=items,
        finish="filter" if reason == "content_filter" else "length" if response.get("status") == "incomplete" else "stop",
        usage=decode_usage(response.get("usage")),
        model=as_text(response.get("model")),
        response_id=as_text(response.get("id")),
        stored=stored,
        base=request.base_id,
        origin=origin,
        stored_digest=_mark_history_digest(request, items, stored),
        request_id=request_id,
        losses=request.losses,
    )


def _mark_history_digest(request: EncodedRequest, items: tuple[ReplyItem, ...], stored: bool) -> str:
    """Return the digest of the history that the provider stores now, with a mark if it accepted the request only without reasoning."""
    digest = extend_digest_with_reply(request.history_digest, items) if stored else ""
    return f"{digest} {REASONING_REFUSED_MARK}" if request.reasoning_refused else digest


def decode_usage(usage: Any) -> Usage:
    """Decode the API's token counts."""
    counts = as_object(usage)
    details = as_object(counts.get("input_tokens_details"))
    return Usage(
        input=as_count(counts.get("input_tokens")),
        output=as_count(counts.get("output_tokens")),
        cached=as_count(details.get("cached_tokens")),
        written=as_count(details.get("cache_write_tokens")),
        reasoning=as_count(as_object(counts.get("output_tokens_details")).get("reasoning_tokens")),
    )


def _decode_item(item: dict[str, Any], request: EncodedRequest) -> list[ReplyItem]:
    id = as_text(item.get("id"))
    match item.get("type"):
        case "message":
            return _decode_message(item, id)
        case _ if is_call(item):
            name, arguments = find_tool_and_arguments(item)
            return [Call(request.tool_names.get(name, name), arguments, as_text(item.get("call_id")), id, select_replayed_members(item))]
        case "reasoning":
            parts = [*as_objects(item.get("summary")), *as_objects(item.get("content"))]
            texts = "\n\n".join(filter(None, (as_text(part.get("text")) for part in parts)))
            return [Reasoning(texts, as_text(item.get("encrypted_content")), id)]
        case kind:
            return [HostedToolUse(as_text(kind) or "unknown", to_json(item), id)]


def _decode_message(item: dict[str, Any], id: str) -> list[ReplyItem]:
    items: list[ReplyItem] = []
    extra = select_replayed_members(item)
    for part in as_objects(item.get("content")):
        if part.get("type") == "refusal":
            items.append(Refusal(as_text(part.get("refusal")), id))
        elif part_text := as_text(part.get("text")):
            annotations = part.get("annotations")
            items.append(OutputText(part_text, id, to_json(annotations) if annotations else "", extra))
    return items
