"""Answers as the providers write them, whole and streamed: ids are counted, nothing is left to chance, and nothing is refused by a rule."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from legato.core.facts import Call, OutputText, Reasoning, Refusal, ReplyItem

CREATED = 1_790_000_000
LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

JSON = dict[str, Any]


@dataclass(frozen=True)
class Speech:
    """The words and calls of one answer, and why it ends: stop, length or filter. `thought` stands before them."""

    items: tuple[ReplyItem, ...]
    finish: str = "stop"
    thought: str = ""


def _name(tool: str) -> str:
    """A tool's name as the model was told it."""
    if LEGAL_NAME.fullmatch(tool):
        return tool
    from legato.providers.rules.identifiers import sanitize_tool_name

    return sanitize_tool_name(tool)


def _items(speech: Speech, number: int) -> Iterator[tuple[ReplyItem, str]]:
    """The items, each with an id; calls have the id of their script if it says one."""
    if speech.thought:
        yield Reasoning(speech.thought), f"{number}_t"
    for index, item in enumerate(speech.items):
        if isinstance(item, Reasoning):
            continue
        call_id = item.call_id if isinstance(item, Call) else ""
        yield item, call_id or f"call_{number}_{index}"


# -- the Responses API -------------------------------------------------------------------------------------------------


def _output(speech: Speech, number: int, body: JSON) -> list[JSON]:
    output: list[JSON] = []
    for index, (item, id) in enumerate(_items(speech, number)):
        own = {"id": f"item_{number}_{index}"}
        match item:
            case Reasoning(text=text):
                sealed = "reasoning.encrypted_content" in (body.get("include") or ())
                more = {"encrypted_content": f"sealed {number}"} if sealed else {}
                output.append({**own, "type": "reasoning", "summary": [{"type": "summary_text", "text": text}], **more})
            case Call():
                said = {"call_id": id, "name": _name(item.tool), "arguments": item.arguments}
                output.append({**own, "type": "function_call", "status": "completed", **said})
            case OutputText(text=text):
                part: JSON = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
                output.append({**own, "type": "message", "role": "assistant", "status": "completed", "content": [part]})
            case Refusal(text=text):
                part = {"type": "refusal", "refusal": text}
                output.append({**own, "type": "message", "role": "assistant", "status": "completed", "content": [part]})
    return output


def _tokens(number: int, speech: Speech) -> tuple[int, int]:
    """Tokens of a request and of its answer. They do not tell of the request's bytes: what is sent otherwise is not recorded otherwise."""
    said = sum(len(item.arguments if isinstance(item, Call) else getattr(item, "text", "")) for item in speech.items)
    return 100 + 10 * number, said // 4 + 1


def write_response(speech: Speech, number: int, body: JSON) -> JSON:
    """A whole response."""
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(speech.finish)
    spent, said = _tokens(number, speech)
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED + number,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "model": body["model"],
        "output": _output(speech, number, body),
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store", True),
        "usage": {
            "input_tokens": spent,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": spent + said,
        },
    }


def stream_response(whole: JSON) -> Iterator[JSON]:
    """The events of a response."""
    empty = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": empty}
    for index, item in enumerate(whole["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        for part in item.get("content", ()):
            kind, text = ("refusal", part["refusal"]) if "refusal" in part else ("output_text", part["text"])
            for piece in _halves(text):
                yield {"type": f"response.{kind}.delta", "item_id": item["id"], "output_index": index, "delta": piece}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{whole['status']}", "response": whole}


# -- Chat Completions --------------------------------------------------------------------------------------------------


def write_completion(speech: Speech, number: int, body: JSON) -> JSON:
    """A whole completion."""
    words = "\n\n".join(item.text for item in speech.items if isinstance(item, OutputText))
    refusal = "\n\n".join(item.text for item in speech.items if isinstance(item, Refusal))
    calls = [
        {"id": id, "type": "function", "function": {"name": _name(item.tool), "arguments": item.arguments}}
        for item, id in _items(speech, number)
        if isinstance(item, Call)
    ]
    message = {"role": "assistant", "content": words or None, "refusal": refusal or None}
    message |= {"tool_calls": calls} if calls else {}
    message |= {"reasoning_content": speech.thought} if speech.thought else {}
    reason = {"length": "length", "filter": "content_filter"}.get(speech.finish, "tool_calls" if calls else "stop")
    spent, said = _tokens(number, speech)
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": CREATED + number,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {"prompt_tokens": spent, "completion_tokens": said, "total_tokens": spent + said},
    }


def stream_completion(whole: JSON) -> Iterator[JSON]:
    """The chunks of a completion."""
    about = {name: whole[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    (choice,) = whole["choices"]
    message = choice["message"]

    def chunk(delta: JSON, reason: str | None = None) -> JSON:
        return {**about, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    for name in ("reasoning_content", "content", "refusal"):
        for piece in _halves(message.get(name) or ""):
            yield chunk({name: piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        yield chunk({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
        for piece in _halves(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    yield {**about, "choices": [], "usage": whole["usage"]}


# -- Anthropic's Messages API ------------------------------------------------------------------------------------------


def write_message(speech: Speech, number: int, body: JSON) -> JSON:
    """A whole message."""
    content: list[JSON] = []
    for item, id in _items(speech, number):
        match item:
            case Reasoning(text=text):
                content.append({"type": "thinking", "thinking": text, "signature": f"signature {number}"})
            case Call():
                use = {"id": id, "name": _name(item.tool), "input": _input(item.arguments)}
                content.append({"type": "tool_use", **use})
            case OutputText(text=text) | Refusal(text=text):
                content.append({"type": "text", "text": text})
    calls = any(isinstance(item, Call) for item in speech.items)
    refused = speech.finish == "filter" or any(isinstance(item, Refusal) for item in speech.items)
    reason = "refusal" if refused else "max_tokens" if speech.finish == "length" else "tool_use" if calls else "end_turn"
    spent, said = _tokens(number, speech)
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": spent, "output_tokens": said, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }


def _input(arguments: str) -> Any:
    """Arguments as the object that this API has them as. Of other arguments there is the text."""
    try:
        read = json.loads(arguments)
    except ValueError:
        return {"text": arguments}
    return read if isinstance(read, dict) else {"value": read}


def stream_message(whole: JSON) -> Iterator[JSON]:
    """The events of a message."""
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(whole["content"]):
        empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}[block["type"]]
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": whole["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _deltas(block: JSON) -> Iterator[JSON]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in _halves(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in _halves(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case _:
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in _halves(json.dumps(block["input"])))


def _halves(text: str) -> list[str]:
    """A text in two pieces, or none if it is empty."""
    half = len(text) // 2
    return [piece for piece in (text[:half], text[half:]) if piece]
