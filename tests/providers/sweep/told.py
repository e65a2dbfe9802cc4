"""What a model was told, read from the body alone, and what it should have been told, read from the view alone. Neither asks a compiler.

Both are *lines*: who spoke and what; a call with its number in this conversation, its tool and its arguments; an output with the number
of the call that it answers. So a call that is answered for another is seen, and an id that two calls share.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from legato.core.facts import Call, Content, File, Image, Refusal, Text, Words
from legato.core.groups import AssistantEntry, OutputEntry
from legato.core.model_reply import Reply
from legato.core.view import Request
from legato.emulator import minds
from legato.emulator.minds.base import Say
from legato.providers.formats.parts import STAND_IN
from legato.providers.rules.names import wire_name
from tests.providers.sweep.lines import Line

Said = tuple[Any, ...]


# -- what was told -----------------------------------------------------------------------------------------------------


class Hearing:
    """Puts lines together, and notes what cannot be understood."""

    def __init__(self) -> None:
        self.lines: list[Said] = []
        self.wrong: list[str] = []
        self._open: dict[str, int] = {}
        self._calls = 0
        self._ids: set[str] = set()

    def words(self, who: str, text: str) -> None:
        if text and not (who == "user" and text == STAND_IN):
            self.lines.append((who, text))

    def call(self, id: str, tool: str, arguments: str) -> None:
        if id in self._ids:
            self.wrong.append(f"two calls have the id {id!r}")
        self._ids.add(id)
        self._open[id] = self._calls
        # What a provider holds may have a name that it would not take: the model made it up.
        self.lines.append(("call", self._calls, wire_name(tool), _same(arguments)))
        self._calls += 1

    def output(self, id: str, text: str) -> None:
        if id not in self._open:
            self.wrong.append(f"an output for {id!r}, which is not open")
        self.lines.append(("output", self._open.pop(id, None), text))

    def done(self) -> list[str]:
        """What is wrong with all of it."""
        return [*self.wrong, *(f"no output for {id!r}" for id in self._open)]


def heard_items(items: Iterable[dict[str, Any]]) -> Hearing:
    """Items of the Responses API: what is held, and what was sent."""
    hearing = Hearing()
    for item in items:
        match item.get("type", "message"):
            case "function_call":
                hearing.call(item["call_id"], item["name"], item["arguments"])
            case "function_call_output":
                hearing.output(item["call_id"], _flat(item["output"]))
            case "message" if item["role"] == "assistant" and isinstance(item["content"], list):
                for part in item["content"]:
                    hearing.words("assistant", part.get("text", part.get("refusal", "")))
            case "message":
                hearing.words(item["role"], _flat(item["content"]))
    return hearing


def heard_messages(messages: Iterable[dict[str, Any]]) -> Hearing:
    """Messages of Chat Completions."""
    hearing = Hearing()
    for message in messages:
        if message["role"] == "tool":
            hearing.output(message["tool_call_id"], _flat(message["content"]))
        elif message["role"] != "system":
            hearing.words(message["role"], _flat(message["content"] or ""))
            for call in message.get("tool_calls", ()):
                hearing.call(call["id"], call["function"]["name"], call["function"]["arguments"])
    return hearing


def heard_blocks(messages: Iterable[dict[str, Any]]) -> Hearing:
    """Messages of Anthropic's API."""
    hearing = Hearing()
    for message in messages:
        for block in message["content"]:
            match block["type"]:
                case "tool_use":
                    hearing.call(block["id"], block["name"], json.dumps(block["input"]))
                case "tool_result":
                    hearing.output(block["tool_use_id"], _flat(block.get("content", "")))
                case "text" | "image" | "document":
                    hearing.words(message["role"], _flat([block]))
    return hearing


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "|".join(
        "(picture)" if part["type"] in ("input_image", "image_url", "image")
        else "(file)" if part["type"] in ("input_file", "file", "document")
        else part.get("text", "")
        for part in content
    )  # fmt: skip


