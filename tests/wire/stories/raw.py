"""An independent reader of what went over HTTP. It knows nothing of the compilers: only what a provider is sent, and what it answered.

`heard(exchanges, number)` is what the model was told in one request, whole: the chain or conversation before it, and its own input; as
plain lines, so that it can be compared with what the agent should have seen.
"""

from __future__ import annotations

import json
from typing import Any

from legato.core.facts import Call, File, Image, Refusal, Words
from legato.core.groups import AssistantEntry, OutputEntry
from legato.core.view import Request
from legato.emulator.exchanges import Exchange

Line = tuple[str, str]


def seen(request: Request, added: bool = True) -> list[Line]:
    """What an agent should have been told, from the view; `added`: with the messages of its frame, else they are instructions."""
    lines: list[Line] = []
    for entry in list(request.entries)[0 if added else len(request.frame.messages) :]:
        if isinstance(entry, AssistantEntry):
            for item in entry.items:
                if isinstance(item, (Words, Refusal)):
                    lines.append(("assistant", item.text))
                elif isinstance(item, Call):
                    lines.append(("call", _arguments(item.arguments)))
        elif isinstance(entry, OutputEntry):
            lines.append(("output", _plain(entry.content)))
        else:
            lines.append(("user", _plain(entry.content)))
    return [line for line in lines if line[1]]


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "|".join("(picture)" if isinstance(part, Image) else "(file)" if isinstance(part, File) else part.text for part in content)


def _arguments(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text


class Ledgerless:
    """Everything that was said to one emulator, put together again from the bodies alone."""

    def __init__(self, exchanges: list[Exchange], first: int = 1) -> None:
        """`exchanges`: the requests for replies, in the order of their arrival; `first`: the number of the first."""
        self._by_number = dict(enumerate(exchanges, first))
        self._items: dict[str, list[dict[str, Any]]] = {}  # what the provider holds after a response, or in a conversation
        self._told: dict[int, list[dict[str, Any]]] = {}
        for number, exchange in self._by_number.items():
            if exchange.api == "responses" and exchange.status == 200:
                self._replay(number, exchange)

    def _replay(self, number: int, exchange: Exchange) -> None:
        body, reply = exchange.request, exchange.reply or {}
        conversation = body.get("conversation") or ""
        before = self._items.get(body.get("previous_response_id") or conversation, [])
        given = body["input"]
        told = [*before, *([{"role": "user", "content": given}] if isinstance(given, str) else given)]
        self._told[number] = told
        held = [*told, *reply.get("output", [])]
        if body.get("store") is not False:
            self._items[reply.get("id", "")] = held
        if conversation:
            self._items[conversation] = held

    def heard(self, number: int) -> list[Line]:
        """What the model was told in this request, whole."""
        exchange = self._by_number[number]
        if exchange.api == "responses":
            return [line for item in self._told[number] for line in _responses(item)]
        if exchange.api == "chat":
            return [line for message in exchange.request["messages"] for line in _chat(message)]
        return [line for message in exchange.request["messages"] for line in _anthropic(message)]

    def instructions(self, number: int) -> str:
        """What stands before the conversation."""
        return str(self._by_number[number].request.get("instructions", ""))

    def unpaired(self, number: int) -> list[str]:
        """Calls without exactly one output after them, and outputs without a call."""
        wrong, open_calls, answered = [], list[str](), set[str]()
        for kind, id in self._pairs(number):
            if kind == "call":
                if id in open_calls or id in answered:
                    wrong.append(f"two calls have the id {id}")
                open_calls.append(id)
            elif id in open_calls:
                open_calls.remove(id)
                answered.add(id)
            else:
                wrong.append(f"an output for {id}, which is not open")
        return [*wrong, *(f"no output for {id}" for id in open_calls)]

    def _pairs(self, number: int) -> list[tuple[str, str]]:
        exchange = self._by_number[number]
        pairs: list[tuple[str, str]] = []
        if exchange.api == "responses":
            for item in self._told[number]:
                if item.get("type") in ("function_call", "function_call_output"):
                    pairs.append(("call" if item["type"] == "function_call" else "output", item["call_id"]))
        elif exchange.api == "chat":
            for message in exchange.request["messages"]:
                pairs += [("call", call["id"]) for call in message.get("tool_calls") or ()]
                pairs += [("output", message["tool_call_id"])] if message["role"] == "tool" else []
        else:
            for message in exchange.request["messages"]:
                for block in message["content"] if isinstance(message["content"], list) else ():
                    if block["type"] == "tool_use":
                        pairs.append(("call", block["id"]))
                    elif block["type"] == "tool_result":
                        pairs.append(("output", block["tool_use_id"]))
        return pairs

    def item_ids(self, number: int) -> list[str]:
        """The ids of items that were sent by value: there must be none."""
        body = self._by_number[number].request
        return [item["id"] for item in body.get("input", []) if isinstance(item, dict) and "id" in item]


def _responses(item: dict[str, Any]) -> list[Line]:
    match item.get("type"):
        case "function_call":
            return [("call", _arguments(item["arguments"]))]
        case "function_call_output":
            return [("output", _content(item["output"]))]
        case "reasoning":
            return []
        case _:
            role = item["role"]
            return [(role, _content(item["content"]))] if role in ("user", "assistant") else []


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    words = []
    for part in content:
        kind = part["type"]
        if kind in ("input_image", "image_url", "image"):
            words.append("(picture)")
        elif kind in ("input_file", "file", "document"):
            words.append("(file)")
        else:
            words.append(part.get("text", part.get("refusal", "")))
    return "|".join(words)


def _chat(message: dict[str, Any]) -> list[Line]:
    role = message["role"]
    if role == "system":
        return []
    if role == "tool":
        return [("output", _content(message["content"]))]
    said = [(role, text)] if (text := _content(message.get("content") or message.get("refusal") or "")) else []
    return [*said, *(("call", _arguments(call["function"]["arguments"])) for call in message.get("tool_calls") or ())]


def _anthropic(message: dict[str, Any]) -> list[Line]:
    if isinstance(message["content"], str):
        return [(message["role"], message["content"])]
    lines: list[Line] = []
    for block in message["content"]:
        match block["type"]:
            case "text":
                lines.append((message["role"], block["text"]))
            case "tool_use":
                lines.append(("call", json.dumps(block["input"], sort_keys=True)))
            case "tool_result":
                lines.append(("output", _content(block.get("content", ""))))
            case "image" | "document":
                lines.append((message["role"], "(picture)" if block["type"] == "image" else "(file)"))
    return lines
