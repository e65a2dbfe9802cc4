"""The contents of a request, read from its body alone, and the expected contents, read from the view alone, without any encoder.

Both are lists of *lines*: a role and a text; a call with its number in the conversation, its tool and its arguments; an output with the
number of its call. So an output for the wrong call is detected, and an id that two calls share.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from legato.core.facts import Call, Content, File, Image, OutputText, Refusal, Text
from legato.core.groups import AssistantEntry, OutputEntry
from legato.core.model_reply import ModelReply
from legato.core.view import ModelRequest
from legato.emulator import fake_models
from legato.emulator.fake_models.base import FakeReply
from legato.providers.formats.encoded_request import MISSING_USER_MESSAGE
from legato.providers.rules.identifiers import sanitize_tool_name
from tests.providers.sweep.format_variants import FormatVariant

ContentLine = tuple[Any, ...]


# -- contents of bodies ------------------------------------------------------------------------------------------------


class RequestContents:
    """The lines of a request, and the problems in it."""

    def __init__(self) -> None:
        self.lines: list[ContentLine] = []
        self.problems: list[str] = []
        self._open: dict[str, int] = {}
        self._calls = 0
        self._ids: set[str] = set()

    def add_text(self, role: str, text: str) -> None:
        if text and not (role == "user" and text == MISSING_USER_MESSAGE):
            self.lines.append((role, text))

    def add_call(self, id: str, tool: str, arguments: str) -> None:
        if id in self._ids:
            self.problems.append(f"two calls have the id {id!r}")
        self._ids.add(id)
        self._open[id] = self._calls
        # Stored calls may have a tool name that the provider would not take: the model made it up.
        self.lines.append(("call", self._calls, sanitize_tool_name(tool), _normalize_arguments(arguments)))
        self._calls += 1

    def add_output(self, id: str, text: str) -> None:
        if id not in self._open:
            self.problems.append(f"an output for {id!r}, which is not open")
        self.lines.append(("output", self._open.pop(id, None), text))

    def find_problems(self) -> list[str]:
        """Return all problems, open calls included."""
        return [*self.problems, *(f"no output for {id!r}" for id in self._open)]


def read_items(items: Iterable[dict[str, Any]]) -> RequestContents:
    """Read the items of the Responses API, stored and sent."""
    contents = RequestContents()
    for item in items:
        match item.get("type", "message"):
            case "function_call":
                contents.add_call(item["call_id"], item["name"], item["arguments"])
            case "function_call_output":
                contents.add_output(item["call_id"], _flatten(item["output"]))
            case "message" if item["role"] == "assistant" and isinstance(item["content"], list):
                for part in item["content"]:
                    contents.add_text("assistant", part.get("text", part.get("refusal", "")))
            case "message":
                contents.add_text(item["role"], _flatten(item["content"]))
    return contents


def read_messages(messages: Iterable[dict[str, Any]]) -> RequestContents:
    """Read the messages of Chat Completions."""
    contents = RequestContents()
    for message in messages:
        if message["role"] == "tool":
            contents.add_output(message["tool_call_id"], _flatten(message["content"]))
        elif message["role"] != "system":
            contents.add_text(message["role"], _flatten(message["content"] or ""))
            for call in message.get("tool_calls", ()):
                contents.add_call(call["id"], call["function"]["name"], call["function"]["arguments"])
    return contents


def read_blocks(messages: Iterable[dict[str, Any]]) -> RequestContents:
    """Read the messages of Anthropic's API."""
    contents = RequestContents()
    for message in messages:
        for block in message["content"]:
            match block["type"]:
                case "tool_use":
                    contents.add_call(block["id"], block["name"], json.dumps(block["input"]))
                case "tool_result":
                    contents.add_output(block["tool_use_id"], _flatten(block.get("content", "")))
                case "text" | "image" | "document":
                    contents.add_text(message["role"], _flatten([block]))
    return contents


