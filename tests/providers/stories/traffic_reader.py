"""A reader of requests over HTTP that is independent of the encoders: it knows only the requests and the answers.

The contents of a request are collected from the bodies alone: the chain or the conversation before it, and its own input. As lines, they
are compared with the agent's view (`expected_contents.py`); piece by piece, with the contents of earlier requests
(`prompt_cache_checks.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.providers.stories.json_spans import Span, element_spans, member_spans
from tests.providers.stories.recording_provider import SentRequest

ContentLine = tuple[str, str]
"""A kind and a text: ("user", "Hello"), ("call 0", 'look_up {"order": 7}'), ("output 0", "sent"), ("thought", "")."""

MISSING_USER_MESSAGE = "(No message of the user stands here. Go on.)"
"""The text that Anthropic is sent between two replies, or before the first or after the last one: no user wrote it."""

ITEM_MEMBERS = {"responses": "input", "chat": "messages", "anthropic": "messages"}
_INSTRUCTION_MEMBERS = {"responses": "instructions", "anthropic": "system"}


@dataclass(frozen=True)
class ContentPiece:
    """An item, a message or a block. `text`: its JSON as it was sent; empty if the provider made it."""

    role: str
    data: dict[str, Any]
    text: str = ""
    end: int = 0
    """The position of its end in the body."""


@dataclass(frozen=True)
class ReadRequest:
    """One model request. `contents`: all pieces, of which the first `stored_count` are stored and not in the body."""

    request: SentRequest
    text: str
    body: dict[str, Any]
    spans: dict[str, Span]
    contents: tuple[ContentPiece, ...]
    stored_count: int
    unconfirmed_ids: tuple[str, ...]
    """The ids in the request that the provider did not confirm to store."""


class TrafficReader:
    """The contents of all requests to one provider in one story."""

    def __init__(self, traffic: Sequence[SentRequest]) -> None:
        self.requests: dict[int, ReadRequest] = {}
        self._stored_contents: dict[str, tuple[ContentPiece, ...]] = {}  # confirmed contents by response or conversation
        self._provider_ids: set[str] = set()  # ids that the provider made, except call ids
        for number, request in enumerate(traffic):
            if request.is_model_request:
                self.requests[number] = self._read_request(request)
            elif request.path.endswith("/conversations") and request.status == 200:
                self._stored_contents[request.answer["id"]] = ()
                self._provider_ids.add(request.answer["id"])

    def _read_request(self, request: SentRequest) -> ReadRequest:
        text = request.body.decode()
        body, spans = json.loads(text), member_spans(text)
        base = body.get("previous_response_id") or body.get("conversation") or ""
        unconfirmed_ids = [f"{base} was never confirmed to be stored"] if base and base not in self._stored_contents else []
        sent_ids = {id for id in self._provider_ids if id in text.replace(f'"{base}"', "", 1)}
        unconfirmed_ids += [f"{id} is the provider's own id" for id in sorted(sent_ids)]
        unconfirmed_ids += [f"{what} goes by reference" for what in _find_item_references(body)]
        before = self._stored_contents.get(base, ())
        contents = (*before, *_split_body(request.api, text, spans))
        self._store_reply(request, body, contents)
        return ReadRequest(request, text, body, spans, contents, len(before), tuple(unconfirmed_ids))

    def _store_reply(self, request: SentRequest, body: dict[str, Any], contents: tuple[ContentPiece, ...]) -> None:
        """Record what the provider stores after its answer. Only what it confirms counts as stored."""
        output = request.answer.get("output", []) if request.api == "responses" else []
        self._provider_ids |= {id for id in (request.answer.get("id"), *(item.get("id") for item in output)) if id}
        if request.status == 200 and request.answer.get("store") is True:
            after = (*contents, *(ContentPiece(item.get("role", ""), item) for item in output))
            self._stored_contents[request.answer["id"]] = after
            if conversation := body.get("conversation"):
                self._stored_contents[conversation] = after

    def read_contents(self, number: int, with_reasoning: bool = False) -> list[ContentLine]:
        """Return the whole contents of a request; `with_reasoning`: with the places of reasoning."""
        return [line for line in list_content_lines(self.requests[number].contents) if with_reasoning or line[0] != "thought"]

    def read_stored_contents(self, number: int) -> list[ContentLine]:
        """Return the contents that the provider stored before the request."""
        request = self.requests[number]
        return [line for line in list_content_lines(request.contents[: request.stored_count]) if line[0] != "thought"]

    def read_instructions(self, number: int) -> str:
        """Return the instructions."""
        request = self.requests[number]
        if request.request.api == "chat":
            return "".join(_join_text(piece.data["content"]) for piece in request.contents if piece.role == "system")
        return _join_text(request.body.get(_INSTRUCTION_MEMBERS[request.request.api], ""))

    def read_tools(self, number: int) -> list[tuple[str, Any]]:
        """Return the names and schemas of the tools."""
        offered = [tool.get("function", tool) for tool in self.requests[number].body.get("tools", [])]
        return [(tool["name"], tool.get("parameters", tool.get("input_schema"))) for tool in offered]

    def find_unpaired_calls(self, number: int) -> list[str]:
        """Return calls without exactly one later output, and outputs without a call."""
        wrong: list[str] = []
        waiting: list[str] = []
        answered: set[str] = set()
        for kind, id, _ in _read_pieces(self.requests[number].contents):
            if kind == "call":
                wrong += [f"two calls have the id {id}"] if id in waiting or id in answered else []
                waiting.append(id)
            elif kind == "output" and id in waiting:
                waiting.remove(id)
                answered.add(id)
            elif kind == "output":
                wrong.append(f"an output for {id}, which is not open")
        return [*wrong, *(f"no output for {id}" for id in waiting)]

    def find_unconfirmed_ids(self, number: int) -> list[str]:
        """Return the ids that may not be sent: item ids, by value or by reference, and ids that the provider did not confirm to store."""
        return list(self.requests[number].unconfirmed_ids)


def list_content_lines(pieces: Sequence[ContentPiece]) -> list[ContentLine]:
    """Return the lines of pieces, in order. Calls are numbered, and an output has the number of its call."""
    lines: list[ContentLine] = []
    numbers: dict[str, int] = {}
    for kind, id, text in _read_pieces(pieces):
        if kind == "call":
            numbers[id] = sum(line[0].startswith("call") for line in lines)
        lines.append((f"{kind} {numbers.get(id, '?')}" if kind in ("call", "output") else kind, text))
    return [line for line in lines if line[1] or line[0] == "thought" or line[0].startswith("output")]


# -- pieces of a body --------------------------------------------------------------------------------------------------


def _split_body(api: str, text: str, spans: dict[str, Span]) -> Iterator[ContentPiece]:
    begin, _ = spans[ITEM_MEMBERS[api]]
    if text[begin] == '"':
        yield ContentPiece(
            "user", {"role": "user", "content": json.loads(text[slice(*spans[ITEM_MEMBERS[api]])])}, text[slice(*spans[ITEM_MEMBERS[api]])]
        )
        return
    for span in element_spans(text, begin):
        whole = text[slice(*span)]
        data = json.loads(whole)
        if api == "anthropic":
            yield from _split_message(text, span[0], data)
        else:
            yield ContentPiece(data.get("role", ""), data, whole, span[1])


def _split_message(text: str, at: int, message: dict[str, Any]) -> Iterator[ContentPiece]:
    """Yield the blocks of an Anthropic message, with its role."""
    begin, end = member_spans(text, at)["content"]
    role, content = message["role"], message["content"]
    if isinstance(content, str):
        yield ContentPiece(role, {"type": "text", "text": content}, text[begin:end], end)
        return
    for block, span in zip(content, element_spans(text, begin), strict=True):
        nobody = len(content) == 1 and block.get("text") == MISSING_USER_MESSAGE
        yield ContentPiece("nobody" if nobody else role, block, text[slice(*span)], span[1])


def _find_item_references(body: dict[str, Any]) -> Iterator[str]:
    for item in body.get("input", ()):
        if isinstance(item, dict) and ("id" in item or item.get("type") == "item_reference"):
            yield str(item.get("id"))


# -- contents of a piece -----------------------------------------------------------------------------------------------


def _read_pieces(pieces: Sequence[ContentPiece]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, call id and text of each piece. Kinds: "user", "assistant", "thought", "call" and "output"."""
    for piece in pieces:
        data = piece.data
        match data.get("type", piece.role):
            case "function_call":
                yield "call", data["call_id"], _format_call(data["name"], data["arguments"])
            case "function_call_output":
                yield from _read_output(data["call_id"], data["output"])
            case "tool_use":
                yield "call", data["id"], f"{data['name']} {json.dumps(data['input'], sort_keys=True)}"
            case "tool_result":
                yield from _read_output(data["tool_use_id"], data.get("content", ""))
            case "tool":
                yield from _read_output(data["tool_call_id"], data["content"])
            case "reasoning" | "thinking" | "redacted_thinking":
                yield "thought", "", ""
            case "message" | "user" | "assistant":
                yield from _read_message(piece.role, data)
            case "system":
                pass
            case _:
                if piece.role != "nobody":
                    yield piece.role, "", _format_part(data)


def _read_message(role: str, data: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    if data.get("reasoning_content"):
        yield "thought", "", ""
    for text in _list_texts(data.get("content") or data.get("refusal") or ""):
        yield role, "", text
    for call in data.get("tool_calls") or ():
        yield "call", call["id"], _format_call(call["function"]["name"], call["function"]["arguments"])


def _read_output(id: str, content: Any) -> Iterator[tuple[str, str, str]]:
    yield "output", id, "|".join(_list_texts(content))


def _format_call(name: str, arguments: str) -> str:
    return f"{name} {normalize_arguments(arguments)}"


def normalize_arguments(text: str) -> str:
    """Return arguments in a normal form if they are JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text


def _join_text(content: Any) -> str:
    return "".join(_list_texts(content))


def _list_texts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [_format_part(part) for part in content]


def _format_part(part: dict[str, Any]) -> str:
    kind = part["type"]
    if kind in ("input_image", "image_url", "image"):
        return "(picture)"
    if kind in ("input_file", "file", "document"):
        return "(file)"
    return str(part.get("text", part.get("refusal", "")))
