"""An independent reader of what went over HTTP. It knows nothing of the compilers: only what a provider is sent, and what it answered.

What the model was told in one request is put together from the bodies alone: the chain or the conversation before it, and its own
input. As plain lines, it can be compared with what the agent should have seen (`seen.py`); piece by piece, with what it was told before
(`caching.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.providers.stories.spans import Span, elements, members
from tests.providers.stories.traffic import Sent

Line = tuple[str, str]
"""Who, and what: ("user", "Hello"), ("call 0", 'look_up {"order": 7}'), ("output 0", "sent"), ("thought", "")."""

STAND_IN = "(No message of the user stands here. Go on.)"
"""What Anthropic is told where two replies would stand side by side, or one first or last: it is nobody's message."""

ITEMS = {"responses": "input", "chat": "messages", "anthropic": "messages"}
_FRAME = {"responses": "instructions", "anthropic": "system"}


@dataclass(frozen=True)
class Piece:
    """One thing that a model is told: an item, a message, a block. `text`: as it was sent; empty if the provider said it itself."""

    role: str
    data: dict[str, Any]
    text: str = ""
    end: int = 0
    """Where it ends in the body."""


@dataclass(frozen=True)
class Asked:
    """One request for a reply. `told`: all of it, of which the first `held` pieces are not in the body."""

    sent: Sent
    text: str
    body: dict[str, Any]
    spans: dict[str, Span]
    told: tuple[Piece, ...]
    held: int
    unproven: tuple[str, ...]
    """What it names although the provider never confirmed to have it."""


class Reader:
    """Everything that was said to one provider in one story, put together again."""

    def __init__(self, traffic: Sequence[Sent]) -> None:
        self.asked: dict[int, Asked] = {}
        self._kept: dict[str, tuple[Piece, ...]] = {}  # what a response or a conversation holds, as the provider confirmed it
        self._given: set[str] = set()  # ids of the provider's own making, but for those of calls
        for number, sent in enumerate(traffic):
            if sent.asks:
                self.asked[number] = self._read(sent)
            elif sent.path.endswith("/conversations") and sent.status == 200:
                self._kept[sent.answer["id"]] = ()
                self._given.add(sent.answer["id"])

    def _read(self, sent: Sent) -> Asked:
        text = sent.body.decode()
        body, spans = json.loads(text), members(text)
        base = body.get("previous_response_id") or body.get("conversation") or ""
        unproven = [f"{base} was never confirmed to be stored"] if base and base not in self._kept else []
        given = {id for id in self._given if id in text.replace(f'"{base}"', "", 1)}
        unproven += [f"{id} is the provider's own id" for id in sorted(given)]
        unproven += [f"{what} goes by reference" for what in _references(body)]
        before = self._kept.get(base, ())
        told = (*before, *_pieces(sent.api, text, spans))
        self._hold(sent, body, told)
        return Asked(sent, text, body, spans, told, len(before), tuple(unproven))

    def _hold(self, sent: Sent, body: dict[str, Any], told: tuple[Piece, ...]) -> None:
        """What the provider has after its answer. Only what it says to have stored is stored."""
        output = sent.answer.get("output", []) if sent.api == "responses" else []
        self._given |= {id for id in (sent.answer.get("id"), *(item.get("id") for item in output)) if id}
        if sent.status == 200 and sent.answer.get("store") is True:
            after = (*told, *(Piece(item.get("role", ""), item) for item in output))
            self._kept[sent.answer["id"]] = after
            if conversation := body.get("conversation"):
                self._kept[conversation] = after

    def heard(self, number: int, thoughts: bool = False) -> list[Line]:
        """What the model was told in this request, whole; `thoughts`: and where reasoning stood."""
        return [line for line in lines_of(self.asked[number].told) if thoughts or line[0] != "thought"]

    def held(self, number: int) -> list[Line]:
        """What of it the provider held already."""
        asked = self.asked[number]
        return [line for line in lines_of(asked.told[: asked.held]) if line[0] != "thought"]

    def instructions(self, number: int) -> str:
        """What stands before the conversation."""
        asked = self.asked[number]
        if asked.sent.api == "chat":
            return "".join(_text(piece.data["content"]) for piece in asked.told if piece.role == "system")
        return _text(asked.body.get(_FRAME[asked.sent.api], ""))

    def tools(self, number: int) -> list[tuple[str, Any]]:
        """The tools that the model was offered, and what each takes."""
        offered = [tool.get("function", tool) for tool in self.asked[number].body.get("tools", [])]
        return [(tool["name"], tool.get("parameters", tool.get("input_schema"))) for tool in offered]

    def unpaired(self, number: int) -> list[str]:
        """Calls without exactly one output after them, and outputs without a call."""
        wrong: list[str] = []
        waiting: list[str] = []
        answered: set[str] = set()
        for kind, id, _ in _spoken(self.asked[number].told):
            if kind == "call":
                wrong += [f"two calls have the id {id}"] if id in waiting or id in answered else []
                waiting.append(id)
            elif kind == "output" and id in waiting:
                waiting.remove(id)
                answered.add(id)
            elif kind == "output":
                wrong.append(f"an output for {id}, which is not open")
        return [*wrong, *(f"no output for {id}" for id in waiting)]

    def unproven(self, number: int) -> list[str]:
        """Provider's ids that may not be sent: those of items, by value or as a reference, and of what it never said to have stored."""
        return list(self.asked[number].unproven)


