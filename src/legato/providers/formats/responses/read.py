"""A reply of the Responses API. May know: what the API sends. Decides: what of it is recorded.

Tolerant: compatible servers leave things out. What is not known is recorded as what it is (`Hosted`), never dropped.
"""

from __future__ import annotations

from typing import Any

from legato.core.facts import Call, Hosted, Item, Reasoning, Refusal, Usage, Words
from legato.core.model_reply import Reply
from legato.errors import ModelFailed
from legato.providers.formats.compiled import Compiled
from legato.providers.formats.failures import refusal_of
from legato.providers.formats.loose import json_text, mapping, number, objects, text
from legato.providers.formats.losses import BARE
from legato.providers.formats.responses.round_trip import called_with, extra_of, is_call
from legato.providers.formats.sequence import after_reply


def read_reply(body: Any, compiled: Compiled, origin: str, request_id: str = "") -> Reply:
    """The reply that a response object is; `ModelFailed` if it is none, or tells of a failure."""
    response = mapping(body)
    if response.get("status") == "failed" or (response.get("error") and not response.get("output")):
        raise refusal_of(0, response, request_id=request_id, usage=usage_of(response.get("usage")))
    if (status := response.get("status")) in ("queued", "in_progress", "cancelled"):
        told = f"the reply {text(response.get('id'))} is not whole: it is {status}"
        do = "" if status == "cancelled" else "fetch it by its id; resume() requests another, which is made beside it"
        raise ModelFailed(told, retryable=status == "cancelled", usage=usage_of(response.get("usage")), do=do)
    if "output" not in response:
        raise ModelFailed("the provider's answer is no response: it has no output", retryable=True)
    items = tuple(item for each in objects(response["output"]) for item in _items(each, compiled))
    stored = response.get("store") is True and bool(compiled.told)
    reason = text(mapping(response.get("incomplete_details")).get("reason"))
    return Reply(
        items=items,
        finish="filter" if reason == "content_filter" else "length" if response.get("status") == "incomplete" else "stop",
        usage=usage_of(response.get("usage")),
        model=text(response.get("model")),
        response_id=text(response.get("id")),
        stored=stored,
        base=compiled.base,
        origin=origin,
        held=_held(compiled, items, stored),
        request_id=request_id,
        losses=compiled.losses,
    )


def _held(compiled: Compiled, items: tuple[Item, ...], stored: bool) -> str:
    """The digest of what the provider holds now; and the mark of a reply that it only gave to a request without reasoning."""
    digest = after_reply(compiled.told, items) if stored else ""
    return f"{digest} {BARE}" if compiled.bare else digest


def usage_of(usage: Any) -> Usage:
    """Tokens, as the API counts them."""
    given = mapping(usage)
    details = mapping(given.get("input_tokens_details"))
    return Usage(
        input=number(given.get("input_tokens")),
        output=number(given.get("output_tokens")),
        cached=number(details.get("cached_tokens")),
        written=number(details.get("cache_write_tokens")),
        reasoning=number(mapping(given.get("output_tokens_details")).get("reasoning_tokens")),
    )


def _items(item: dict[str, Any], compiled: Compiled) -> list[Item]:
    id = text(item.get("id"))
    match item.get("type"):
        case "message":
            return _message(item, id)
        case _ if is_call(item):
            name, arguments = called_with(item)
            return [Call(compiled.tools.get(name, name), arguments, text(item.get("call_id")), id, extra_of(item))]
        case "reasoning":
            told = [*objects(item.get("summary")), *objects(item.get("content"))]
            words = "\n\n".join(filter(None, (text(part.get("text")) for part in told)))
            return [Reasoning(words, text(item.get("encrypted_content")), id)]
        case kind:
            return [Hosted(text(kind) or "unknown", json_text(item), id)]


def _message(item: dict[str, Any], id: str) -> list[Item]:
    said: list[Item] = []
    extra = extra_of(item)
    for part in objects(item.get("content")):
        if part.get("type") == "refusal":
            said.append(Refusal(text(part.get("refusal")), id))
        elif words := text(part.get("text")):
            notes = part.get("annotations")
            said.append(Words(words, id, json_text(notes) if notes else "", extra))
    return said
