"""Puts a recorded answer together to one body, without the package's readers: what they are compared with must not come from them.

Pieces of a stream are joined by what they look like: texts grow, lists grow or are told apart by `index`, everything else is set. So a
kind of piece that the readers do not know is joined all the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tests.traffic.corpus import Api

SET = ("id", "type", "role", "name", "object", "model", "format", "call_id", "tool_use_id")
"""Texts that a stream may repeat, and that do not grow."""


class Recorded(Struct):
    """An answer in one piece. `body` is None if there is nothing to read; `why` says why."""

    body: dict[str, Any] | None
    why: str = ""
    streamed: bool = False


def recorded_body(api: Api, response: Any) -> Recorded:
    """What a server answered, as one body."""
    if isinstance(response, dict):
        return Recorded(response)
    if not isinstance(response, str) or not response.strip():
        return Recorded(None, "no answer is recorded")
    if response.lstrip().startswith("{"):
        try:
            return Recorded(json.loads(response))
        except ValueError:
            return Recorded(None, "the recording is cut off")
    try:
        events = [json.loads(data) for data in event_data(response)]
    except ValueError:
        return Recorded(None, "the recording is cut off", streamed=True)
    try:
        body = JOIN[api]([event for event in events if isinstance(event, dict)])
    except (LookupError, TypeError, ValueError, AttributeError):
        return Recorded(None, "a stream of no known form", streamed=True)
    return Recorded(body, "" if body is not None else "the recording is cut off", streamed=True)


def event_data(stream: str) -> list[str]:
    """The data of the events of a stream, without the mark of its end."""
    found = []
    for event in stream.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        lines = [line[5:].removeprefix(" ") for line in event.split("\n") if line.startswith("data:")]
        if lines and (data := "\n".join(lines)).strip() not in ("", "[DONE]"):
            found.append(data)
    return found


def _of_responses(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    items = [event.get("item") for event in events if event.get("type") == "response.output_item.done"]
    last = ("response.completed", "response.incomplete", "response.failed")
    for event in events:
        if event.get("type") in last and isinstance(event.get("response"), dict):
            response: dict[str, Any] = event["response"]
            return response if response.get("output") or not items else {**response, "output": items}
    return None


def _of_chat(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    body: dict[str, Any] = {}
    choices: dict[Any, dict[str, Any]] = {}
    for event in events:
        _merge(body, {name: value for name, value in event.items() if name not in ("choices", "usage", "error", "obfuscation")})
        body |= {name: event[name] for name in ("usage", "error") if event.get(name)}
        for choice in event.get("choices") or ():
            whole = choices.setdefault(choice.get("index", 0), {"message": {}})
            _merge(whole["message"], choice.get("delta") or choice.get("message") or {})
            _merge(whole, {name: value for name, value in choice.items() if name not in ("delta", "message", "index")}, grows=())
    if not body.get("error") and not any(choice.get("finish_reason") for choice in choices.values()):
        return None
    return {**body, "choices": [{"index": index, **choice} for index, choice in choices.items()]}


def _of_anthropic(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    message: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    ended = False
    for event in events:
        match event.get("type"):
            case "message_start":
                message = dict(event["message"])
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                _take_delta(blocks.setdefault(event["index"], {}), event["delta"], event["index"], inputs)
            case "message_delta":
                usage = {**(message.get("usage") or {}), **{k: v for k, v in (event.get("usage") or {}).items() if v is not None}}
                message |= {name: value for name, value in event.items() if name not in ("type", "delta", "usage")}
                message |= {**event["delta"], "usage": usage}
            case "message_stop":
                ended = True
            case "error":
                return {"type": "error", "error": event.get("error")}
    for index, written in inputs.items():
        if written.strip():
            try:
                blocks[index]["input"] = json.loads(written)
            except ValueError:
                blocks[index]["input"] = written  # the model was cut short
    return {**message, "content": [blocks[index] for index in sorted(blocks)]} if ended else None


def _take_delta(block: dict[str, Any], delta: dict[str, Any], index: int, inputs: dict[int, str]) -> None:
    if delta.get("type") == "input_json_delta":
        inputs[index] = inputs.get(index, "") + (delta.get("partial_json") or "")
    elif delta.get("type") == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
    else:
        _merge(block, {name: value for name, value in delta.items() if name != "type"})


JOIN: dict[Api, Callable[[list[dict[str, Any]]], dict[str, Any] | None]] = {
    "responses": _of_responses,
    "chat": _of_chat,
    "anthropic": _of_anthropic,
}


def _merge(whole: dict[str, Any], piece: dict[str, Any], grows: tuple[str, ...] | None = None) -> None:
    """Add a piece to what came before it. `grows`: the texts that grow; by default all that are not in `SET`."""
    for name, value in piece.items():
        before = whole.get(name)
        if value is None:
            whole.setdefault(name, None)
        elif isinstance(value, str) and isinstance(before, str):
            growing = name not in SET if grows is None else name in grows
            whole[name] = before + value if growing else before or value
        elif isinstance(value, dict) and isinstance(before, dict):
            before = whole[name] = dict(before)
            _merge(before, value)
        elif isinstance(value, list):
            whole[name] = _merged_list(before if isinstance(before, list) else [], value)
        else:
            whole[name] = value


def _merged_list(before: list[Any], added: list[Any]) -> list[Any]:
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