def _same(arguments: str) -> str:
    """Arguments in one spelling."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except ValueError:
        return arguments


# -- what should have been told ----------------------------------------------------------------------------------------


def due(request: Request, line: Line) -> list[Said]:
    """What the agent should have been told over this line: the view, as this API can say it."""
    lines: list[Said] = []
    numbers: dict[Any, int] = {}
    entries = list(request.entries)
    if line.api == "responses" and line.options.memory != "inline":
        entries = entries[len(request.frame.messages) :]  # they are instructions there
    for entry in entries:
        if isinstance(entry, AssistantEntry):
            words = [item.text for item in entry.items if isinstance(item, (Words, Refusal)) and item.text]
            calls = [(index, item) for index, item in enumerate(entry.items) if isinstance(item, Call)]
            if line.api == "chat":  # one text, then all calls
                lines += [("assistant", "\n".join(words))] if words else []
                lines += [_call(numbers, (entry.position, index), item, line) for index, item in calls]
                continue
            for index, item in enumerate(entry.items):
                if isinstance(item, (Words, Refusal)) and _shown(item.text, line):
                    lines.append(("assistant", item.text))
                elif isinstance(item, Call):
                    lines.append(_call(numbers, (entry.position, index), item, line))
        elif isinstance(entry, OutputEntry):
            text = _parts(entry.content, line)
            lines.append(("output", numbers[entry.ref.position, entry.ref.index], text if _shown(text, line) else ""))
        elif line.api == "anthropic":
            pieces = (Text(entry.content),) if isinstance(entry.content, str) else entry.content
            lines += [("user", text) for piece in pieces if _shown(text := _parts((piece,), line), line)]
        else:
            lines.append(("user", _parts(entry.content, line)))
    return lines


def _shown(text: str, line: Line) -> bool:
    """Anthropic's API takes no blank text."""
    return bool(text.strip() if line.api == "anthropic" else text)


def _call(numbers: dict[Any, int], ref: tuple[int, int], call: Call, line: Line) -> Said:
    numbers[ref] = len(numbers)
    return ("call", numbers[ref], wire_name(call.tool), _same(_arguments(call.arguments, line)))


def _arguments(text: str, line: Line) -> str:
    """What stands for arguments that are no object, where an API wants one."""
    if line.api == "responses" or (line.api == "chat" and not line.options.compatible):
        return text
    if not text.strip():
        return "{}"
    try:
        if isinstance(json.loads(text), dict):
            return text
    except ValueError:
        pass
    return json.dumps({"_raw" if line.api == "anthropic" else "arguments": text})


def _parts(content: Content, line: Line) -> str:
    if isinstance(content, str):
        return content
    plain = all(isinstance(part, Text) or (isinstance(part, File) and part.url) for part in content)  # of such a file the address is told
    between = "\n" if line.options.compatible and plain else "|"
    return between.join(_part(part, line) for part in content)


def _part(part: Text | Image | File, line: Line) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Image):
        return "(picture)"
    if part.url and line.api == "chat":
        return f"[file {part.name}: {part.url}]"
    return "(file)"


# -- what was thought --------------------------------------------------------------------------------------------------


def thoughts(body: dict[str, Any], line: Line) -> list[str]:
    """The reasoning that a request sends back, by what only its maker can read."""
    if line.api == "responses":
        return [item["encrypted_content"] for item in body["input"] if item.get("type") == "reasoning"]
    if line.api == "chat":
        return [message["reasoning_content"] for message in body["messages"] if "reasoning_content" in message]
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [block.get("signature") or block.get("data") for block in blocks if block["type"] in ("thinking", "redacted_thinking")]


# -- what was read -----------------------------------------------------------------------------------------------------


def misread(read: Reply, said: Say, shown: list[str], line: Line) -> list[str]:
    """What of all that the model said was lost or changed on its way back. `shown`: the pieces that were shown as it came."""
    wrong: list[str] = []
    words = "".join(item.text for item in read.items if isinstance(item, (Words, Refusal)))
    if "".join(shown) != words:
        wrong.append(f"{line.name}: {''.join(shown)!r} was shown of {words!r}")
    spoken = [item for item in said.items if isinstance(item, (minds.Words, minds.Refused))]
    if line.api == "chat":  # one text, then the refusal
        spoken.sort(key=lambda item: isinstance(item, minds.Refused))
    told = "".join(item.text for item in spoken)
    if "".join(words.split()) != "".join(told.split()):
        wrong.append(f"{line.name}: {words!r} was read of {told!r}")
    calls = [item for item in read.items if isinstance(item, Call)]
    uses = [item for item in said.items if isinstance(item, minds.Use)]
    if len(calls) != len(uses) and not (line.api == "anthropic" and read.finish == "filter"):
        wrong.append(f"{line.name}: {calls} were read of {uses}")
    for call, use in zip(calls, uses, strict=False):
        named = use.tool in (call.tool, wire_name(call.tool)) and (not use.id or call.call_id in (use.id, ""))
        # Anthropic's API gives arguments as an object, whatever the model wrote.
        if not named or (line.api != "anthropic" and call.arguments != (use.arguments or ("{}" if line.api == "chat" else ""))):
            wrong.append(f"{line.name}: {call} was read of {use}")
    return wrong


def first_difference(told: Sequence[Said], wanted: Sequence[Said]) -> str:
    """Where two tellings part, for people."""
    for index, (one, other) in enumerate(zip(told, wanted, strict=False)):
        if one != other:
            return f"line {index}: {one!r} instead of {other!r}"
    return f"{len(told)} lines instead of {len(wanted)}: {(told[len(wanted) :] or wanted[len(told) :])[0]!r}"
