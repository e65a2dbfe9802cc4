"""A transport that adds a web search and citations to the emulator's answers, as the providers write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import httpx2

FOUND_URL = "https://example.com/teapots"

OPENAI_SEARCH = {
    "id": "ws_" + "a" * 50,
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "teapots"},
}
OPENAI_CITATION = {"type": "url_citation", "start_index": 0, "end_index": 3, "url": FOUND_URL, "title": "Teapots"}
CHAT_CITATION = {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 3, "url": FOUND_URL, "title": "Teapots"}}
ANTHROPIC_SEARCH: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": "teapots"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_01",
        "content": [{"type": "web_search_result", "url": FOUND_URL, "title": "Teapots", "encrypted_content": "EqgB", "page_age": None}],
    },
]
ANTHROPIC_CITATION = {
    "type": "web_search_result_location",
    "url": FOUND_URL,
    "title": "Teapots",
    "encrypted_index": "Eo8B",
    "cited_text": "Tea.",
}


class WebSearchTransport(httpx2.AsyncHTTPTransport):
    """A transport that adds a search and a citation to every answer with text."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().handle_async_request(request)
        if answer.status_code != 200 or "/conversations" in request.url.path:
            return answer
        body = (await answer.aread()).decode()
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        if headers["content-type"].startswith("text/event-stream"):
            content = "".join(_encode_event(event) for event in _add_to_events(_parse_events(body)))
        else:
            content = json.dumps(_add_to_body(json.loads(body)))
        return httpx2.Response(200, headers=headers, content=content.encode(), request=request)


def _add_to_body(body: dict[str, Any]) -> dict[str, Any]:
    match body.get("object", body.get("type")):
        case "response":
            return _add_to_response(body)
        case "chat.completion":
            message = body["choices"][0]["message"]
            if message["content"]:
                message["annotations"] = [CHAT_CITATION]
        case "message":
            texts = [block for block in body["content"] if block["type"] == "text"]
            for block in texts:
                block["citations"] = [ANTHROPIC_CITATION]
            body["content"] = [*ANTHROPIC_SEARCH, *body["content"]] if texts else body["content"]
    return body


def _add_to_response(response: dict[str, Any]) -> dict[str, Any]:
    messages = [item for item in response["output"] if item["type"] == "message"]
    for item in messages:
        item["content"][0]["annotations"] = [OPENAI_CITATION]
    return {**response, "output": [OPENAI_SEARCH, *response["output"]] if messages else response["output"]}


def _parse_events(body: str) -> list[tuple[str, str]]:
    """Return the name (empty if there is none) and the data of each event."""
    events = []
    for block in body.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in lines:
            events.append((lines.get("event", ""), lines["data"]))
    return events


def _encode_event(event: tuple[str, str]) -> str:
    name, data = event
    return (f"event: {name}\n" if name else "") + f"data: {data}\n\n"


def _add_to_events(events: list[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    if events[0][0] == "message_start":
        yield from _add_to_anthropic_events(events)
        return
    for name, data in events:
        if data == "[DONE]":
            yield name, data
            continue
        event = json.loads(data)
        if name in ("response.completed", "response.incomplete"):
            event["response"] = _add_to_response(event["response"])
        elif not name and event["choices"] and event["choices"][0]["delta"].get("content"):
            yield name, json.dumps(event)
            event["choices"][0]["delta"] = {"annotations": [CHAT_CITATION]} if not _is_after_first_text(events, data) else {}
        yield name, json.dumps(event)


def _is_after_first_text(events: list[tuple[str, str]], data: str) -> bool:
    """Return True if an earlier chunk has text: the citation comes once."""
    text_chunks = [each for _, each in events if each != "[DONE]" and '"content":"' in each and '"content":""' not in each]
    return text_chunks[0] != data


def _add_to_anthropic_events(events: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    yield events[0]
    has_text = any('"text_delta"' in data for _, data in events)
    for index, block in enumerate(ANTHROPIC_SEARCH if has_text else []):
        begun = {**block, "input": {}} if "input" in block else block
        yield _make_event("content_block_start", index=index, content_block=begun)
        if "input" in block:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield _make_event("content_block_delta", index=index, delta=delta)
        yield _make_event("content_block_stop", index=index)
    texts: set[int] = set()
    for name, data in events[1:]:
        event = json.loads(data)
        if "index" in event and has_text:
            event["index"] += len(ANTHROPIC_SEARCH)
        if name == "content_block_start" and event["content_block"]["type"] == "text":
            texts.add(event["index"])
        if name == "content_block_stop" and event["index"] in texts:
            yield _make_event(
                "content_block_delta", index=event["index"], delta={"type": "citations_delta", "citation": ANTHROPIC_CITATION}
            )
        yield name, json.dumps(event)


def _make_event(name: str, **members: Any) -> tuple[str, str]:
    return name, json.dumps({"type": name, **members})