def _flatten(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "|".join(
        "(picture)" if part["type"] in ("input_image", "image_url", "image")
        else "(file)" if part["type"] in ("input_file", "file", "document")
        else part.get("text", "")
        for part in content
    )  # fmt: skip


def _normalize_arguments(arguments: str) -> str:
    """Return arguments in a normal form."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except ValueError:
        return arguments


# -- expected contents -------------------------------------------------------------------------------------------------


def expected_lines(request: ModelRequest, variant: FormatVariant) -> list[ContentLine]:
    """Return the contents that a request in this format should have: the view, as the API can express it."""
    lines: list[ContentLine] = []
    numbers: dict[Any, int] = {}
    entries = list(request.entries)
    if variant.api == "responses" and variant.options.memory != "inline":
        entries = entries[len(request.turn_context.messages) :]  # they are part of the instructions
    for entry in entries:
        if isinstance(entry, AssistantEntry):
            words = [item.text for item in entry.items if isinstance(item, (OutputText, Refusal)) and item.text]
            calls = [(index, item) for index, item in enumerate(entry.items) if isinstance(item, Call)]
            if variant.api == "chat":  # one text, then all calls
                lines += [("assistant", "\n".join(words))] if words else []
                lines += [_call_line(numbers, (entry.position, index), item, variant) for index, item in calls]
                continue
            for index, item in enumerate(entry.items):
                if isinstance(item, (OutputText, Refusal)) and _is_sent(item.text, variant):
                    lines.append(("assistant", item.text))
                elif isinstance(item, Call):
                    lines.append(_call_line(numbers, (entry.position, index), item, variant))
        elif isinstance(entry, OutputEntry):
            text = _expected_text(entry.content, variant)
            lines.append(("output", numbers[entry.ref.position, entry.ref.index], text if _is_sent(text, variant) else ""))
        elif variant.api == "anthropic":
            pieces = (Text(entry.content),) if isinstance(entry.content, str) else entry.content
            lines += [("user", text) for piece in pieces if _is_sent(text := _expected_text((piece,), variant), variant)]
        else:
            lines.append(("user", _expected_text(entry.content, variant)))
    return lines


def _is_sent(text: str, variant: FormatVariant) -> bool:
    """Return True unless a text is left out: Anthropic's API takes no blank text."""
    return bool(text.strip() if variant.api == "anthropic" else text)


def _call_line(numbers: dict[Any, int], ref: tuple[int, int], call: Call, variant: FormatVariant) -> ContentLine:
    numbers[ref] = len(numbers)
    return ("call", numbers[ref], sanitize_tool_name(call.tool), _normalize_arguments(_expected_arguments(call.arguments, variant)))


def _expected_arguments(text: str, variant: FormatVariant) -> str:
    """Return a call's arguments as the API has them: some APIs require an object."""
    if variant.api == "responses" or (variant.api == "chat" and not variant.options.compatible):
        return text
    if not text.strip():
        return "{}"
    try:
        if isinstance(json.loads(text), dict):
            return text
    except ValueError:
        pass
    return json.dumps({"_raw" if variant.api == "anthropic" else "arguments": text})


def _expected_text(content: Content, variant: FormatVariant) -> str:
    if isinstance(content, str):
        return content
    plain = all(isinstance(part, Text) or (isinstance(part, File) and part.url) for part in content)  # such a file is sent as its URL
    between = "\n" if variant.options.compatible and plain else "|"
    return between.join(_expected_part(part, variant) for part in content)


def _expected_part(part: Text | Image | File, variant: FormatVariant) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Image):
        return "(picture)"
    if part.url and variant.api == "chat":
        return f"[file {part.name}: {part.url}]"
    return "(file)"


# -- reasoning ---------------------------------------------------------------------------------------------------------


def find_reasoning(body: dict[str, Any], variant: FormatVariant) -> list[str]:
    """Return the reasoning that a request replays, in the form that only its maker can read."""
    if variant.api == "responses":
        return [item["encrypted_content"] for item in body["input"] if item.get("type") == "reasoning"]
    if variant.api == "chat":
        return [message["reasoning_content"] for message in body["messages"] if "reasoning_content" in message]
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [block.get("signature") or block.get("data") for block in blocks if block["type"] in ("thinking", "redacted_thinking")]


# -- decoded replies ---------------------------------------------------------------------------------------------------


def find_misread(reply: ModelReply, fake_reply: FakeReply, deltas: list[str], variant: FormatVariant) -> list[str]:
    """Return the differences between a decoded reply and the fake model's reply. `deltas`: the text that was emitted."""
    problems: list[str] = []
    words = "".join(item.text for item in reply.items if isinstance(item, (OutputText, Refusal)))
    if "".join(deltas) != words:
        problems.append(f"{variant.name}: {''.join(deltas)!r} was emitted of {words!r}")
    fake_texts = [item for item in fake_reply.items if isinstance(item, (fake_models.ReplyText, fake_models.ReplyRefusal))]
    if variant.api == "chat":  # one text, then the refusal
        fake_texts.sort(key=lambda item: isinstance(item, fake_models.ReplyRefusal))
    fake_text = "".join(item.text for item in fake_texts)
    if "".join(words.split()) != "".join(fake_text.split()):
        problems.append(f"{variant.name}: {words!r} was decoded from {fake_text!r}")
    calls = [item for item in reply.items if isinstance(item, Call)]
    uses = [item for item in fake_reply.items if isinstance(item, fake_models.ReplyCall)]
    if len(calls) != len(uses) and not (variant.api == "anthropic" and reply.finish == "filter"):
        problems.append(f"{variant.name}: {calls} were decoded from {uses}")
    for call, use in zip(calls, uses, strict=False):
        named = use.tool in (call.tool, sanitize_tool_name(call.tool)) and (not use.id or call.call_id in (use.id, ""))
        # Anthropic's API gives arguments as an object, whatever the model wrote.
        if not named or (variant.api != "anthropic" and call.arguments != (use.arguments or ("{}" if variant.api == "chat" else ""))):
            problems.append(f"{variant.name}: {call} was decoded from {use}")
    return problems


def describe_first_difference(actual: Sequence[ContentLine], expected: Sequence[ContentLine]) -> str:
    """Describe the first difference between two lists of lines."""
    for index, (one, other) in enumerate(zip(actual, expected, strict=False)):
        if one != other:
            return f"line {index}: {one!r} instead of {other!r}"
    return f"{len(actual)} lines instead of {len(expected)}: {(actual[len(expected) :] or expected[len(actual) :])[0]!r}"
