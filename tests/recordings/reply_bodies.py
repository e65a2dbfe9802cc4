"""Answers in the providers' formats, whole and streamed. Ids are counted and nothing is random; no provider rule refuses a request here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from legato.core.facts import Call, OutputText, Reasoning, Refusal, ReplyItem

CREATED_AT_S = 1_790_000_000
ALLOWED_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

JSON = dict[str, Any]


@dataclass(frozen=True)
class AnswerContent:
    """The text and calls of one answer, and why it ends: stop, length or filter. `reasoning` comes before the other items."""

    items: tuple[ReplyItem, ...]
    finish: str = "stop"
    reasoning: str = ""


def _encode_tool_name(tool: str) -> str:
    """Return a tool's name as requests have it."""
    if ALLOWED_TOOL_NAME.fullmatch(tool):
        return tool
    from legato.providers.rules.identifiers import sanitize_tool_name

    return sanitize_tool_name(tool)


def _list_items_with_ids(content: AnswerContent, number: int) -> Iterator[tuple[ReplyItem, str]]:
    """Yield the items, each with an id; calls keep the id from their script if it has one."""
    if content.reasoning:
        yield Reasoning(content.reasoning), f"{number}_t"
    for index, item in enumerate(content.items):
        if isinstance(item, Reasoning):
            continue
        call_id = item.call_id if isinstance(item, Call) else ""
        yield item, call_id or f"call_{number}_{index}"


# -- the Responses API -------------------------------------------------------------------------------------------------


def _write_output_items(content: AnswerContent, number: int, body: JSON) -> list[JSON]:
    output: list[JSON] = []
    for index, (item, id) in enumerate(_list_items_with_ids(content, number)):
        own = {"id": f"item_{number}_{index}"}
        match item:
            case Reasoning(text=text):
                sealed = "reasoning.encrypted_content" in (body.get("include") or ())
                more = {"encrypted_content": f"sealed {number}"} if sealed else {}
                output.append({**own, "type": "reasoning", "summary": [{"type": "summary_text", "text": text}], **more})
            case Call():
                call = {"call_id": id, "name": _encode_tool_name(item.tool), "arguments": item.arguments}
                output.append({**own, "type": "function_call", "status": "completed", **call})
            case OutputText(text=text):
                part: JSON = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
                output.append({**own, "type": "message", "role": "assistant", "status": "completed", "content": [part]})
            case Refusal(text=text):
                part = {"type": "refusal", "refusal": text}
                output.append({**own, "type": "message", "role": "assistant", "status": "completed", "content": [part]})
    return output


def _count_tokens(number: int, content: AnswerContent) -> tuple[int, int]:
    """Return the tokens of a request and of its answer. They do not depend on the request's bytes, so that its changes change no facts."""
    characters = sum(len(item.arguments if isinstance(item, Call) else getattr(item, "text", "")) for item in content.items)
    return 100 + 10 * number, characters // 4 + 1


def write_response(content: AnswerContent, number: int, body: JSON) -> JSON:
    """Return a whole response."""
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(content.finish)
    input_tokens, output_tokens = _count_tokens(number, content)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED_AT_S + number,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "model": body["model"],
        "output": _write_output_items(content, number, body),
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store", True),
        "usage": {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_tokens + output_tokens,
        },
    }


def stream_response(whole: JSON) -> Iterator[JSON]:
    """Yield the events of a response."""
    empty = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": empty}
    for index, item in enumerate(whole["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        for part in item.get("content", ()):
            kind, text = ("refusal", part["refusal"]) if "refusal" in part else ("output_text", part["text"])
            for piece in _split_in_halves(text):
                yield {"type": f"response.{kind}.delta", "item_id": item["id"], "output_index": index, "delta": piece}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


# -- Chat Completions --------------------------------------------------------------------------------------------------


def write_completion(content: AnswerContent, number: int, body: JSON) -> JSON:
    """Return a whole completion."""
    text = "\n\n".join(item.text for item in content.items if isinstance(item, OutputText))
    refusal = "\n\n".join(item.text for item in content.items if isinstance(item, Refusal))
    calls = [
        {"id": id, "type": "function", "function": {"name": _encode_tool_name(item.tool), "arguments": item.arguments}}
        for item, id in _list_items_with_ids(content, number)
        if isinstance(item, Call)
    ]
    message = {"role": "assistant", "content": text or None, "refusal": refusal or None}
    message |= {"tool_calls": calls} if calls else {}
    message |= {"reasoning_content": content.reasoning} if content.reasoning else {}
    reason = {"length": "length", "filter": "content_filter"}.get(content.finish, "tool_calls" if calls else "stop")
    input_tokens, output_tokens = _count_tokens(number, content)
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": CREATED_AT_S + number,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {"prompt_tokens": input_tokens, "completion_tokens": output_tokens, "total_tokens": input_tokens + output_tokens},
    }


def stream_completion(whole: JSON) -> Iterator[JSON]:
    """Yield the chunks of a completion."""
    head = {name: whole[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    (choice,) = whole["choices"]
    message = choice["message"]

    def chunk(delta: JSON, reason: str | None = None) -> JSON:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    for name in ("reasoning_content", "content", "refusal"):
        for piece in _split_in_halves(message.get(name) or ""):
            yield chunk({name: piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        yield chunk({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
        for piece in _split_in_halves(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    yield {**head, "choices": [], "usage": whole["usage"]}


# -- Anthropic's Messages API ------------------------------------------------------------------------------------------


def write_message(content: AnswerContent, number: int, body: JSON) -> JSON:
    """Return a whole message."""
    blocks: list[JSON] = []
    for item, id in _list_items_with_ids(content, number):
        match item:
            case Reasoning(text=text):
                blocks.append({"type": "thinking", "thinking": text, "signature": f"signature {number}"})
            case Call():
                use = {"id": id, "name": _encode_tool_name(item.tool), "input": _parse_arguments(item.arguments)}
                blocks.append({"type": "tool_use", **use})
            case OutputText(text=text) | Refusal(text=text):
                blocks.append({"type": "text", "text": text})
    calls = any(isinstance(item, Call) for item in content.items)
    refused = content.finish == "filter" or any(isinstance(item, Refusal) for item in content.items)
    reason = "refusal" if refused else "max_tokens" if content.finish == "length" else "tool_use" if calls else "end_turn"
    input_tokens, output_tokens = _count_tokens(number, content)
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def _parse_arguments(arguments: str) -> Any:
    """Return arguments as an object, which is what this API has. Other JSON values and invalid JSON are wrapped in one."""
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return {"text": arguments}
    return parsed if isinstance(parsed, dict) else {"value": parsed}


def stream_message(whole: JSON) -> Iterator[JSON]:
    """Yield the events of a message."""
    initial = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": initial}
    for index, block in enumerate(whole["content"]):
        empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}[block["type"]]
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for delta in _list_block_deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": whole["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _list_block_deltas(block: JSON) -> Iterator[JSON]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in _split_in_halves(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in _split_in_halves(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in _split_in_halves(json.dumps(block["input"])))


def _split_in_halves(text: str) -> list[str]:
    """Split a text in two pieces; an empty text has none."""
    half = len(text) // 2
    return [piece for piece in (text[:half], text[half:]) if piece]
