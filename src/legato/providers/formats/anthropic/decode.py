"""Decoding of replies of the Messages API.

Decoding is lenient, because compatible servers leave members out. Unknown blocks are recorded unchanged as `HostedToolUse`, never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from legato.core.facts import NO_USAGE, Call, HostedToolUse, OutputText, Reasoning, Refusal, ReplyItem, Usage
from legato.core.model_reply import ModelReply
from legato.errors import ModelFailed
from legato.providers.formats.anthropic.content_blocks import DIRECT_CALLER, REPLAYED_CALL_MEMBERS, encode_reply, find_result_ids
from legato.providers.formats.encoded_request import EncodedRequest
from legato.providers.formats.lenient_json import as_count, as_object, as_objects, as_text, to_json
from legato.providers.formats.provider_errors import translate_error
from legato.providers.rules.anthropic.prefix_digest import PrefixHasher
from legato.providers.rules.anthropic.rules import check_messages
from legato.providers.rules.anthropic.thinking_blocks import THINKING_TYPES

PAUSED_TURN = "pause_turn"
COMPACTED_TURN = "compaction"
"""Stop reasons of an unfinished reply: the request is sent again with the reply so far, and the model continues it."""
SHAPE_RULES_PREFIX = "MS"
"""The prefix of the ids of the rules about the shape of blocks."""
_CUT_SHORT = ("max_tokens", "model_context_window_exceeded", PAUSED_TURN)
_TOKEN_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
RECORDED_REPLY_MEMBERS = ("container", "context_management", "diagnostics", "input_transformations", "stop_details", "stop_sequence")
"""The members of a message that are recorded besides its content, unless they are empty (`ModelReplied.extra`). The container is reused."""
_SEPARATELY_COUNTED = ("compaction", "advisor_message")
"""Types of samples beside the reply. They are billed, and the message's own token counts do not include them (measured)."""


def decode_reply(body: Any, request: EncodedRequest, origin: str, request_id: str = "") -> ModelReply:
    """Decode a message object; `ModelFailed` if it is no message, or reports a failure."""
    message = as_object(body)
    if message.get("type") == "error" or (message.get("error") and "content" not in message):
        raise translate_error(0, message, request_id=request_id)
    if not isinstance(message.get("content"), list):
        raise ModelFailed("the provider's answer is no message: it has no content", retryable=True)
    content = as_objects(message["content"])
    stop_reason = as_text(message.get("stop_reason"))
    items = [item for block in content if (item := _decode_item(block, request)) is not None]
    if stop_reason == "refusal":
        items = _refuse_items(items, as_object(message.get("stop_details")))
    return ModelReply(
        items=tuple(items),
        finish="filter" if stop_reason == "refusal" else "length" if stop_reason in _CUT_SHORT else "stop",
        usage=decode_usage(message.get("usage")),
        model=as_text(message.get("model")),
        response_id=as_text(message.get("id")),
        origin=origin,
        stored_digest=_find_replayable_digest(request, content, items),
        request_id=request_id,
        losses=request.losses,
        extra=_encode_members(message, RECORDED_REPLY_MEMBERS),
    )


def decode_usage(usage: Any) -> Usage:
    """Decode all tokens that a request cost."""
    total = NO_USAGE
    for _, part in decode_usage_parts(usage):
        total += part
    return total


def decode_usage_parts(usage: Any) -> list[tuple[str, Usage]]:
    """Return the tokens of the reply and of samples beside it, each with its model (empty: the requested one).

    >>> samples = [{"type": "compaction", "input_tokens": 9}, {"type": "message", "input_tokens": 5}]
    >>> decode_usage_parts({"input_tokens": 5, "iterations": samples})  # doctest: +ELLIPSIS
    [('', Usage(input=5,...)), ('', Usage(input=9,...))]
    """
    separate = [part for part in as_objects(as_object(usage).get("iterations")) if part.get("type") in _SEPARATELY_COUNTED]
    return [("", _decode_counts(usage)), *((as_text(part.get("model")), _decode_counts(part)) for part in separate)]


def _decode_counts(usage: Any) -> Usage:
    """Decode token counts. The API counts cached and cache-written input beside the other input; `Usage.input` includes them."""
    counts = as_object(usage)
    fresh, written, cached, output = (as_count(counts.get(name)) for name in _TOKEN_COUNTS)
    thinking = as_count(as_object(counts.get("output_tokens_details")).get("thinking_tokens"))
    return Usage(input=fresh + written + cached, output=output, cached=cached, reasoning=thinking, written=written)


def _decode_item(block: dict[str, Any], request: EncodedRequest) -> ReplyItem | None:
    match block.get("type"):
        case "text":
            text, citations = as_text(block.get("text")), block.get("citations")
            return OutputText(text, citations=to_json(citations) if citations else "") if text else None
        case "thinking":
            return Reasoning(as_text(block.get("thinking")), as_text(block.get("signature")))
        case "redacted_thinking":
            return Reasoning(encrypted=as_text(block.get("data")), redacted=True)
        case "tool_use":
            name = as_text(block.get("name"))
            extra = _encode_members({**block, "caller": None} if block.get("caller") == DIRECT_CALLER else block, REPLAYED_CALL_MEMBERS)
            return Call(request.tool_names.get(name, name), _encode_arguments(block.get("input")), as_text(block.get("id")), extra=extra)
        case kind:
            return HostedToolUse(as_text(kind) or "unknown", to_json(block), as_text(block.get("id")))


