"""Joins a recorded answer to one body, without the package's decoders, because the decoders are compared with it.

Pieces of a stream are joined by their types: texts grow, lists grow or have elements with an `index`, every other value is set. So
kinds of pieces that the decoders do not know are joined too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tests.traffic.corpus import Api

CONSTANT_TEXTS = ("id", "type", "role", "name", "object", "model", "format", "call_id", "tool_use_id")
"""Members with texts that a stream may repeat, and that do not grow."""


class RecordedBody(Struct):
    """An answer in one piece. `body` is None if there is nothing to read; `problem` says why."""

    body: dict[str, Any] | None
    problem: str = ""
    is_streamed: bool = False


def read_recorded_body(api: Api, response: Any) -> RecordedBody:
    """Return the answer of a server as one body."""
    if isinstance(response, dict):
        return RecordedBody(response)
    if not isinstance(response, str) or not response.strip():
        return RecordedBody(None, "no answer is recorded")
    if response.lstrip().startswith("{"):
        try:
            return RecordedBody(json.loads(response))
        except ValueError:
            return RecordedBody(None, "the recording is cut off")
    try:
        events = [json.loads(data) for data in list_event_data(response)]
    except ValueError:
        return RecordedBody(None, "the recording is cut off", is_streamed=True)
    try:
        body = EVENT_JOINERS[api]([event for event in events if isinstance(event, dict)])
    except (LookupError, TypeError, ValueError, AttributeError):
        return RecordedBody(None, "a stream of no known form", is_streamed=True)
    return RecordedBody(body, "" if body is not None else "the recording is cut off", is_streamed=True)


def list_event_data(stream: str) -> list[str]:
    """Return the data of the events of a stream, without the marker of its end."""
    found = []
    for event in stream.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        lines = [line[5:].removeprefix(" ") for line in event.split("\n") if line.startswith("data:")]
        if lines and (data := "\n".join(lines)).strip() not in ("", "[DONE]"):
            found.append(data)
    return found


def _join_responses_events(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    items = [event.get("item") for event in events if event.get("type") == "response.output_item.done"]
    last = ("response.completed", "response.incomplete", "response.failed")
    for event in events:
        if event.get("type") in last and isinstance(event.get("response"), dict):
            response: dict[str, Any] = event["response"]
            return response if response.get("output") or not items else {**response, "output": items}
    return None


def _join_chat_chunks(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    body: dict[str, Any] = {}
    choices: dict[Any, dict[str, Any]] = {}
    for event in events:
        _merge(body, {name: value for name, value in event.items() if name not in ("choices", "usage", "error", "obfuscation")})
        body |= {name: event[name] for name in ("usage", "error") if event.get(name)}
        for choice in event.get("choices") or ():
            whole = choices.setdefault(choice.get("index", 0), {"message": {}})
            _merge(whole["message"], choice.get("delta") or choice.get("message") or {})
            _merge(whole, {name: value for name, value in choice.items() if name not in ("delta", "message", "index")}, growing_texts=())
    if not body.get("error") and not any(choice.get("finish_reason") for choice in choices.values()):
        return None
    return {**body, "choices": [{"index": index, **choice} for index, choice in choices.items()]}


def _join_anthropic_events(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    is_complete = False
    for event in events:
        match event.get("type"):
            case "message_start":
                message = dict(event["message"])
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                _apply_anthropic_delta(blocks.setdefault(event["index"], {}), event["delta"], event["index"], inputs)
            case "message_delta":
                usage = {**(message.get("usage") or {}), **{k: v for k, v in (event.get("usage") or {}).items() if v is not None}}
                message |= {name: value for name, value in event.items() if name not in ("type", "delta", "usage")}
                message |= {**event["delta"], "usage": usage}
            case "message_stop":
                is_complete = True
            case "error":
                return {"type": "error", "error": event.get("error")}
    for index, written in inputs.items():
        if written.strip():
            try:
                blocks[index]["input"] = json.loads(written)
            except ValueError:
                blocks[index]["input"] = written  # the model was cut short
    return {**message, "content": [blocks[index] for index in sorted(blocks)]} if is_complete else None


def _apply_anthropic_delta(block: dict[str, Any], delta: dict[str, Any], index: int, inputs: dict[int, str]) -> None:
    if delta.get("type") == "input_json_delta":
        inputs[index] = inputs.get(index, "") + (delta.get("partial_json") or "")
    elif delta.get("type") == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
    else:
        _merge(block, {name: value for name, value in delta.items() if name != "type"})


EVENT_JOINERS: dict[Api, Callable[[list[dict[str, Any]]], dict[str, Any] | None]] = {
    "responses": _join_responses_events,
    "chat": _join_chat_chunks,
    "anthropic": _join_anthropic_events,
}


def _merge(whole: dict[str, Any], piece: dict[str, Any], growing_texts: tuple[str, ...] | None = None) -> None:
    """Add a piece to the pieces before it. `growing_texts`: by default all texts that are not in `CONSTANT_TEXTS`."""
    for name, value in piece.items():
        before = whole.get(name)
        if value is None:
            whole.setdefault(name, None)
        elif isinstance(value, str) and isinstance(before, str):
            growing = name not in CONSTANT_TEXTS if growing_texts is None else name in growing_texts
            whole[name] = before + value if growing else before or value
        elif isinstance(value, dict) and isinstance(before, dict):
            before = whole[name] = dict(before)
            _merge(before, value)
        elif isinstance(value, list):
            whole[name] = _merge_lists(before if isinstance(before, list) else [], value)
        else:
            whole[name] = value


def _merge_lists(before: list[Any], added: list[Any]) -> list[Any]:
    merged = [*before]
    for element in added:
        index = element.get("index") if isinstance(element, dict) else None
        known = next((place for place, each in enumerate(merged) if isinstance(each, dict) and each.get("index") == index), None)
        if index is None or known is None:
            merged.append(element)
        else:
            merged[known] = dict(merged[known])
            _merge(merged[known], element)
    return merged
