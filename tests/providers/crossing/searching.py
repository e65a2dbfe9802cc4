"""The way to a provider that searches the web before it speaks, and cites what it found. The emulator does neither: so what it answers is
added to on the way back, as the providers write it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import httpx2

FOUND = "https://example.com/teapots"

OPENAI_SEARCH = {
    "id": "ws_" + "a" * 50,
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "teapots"},
}
OPENAI_NOTE = {"type": "url_citation", "start_index": 0, "end_index": 3, "url": FOUND, "title": "Teapots"}
CHAT_NOTE = {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 3, "url": FOUND, "title": "Teapots"}}
CLAUDE_SEARCH: list[dict[str, Any]] = [
    {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": "teapots"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_01",
        "content": [{"type": "web_search_result", "url": FOUND, "title": "Teapots", "encrypted_content": "EqgB", "page_age": None}],
    },
]
CLAUDE_NOTE = {"type": "web_search_result_location", "url": FOUND, "title": "Teapots", "encrypted_index": "Eo8B", "cited_text": "Tea."}


class Searching(httpx2.AsyncHTTPTransport):
    """Adds a search and its citation to every answer that has words."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().handle_async_request(request)
        if answer.status_code != 200 or "/conversations" in request.url.path:
            return answer
        body = (await answer.aread()).decode()
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        if headers["content-type"].startswith("text/event-stream"):
            said = "".join(_written(event) for event in _streamed(_events(body)))
        else:
            said = json.dumps(_whole(json.loads(body)))
        return httpx2.Response(200, headers=headers, content=said.encode(), request=request)


def _whole(body: dict[str, Any]) -> dict[str, Any]:
    match body.get("object", body.get("type")):
        case "response":
            return _response(body)
        case "chat.completion":
            message = body["choices"][0]["message"]
            if message["content"]:
                message["annotations"] = [CHAT_NOTE]
        case "message":
            texts = [block for block in body["content"] if block["type"] == "text"]
            for block in texts:
                block["citations"] = [CLAUDE_NOTE]
            body["content"] = [*CLAUDE_SEARCH, *body["content"]] if texts else body["content"]
    return body


def _response(response: dict[str, Any]) -> dict[str, Any]:
    messages = [item for item in response["output"] if item["type"] == "message"]
    for item in messages:
        item["content"][0]["annotations"] = [OPENAI_NOTE]
    return {**response, "output": [OPENAI_SEARCH, *response["output"]] if messages else response["output"]}


def _events(body: str) -> list[tuple[str, str]]:
    """Each event's name, empty if it has none, and its data."""
    events = []
    for block in body.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in lines:
            events.append((lines.get("event", ""), lines["data"]))
    return events


def _written(event: tuple[str, str]) -> str:
    name, data = event
    return (f"event: {name}\n" if name else "") + f"data: {data}\n\n"


def _streamed(events: list[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    if events[0][0] == "message_start":
        yield from _claude(events)
        return
    for name, data in events:
        if data == "[DONE]":
            yield name, data
            continue
        told = json.loads(data)
        if name in ("response.completed", "response.incomplete"):
            told["response"] = _response(told["response"])
        elif not name and told["choices"] and told["choices"][0]["delta"].get("content"):
            yield name, json.dumps(told)
            told["choices"][0]["delta"] = {"annotations": [CHAT_NOTE]} if not _noted(events, data) else {}
        yield name, json.dumps(told)


def _noted(events: list[tuple[str, str]], data: str) -> bool:
    """Whether words stood in an earlier chunk: the citation comes once."""
    spoken = [each for _, each in events if each != "[DONE]" and '"content":"' in each and '"content":""' not in each]
    return spoken[0] != data


def _claude(events: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    yield events[0]
    said = any('"text_delta"' in data for _, data in events)
    for index, block in enumerate(CLAUDE_SEARCH if said else []):
        begun = {**block, "input": {}} if "input" in block else block
        yield _event("content_block_start", index=index, content_block=begun)
        if "input" in block:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    texts: set[int] = set()
    for name, data in events[1:]:
        told = json.loads(data)
        if "index" in told and said:
            told["index"] += len(CLAUDE_SEARCH)
        if name == "content_block_start" and told["content_block"]["type"] == "text":
            texts.add(told["index"])
        if name == "content_block_stop" and told["index"] in texts:
            yield _event("content_block_delta", index=told["index"], delta={"type": "citations_delta", "citation": CLAUDE_NOTE})
        yield name, json.dumps(told)


def _event(name: str, **told: Any) -> tuple[str, str]:
    return name, json.dumps({"type": name, **told})