def _encode_members(source: dict[str, Any], names: Sequence[str]) -> str:
    """Return the non-empty ones of these members as JSON text; empty if there are none."""
    members = {name: source[name] for name in names if _has_content(source.get(name))}
    return to_json(members) if members else ""


def _has_content(value: Any) -> bool:
    return any(map(_has_content, value.values())) if isinstance(value, dict) else value not in (None, "", [])


def _encode_arguments(input: Any) -> str:
    """Return a call's arguments in the order in which the model wrote them. A string is an input that a stream cut off."""
    return input if isinstance(input, str) else msgspec.json.encode({} if input is None else input).decode()


def _refuse_items(items: list[ReplyItem], details: dict[str, Any]) -> list[ReplyItem]:
    """Return the items of a reply that the provider refused: its text becomes a refusal, and its calls do not run."""
    refused: list[ReplyItem] = []
    for item in items:
        if isinstance(item, OutputText):
            refused.append(Refusal(item.text))
        elif isinstance(item, Call):
            refused.append(HostedToolUse("refused tool_use", to_json(msgspec.to_builtins(item)), item.call_id))
        else:
            refused.append(item)
    explanation = as_text(details.get("explanation"))
    return refused if any(isinstance(item, Refusal) for item in refused) or not explanation else [*refused, Refusal(explanation)]


def _find_replayable_digest(request: EncodedRequest, content: list[dict[str, Any]], items: list[ReplyItem]) -> str:
    """Return the digest of the history before the reply; empty if the reply cannot be replayed as it came.

    Thinking is also bound to the blocks before it in its own reply.
    """
    last = max((index for index, block in enumerate(content) if block.get("type") in THINKING_TYPES), default=0)
    if last:
        encoded = msgspec.json.decode(msgspec.json.encode(encode_reply(items, "", 0, [], resumed_uses=find_result_ids(items))))
        if _digest_blocks(encoded[: last + 1]) != _digest_blocks(content[: last + 1]):
            return ""
    return request.history_digest


def _digest_blocks(blocks: list[dict[str, Any]]) -> str:
    prefix = PrefixHasher({})
    for block in blocks:
        prefix.add("assistant", block)
    return prefix.digest()


# -- turns that the provider pauses ------------------------------------------------------------------------------------


def continue_turn(request: EncodedRequest, body: Any) -> EncodedRequest:
    """Return the request with the unfinished reply appended: the model continues it, in the same container."""
    message = as_object(body)
    message_so_far = {"role": "assistant", "content": message.get("content")}
    violations = check_messages([{"role": "user", "content": "?"}, message_so_far], {"anthropic-version": "2023-06-01"})
    # Other rules may be violated only because the reply is unfinished.
    shape_violations = tuple(violation for violation in violations if violation.rule.id.startswith(SHAPE_RULES_PREFIX))
    in_same_container = set_container(request, as_text(as_object(message.get("container")).get("id")))
    extended_body = in_same_container.body.removesuffix(b"]}") + b"," + msgspec.json.encode(message_so_far) + b"]}"
    return msgspec.structs.replace(in_same_container, body=extended_body, violations=shape_violations)


def set_container(request: EncodedRequest, id: str) -> EncodedRequest:
    """Return the request with this container, unless it names one."""
    requested = msgspec.json.decode(request.container) if request.container else {}
    if not id or not isinstance(requested, dict) or requested.get("id"):
        return request
    member = to_json({**requested, "id": id} if requested else id)
    before = b'"container":%b,' % request.container.encode() if requested else b""
    body = request.body.replace(before, b"", 1) if requested else request.body
    return msgspec.structs.replace(request, body=b'{"container":%b,%b' % (member.encode(), body[1:]), container=member)


def join_messages(before: Any, after: Any) -> dict[str, Any]:
    """Return a paused message and its continuation as one message."""
    first, second = as_object(before), as_object(after)
    usages = [as_object(message.get("usage")) for message in (first, second)]
    thinking_tokens = sum(as_count(as_object(usage.get("output_tokens_details")).get("thinking_tokens")) for usage in usages)
    usage = {name: sum(as_count(usage.get(name)) for usage in usages) for name in _TOKEN_COUNTS}
    members = {name: first[name] for name in RECORDED_REPLY_MEMBERS if _has_content(first.get(name)) and not _has_content(second.get(name))}
    return {
        **second,
        **members,
        "content": [*as_objects(first.get("content")), *as_objects(second.get("content"))],
        "usage": {
            **usage,
            "output_tokens_details": {"thinking_tokens": thinking_tokens},
            "iterations": [part for each in usages for part in as_objects(each.get("iterations"))],
        },
    }