def lines_of(pieces: Sequence[Piece]) -> list[Line]:
    """What pieces say, in order. Calls are numbered, and an output has the number of its call: whatever their ids."""
    lines: list[Line] = []
    numbers: dict[str, int] = {}
    for kind, id, text in _spoken(pieces):
        if kind == "call":
            numbers[id] = sum(line[0].startswith("call") for line in lines)
        lines.append((f"{kind} {numbers.get(id, '?')}" if kind in ("call", "output") else kind, text))
    return [line for line in lines if line[1] or line[0] == "thought" or line[0].startswith("output")]


# -- what a body is made of --------------------------------------------------------------------------------------------


def _pieces(api: str, text: str, spans: dict[str, Span]) -> Iterator[Piece]:
    begin, _ = spans[ITEMS[api]]
    if text[begin] == '"':
        yield Piece("user", {"role": "user", "content": json.loads(text[slice(*spans[ITEMS[api]])])}, text[slice(*spans[ITEMS[api]])])
        return
    for span in elements(text, begin):
        whole = text[slice(*span)]
        data = json.loads(whole)
        if api == "anthropic":
            yield from _blocks(text, span[0], data)
        else:
            yield Piece(data.get("role", ""), data, whole, span[1])


def _blocks(text: str, at: int, message: dict[str, Any]) -> Iterator[Piece]:
    """The blocks of a message of Anthropic's: who speaks is no part of them."""
    begin, end = members(text, at)["content"]
    role, content = message["role"], message["content"]
    if isinstance(content, str):
        yield Piece(role, {"type": "text", "text": content}, text[begin:end], end)
        return
    for block, span in zip(content, elements(text, begin), strict=True):
        nobody = len(content) == 1 and block.get("text") == STAND_IN
        yield Piece("nobody" if nobody else role, block, text[slice(*span)], span[1])


def _references(body: dict[str, Any]) -> Iterator[str]:
    for item in body.get("input", ()):
        if isinstance(item, dict) and ("id" in item or item.get("type") == "item_reference"):
            yield str(item.get("id"))


# -- what a piece says -------------------------------------------------------------------------------------------------


def _spoken(pieces: Sequence[Piece]) -> Iterator[tuple[str, str, str]]:
    """Who says what: "user", "assistant", "thought", "call" or "output"; the id of the call; the words."""
    for piece in pieces:
        data = piece.data
        match data.get("type", piece.role):
            case "function_call":
                yield "call", data["call_id"], _call(data["name"], data["arguments"])
            case "function_call_output":
                yield from _output(data["call_id"], data["output"])
            case "tool_use":
                yield "call", data["id"], f"{data['name']} {json.dumps(data['input'], sort_keys=True)}"
            case "tool_result":
                yield from _output(data["tool_use_id"], data.get("content", ""))
            case "tool":
                yield from _output(data["tool_call_id"], data["content"])
            case "reasoning" | "thinking" | "redacted_thinking":
                yield "thought", "", ""
            case "message" | "user" | "assistant":
                yield from _message(piece.role, data)
            case "system":
                pass
            case _:
                if piece.role != "nobody":
                    yield piece.role, "", _part(data)


def _message(role: str, data: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    if data.get("reasoning_content"):
        yield "thought", "", ""
    for text in _parts(data.get("content") or data.get("refusal") or ""):
        yield role, "", text
    for call in data.get("tool_calls") or ():
        yield "call", call["id"], _call(call["function"]["name"], call["function"]["arguments"])


def _output(id: str, content: Any) -> Iterator[tuple[str, str, str]]:
    yield "output", id, "|".join(_parts(content))


def _call(name: str, arguments: str) -> str:
    return f"{name} {plain_arguments(arguments)}"


def plain_arguments(text: str) -> str:
    """Arguments in one spelling, if they are JSON."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text


def _text(content: Any) -> str:
    return "".join(_parts(content))


def _parts(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [_part(part) for part in content]


def _part(part: dict[str, Any]) -> str:
    kind = part["type"]
    if kind in ("input_image", "image_url", "image"):
        return "(picture)"
    if kind in ("input_file", "file", "document"):
        return "(file)"
    return str(part.get("text", part.get("refusal", "")))
